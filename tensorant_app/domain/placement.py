"""Where a run's machines are asked for: the GPU choices, their limits, and when the next one is asked for after a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tensorant_app.domain.money import HourlyRate, Money

MOST_FURTHER = 3
"""GPU types beside the first choice."""
_BUSY_TRIES = 3
_NEXT_CHOICE = timedelta(seconds=5)
_BUSY = timedelta(seconds=15)
_FIRST_ROUND = timedelta(minutes=1)
_LONGEST = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Placement:
    """What the draft says of its machine."""

    provider: str = ""
    """The provider's name; empty for whichever the organization has."""
    gpu_types: tuple[str, ...] = ()
    """The first choice, then up to three further ones for a run that waits for capacity; empty for the cheapest."""
    gpu_count: int = 1
    rate_limit: HourlyRate | None = None
    """For the whole machine."""
    disk_gb: int = 60
    wait: timedelta = timedelta(0)
    """How long it waits for capacity; zero where a refusal ends it."""
    not_before: datetime | None = None

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Placement:
        """As `as_values` wrote it; what is missing has its default."""
        limit, not_before = stored.get("rate_limit_micros"), stored.get("not_before")
        return cls(
            provider=stored.get("provider", ""),
            gpu_types=tuple(stored.get("gpu_types", ())),
            gpu_count=stored.get("gpu_count", 1),
            rate_limit=HourlyRate(Money(limit)) if limit is not None else None,
            disk_gb=stored.get("disk_gb", 60),
            wait=timedelta(hours=stored.get("wait_hours", 0)),
            not_before=datetime.fromisoformat(not_before) if not_before else None,
        )

    def as_values(self) -> dict[str, Any]:
        return {
            "provider": self.provider,
            "gpu_types": list(self.gpu_types),
            "gpu_count": self.gpu_count,
            "rate_limit_micros": self.rate_limit.per_hour.micros if self.rate_limit else None,
            "disk_gb": self.disk_gb,
            "wait_hours": self.wait / timedelta(hours=1),
            "not_before": self.not_before.isoformat() if self.not_before else None,
        }

    def gpu_type(self, refusals: int) -> str | None:
        """The choice that is asked for after so many refusals in a row."""
        return self.gpu_types[refusals % len(self.gpu_types)] if self.gpu_types else None


def next_ask(placement: Placement, *, refusals: int, since: datetime, is_busy: bool, now: datetime) -> datetime | None:
    """When another machine may be asked for after `refusals` in a row, the first one at `since`; None where it ends.

    Only a refusal that is certain leads here: nothing was made by any of them.
    """
    if is_busy and refusals <= _BUSY_TRIES:
        return now + _BUSY
    if not placement.wait or now >= since + placement.wait:
        return None
    choices = max(len(placement.gpu_types), 1)
    if refusals % choices:
        return now + _NEXT_CHOICE
    rounds = min(refusals // choices - 1, 10)
    return min(now + min(_FIRST_ROUND * int(2**rounds), _LONGEST), since + placement.wait)
