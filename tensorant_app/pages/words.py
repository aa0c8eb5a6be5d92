"""Times, counts and sizes as people read them; for state handlers, so everything here is plain text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tensorant_app.domain.spend import Spend, SpendState
from tensorant_app.services import times


def ago(at: datetime | None, now: datetime | None = None) -> str:
    """ "59 min ago"; nothing without a time."""
    if at is None:
        return ""
    past = (now or times.now()) - _aware(at)
    return "just now" if past < timedelta(minutes=1) else f"{span(past)} ago"


def span(past: timedelta) -> str:
    """ "42 s", "59 min", "5 h", "4 d"."""
    seconds = max(int(past.total_seconds()), 0)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def exact(at: datetime | None) -> str:
    """The moment in UTC, for a tooltip."""
    return f"{_aware(at):%Y-%m-%d %H:%M:%S} UTC" if at else ""


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def price_of(spend: Spend) -> tuple[str, str]:
    """The number for a list, and in a word what it is; both empty where nothing was rented."""
    word = {SpendState.ESTIMATED: "estimated", SpendState.OPEN: "so far", SpendState.SETTLED: "actual"}
    return (str(spend.shown), word[spend.state]) if spend.state in word else ("", "")


def size(number: int) -> str:
    """ "37 B", "84 kB", "2.4 MB", "1.3 GB"."""
    for unit, each in (("GB", 1e9), ("MB", 1e6)):
        if number >= each:
            return f"{number / each:,.1f} {unit}"
    return f"{number / 1e3:.0f} kB" if number >= 1_000 else f"{number} B"


def parameters(number: int) -> str:
    """ "135 M", "8.2 B" parameters."""
    if number >= 1_000_000_000:
        return f"{number / 1e9:.1f} B"
    return f"{number / 1e6:.0f} M" if number >= 1_000_000 else f"{number:,}"


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)
