"""Small training trials: their bounds, what their adapter is for, and what their prediction means in money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from typing import Any

from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.hyperparameters import Range, complain
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.domain.runs import RunPurpose

REPORT_TIME = timedelta(seconds=90)
"""So long past its deadline the console waits: the trainer ends a hanging step after a minute, and writes its report."""
DIAGNOSTIC = (
    "This adapter is diagnostic: a small training trial made it in a few steps, to measure time and memory. "
    "Create the full training draft, and use the adapter of that run."
)
FINISHED = "The trial is finished; its report says what the full run would take."


@dataclass(frozen=True, slots=True)
class TrialSettings:
    """What bounds a trial; the settings of the full run stand beside it, unchanged."""

    trial_rows: int = 128
    trial_validation_rows: int = 16
    trial_steps: int = 20
    trial_seed: int = 42
    trial_minutes: float = 20.0
    """All attempts together, from the call for the machine."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> TrialSettings:
        """The bounds, or `Invalid` with a sentence for every field that is out of its range."""
        known = {field.name for field in fields(cls)}
        wrong = {name: f"A trial has no bound called {name}." for name in values if name not in known}
        for name in known & set(values):
            if sentence := complain(RANGES[name], values[name]):
                wrong[name] = sentence
        if wrong:
            raise Invalid(wrong)
        return cls(**values)

    def as_values(self) -> dict[str, Any]:
        return asdict(self)


RANGES: dict[str, Range] = {
    "trial_rows": Range("Trial training rows", 1, 512),
    "trial_validation_rows": Range("Trial validation rows", 0, 64),
    "trial_steps": Range("Trial steps", 6, 50),
    "trial_seed": Range("Trial seed", 0, 2**31 - 1),
    "trial_minutes": Range("Trial time limit", 1, 30, is_whole=False),
}


def require_usable(purpose: RunPurpose) -> None:
    """Refuse what a trial's adapter is not for: evaluating, deploying, publishing, training on."""
    if purpose is RunPurpose.TRIAL:
        raise Conflict(DIAGNOSTIC)


def cost_of(rate: HourlyRate, low: float, high: float) -> tuple[Money, Money]:
    """Of so many seconds at this price."""
    return rate.cost_of(timedelta(seconds=low)), rate.cost_of(timedelta(seconds=high))
