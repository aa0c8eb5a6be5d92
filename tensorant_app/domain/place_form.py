"""Where a run is trained, as it is typed into the form: this computer or RunPod, which GPUs, and within which limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from tensorant_app.domain.connections import LOCAL, RUNPOD
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.money import MICROS_PER_DOLLAR, HourlyRate
from tensorant_app.domain.placement import Placement

COUNTS = tuple(str(count) for count in range(1, 9))
FIELDS = ("provider", "gpu_type", "gpu_count", "price_limit", "container_disk", "wait_hours")
"""The names under which the form knows them."""


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


def read_placement(typed: Mapping[str, str]) -> Placement:
    """The place as typed, or `Invalid` with every field's sentence. This computer needs nothing else."""
    provider = typed.get("provider") or LOCAL
    if provider == LOCAL:
        return Placement(LOCAL)
    wrong = {name: sentence for name in LIMITS if (sentence := _complaint(name, typed.get(name, "")))}
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
        (typed["gpu_type"].strip(),),
        int(typed.get("gpu_count", "1")),
        HourlyRate.dollars(_number("price_limit", typed.get("price_limit", ""))),
        int(_number("container_disk", typed.get("container_disk", ""))),
        timedelta(hours=float(_number("wait_hours", typed.get("wait_hours", "")))),
    )


def place_complaints(typed: Mapping[str, str]) -> dict[str, str]:
    """Field → sentence, for everything about the place that cannot be used as typed."""
    try:
        read_placement(typed)
    except Invalid as error:
        return error.fields
    return {}


def type_placement(stored: Mapping[str, Any] | None) -> dict[str, str]:
    """A saved run's place as one would type it."""
    place = Placement.of(stored or {})
    if place.provider != RUNPOD:
        return {"provider": LOCAL, "gpu_type": ""}
    limit = place.rate_limit.per_hour.micros if place.rate_limit else None
    return {
        "provider": RUNPOD,
        "gpu_type": place.gpu_types[0] if place.gpu_types else "",
        "gpu_count": str(place.gpu_count),
        "price_limit": f"{Decimal(limit) / MICROS_PER_DOLLAR:.2f}" if limit else LIMITS["price_limit"].default,
        "container_disk": f"{place.disk_gb:,}",
        "wait_hours": f"{place.wait / timedelta(hours=1):g}",
    }


def raised_limit(rate: HourlyRate) -> str:
    """The least limit that lets this price through, as one would type it: whole cents, rounded up."""
    cents = -(-rate.per_hour.micros * 100 // MICROS_PER_DOLLAR)
    return f"{Decimal(cents) / 100:.2f}"


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
