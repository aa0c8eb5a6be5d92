"""Where a run is trained, as it is typed into the form: this computer or RunPod, which GPUs, and within which limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from tensorant_app.domain.connections import LOCAL, RUNPOD
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.money import MICROS_PER_DOLLAR, HourlyRate
from tensorant_app.domain.placement import Placement

COUNTS = tuple(str(count) for count in range(1, 9))
FURTHER = ("second_gpu", "third_gpu", "fourth_gpu")
"""Asked for in turn where the training GPU cannot be had; empty where there is none."""
NOT_BEFORE = "not_before"
FIELDS = ("provider", "gpu_type", "gpu_count", "price_limit", "container_disk", "wait_hours", *FURTHER, NOT_BEFORE)
"""The names under which the form knows them."""
FURTHEST = timedelta(days=7)
"""A start may be so far away."""
_MINUTE = "%Y-%m-%dT%H:%M"


@dataclass(frozen=True, slots=True)
class Limit:
    """A number that bounds a rented machine."""

    label: str
    unit: str
    low: Decimal
    high: Decimal
    default: str
    is_whole: bool = False

    @property
    def words(self) -> str:
        return f"{self.low:,} – {self.high:,}"


LIMITS: Mapping[str, Limit] = {
    "price_limit": Limit("GPU list-price limit", "$/h", Decimal("0.05"), Decimal(500), "5.00"),
    "container_disk": Limit("Container disk", "GB", Decimal(20), Decimal(1_000), "60", is_whole=True),
    "wait_hours": Limit("Wait for capacity", "h", Decimal(0), Decimal(72), "0"),
}


def read_placement(typed: Mapping[str, str], now: datetime | None = None) -> Placement:
    """The place as typed, or `Invalid` with every field's sentence. This computer needs nothing but a time.

    With `now` the time must lie ahead, and not too far.
    """
    provider = typed.get("provider") or LOCAL
    not_before = _read_time(typed.get(NOT_BEFORE, ""))
    late = _time_complaint(typed.get(NOT_BEFORE, ""), not_before, now)
    if provider == LOCAL:
        if late:
            raise Invalid({NOT_BEFORE: late})
        return Placement(LOCAL, not_before=not_before)
    wrong = {name: sentence for name in LIMITS if (sentence := _complaint(name, typed.get(name, "")))}
    wrong |= {NOT_BEFORE: late} if late else {}
    wrong |= _further_complaints(typed, is_wait_known="wait_hours" not in wrong)
    if provider != RUNPOD:
        wrong["provider"] = "Choose this computer or RunPod."
    if typed.get("gpu_count", "1") not in COUNTS:
        wrong["gpu_count"] = "A machine has 1 to 8 GPUs."
    if not typed.get("gpu_type", "").strip():
        wrong["gpu_type"] = "Choose a training GPU."
    if wrong:
        raise Invalid(wrong)
    return Placement(
        provider,
        (typed["gpu_type"].strip(), *(typed[name] for name in FURTHER if typed.get(name))),
        int(typed.get("gpu_count", "1")),
        HourlyRate.dollars(_number("price_limit", typed.get("price_limit", ""))),
        int(_number("container_disk", typed.get("container_disk", ""))),
        timedelta(hours=float(_number("wait_hours", typed.get("wait_hours", "")))),
        not_before,
    )


def place_complaints(typed: Mapping[str, str]) -> dict[str, str]:
    """Field → sentence, for everything about the place that cannot be used as typed, whatever the time."""
    try:
        read_placement(typed)
    except Invalid as error:
        return error.fields
    return {}


def type_placement(stored: Mapping[str, Any] | None) -> dict[str, str]:
    """A saved run's place as one would type it."""
    place = Placement.of(stored or {})
    at = place.not_before.astimezone(UTC).strftime(_MINUTE) if place.not_before else ""
    if place.provider != RUNPOD:
        return {"provider": LOCAL, "gpu_type": "", NOT_BEFORE: at}
    further = (*place.gpu_types[1:], *("" for _ in FURTHER))
    limit = place.rate_limit.per_hour.micros if place.rate_limit else None
    return {
        "provider": RUNPOD,
        "gpu_type": place.gpu_types[0] if place.gpu_types else "",
        "gpu_count": str(place.gpu_count),
        "price_limit": f"{Decimal(limit) / MICROS_PER_DOLLAR:.2f}" if limit else LIMITS["price_limit"].default,
        "container_disk": f"{place.disk_gb:,}",
        "wait_hours": f"{place.wait / timedelta(hours=1):g}",
        **dict(zip(FURTHER, further, strict=False)),
        NOT_BEFORE: at,
    }


def raised_limit(rate: HourlyRate) -> str:
    """The least limit that lets this price through, as one would type it: whole cents, rounded up."""
    cents = -(-rate.per_hour.micros * 100 // MICROS_PER_DOLLAR)
    return f"{Decimal(cents) / 100:.2f}"


def _read_time(text: str) -> datetime | None:
    """In UTC unless it says otherwise; None where nothing is typed, or nothing that can be read."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _time_complaint(text: str, at: datetime | None, now: datetime | None) -> str:
    if text.strip() and at is None:
        return "Not before must be a day and a time in UTC, such as 2026-12-01 08:00."
    if at is None or now is None:
        return ""
    if at <= now:
        return f"Not before has passed: it is {now:%Y-%m-%d %H:%M} UTC. Clear it to start at once."
    return f"Not before must lie within 7 days, by {now + FURTHEST:%Y-%m-%d %H:%M} UTC." if at > now + FURTHEST else ""


def _further_complaints(typed: Mapping[str, str], *, is_wait_known: bool) -> dict[str, str]:
    """A GPU twice says nothing new, and without waiting nothing is asked for twice."""
    wrong, seen = {}, {typed.get("gpu_type", "").strip()}
    never_waits = is_wait_known and not _number("wait_hours", typed.get("wait_hours", ""))
    for name in FURTHER:
        chosen = typed.get(name, "")
        if chosen and never_waits:
            wrong[name] = "It is only asked for while the run waits: set Wait for capacity, or choose None."
        elif chosen and chosen in seen:
            wrong[name] = "This GPU is chosen already. Choose another one, or None."
        seen.add(chosen)
    return wrong


def _complaint(name: str, text: str) -> str:
    limit = LIMITS[name]
    try:
        number = _number(name, text)
    except InvalidOperation:
        return f"{limit.label} must be a number, such as {limit.default}."
    if not limit.low <= number <= limit.high:
        return f"{limit.label} must be between {limit.low:,} and {limit.high:,}."
    if limit.is_whole and number != number.to_integral_value():
        return f"{limit.label} must be a whole number, such as {limit.default}."
    return ""


def _number(name: str, text: str) -> Decimal:
    number = Decimal(text.strip().lstrip("$").replace(",", "").replace(" ", "") or LIMITS[name].default)
    if not number.is_finite():
        raise InvalidOperation
    return number
