"""Where an evaluation is to be answered, as it is typed into its dialog: place, GPU, price limit and longest time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from tensorant_app.domain.connections import LOCAL, RUNPOD
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.hyperparameters import RANGES
from tensorant_app.domain.place_form import LIMITS, place_complaints, read_placement
from tensorant_app.domain.placement import Placement

BLANK: Mapping[str, str] = {
    "provider": LOCAL,
    "gpu_type": "",
    "price_limit": LIMITS["price_limit"].default,
    "hours": "2",
}
"""The dialog's fields as they begin; one GPU is all that answering uses."""


@dataclass(frozen=True, slots=True)
class Wish:
    placement: Placement
    runtime: timedelta
    """At most, all attempts together."""

    @property
    def is_rented(self) -> bool:
        return self.placement.provider == RUNPOD


def read_wish(typed: Mapping[str, str]) -> Wish:
    """The dialog as typed, or `Invalid` with every field's sentence."""
    if wrong := complaints(typed):
        raise Invalid(wrong)
    hours = _hours(typed)
    assert hours is not None
    return Wish(read_placement(_place(typed)), timedelta(hours=hours))


def complaints(typed: Mapping[str, str]) -> dict[str, str]:
    """Field → sentence, for everything that cannot be used as typed."""
    wrong = place_complaints(_place(typed))
    bounds = RANGES["maximum_runtime_hours"]
    hours = _hours(typed)
    if hours is None or not bounds.low <= hours <= bounds.high:
        wrong["hours"] = f"Maximum runtime must be between {bounds.low:g} and {bounds.high:g} hours."
    return wrong


def _place(typed: Mapping[str, str]) -> dict[str, str]:
    return {**BLANK, **typed, "gpu_count": "1"}


def _hours(typed: Mapping[str, str]) -> float | None:
    try:
        return float(typed.get("hours", BLANK["hours"]).strip().replace(",", "."))
    except ValueError:
        return None
