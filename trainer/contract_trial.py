"""A small training trial as both sides write it down: its bounds, and the report of what it measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_ROWS = 512
MOST_VALIDATION_ROWS = 64
MOST_STEPS = 50
MOST_MINUTES = 30.0

NOTE = (
    "Optimizer steps only: preparation, validation, checkpoints, export and storage are not in it. "
    "Neither a quality evaluation nor a quote."
)


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """Of a small training trial; the defaults and caps are those of the draft."""

    rows: int = 128
    validation_rows: int = 16
    steps: int = 20
    seed: int = 42
    minutes: float = 20.0
    runtime_hours: float | None = None
    """The maximum runtime of the full run, for the advice."""

    def capped(self) -> TrialLimits:
        return TrialLimits(
            min(self.rows, MOST_ROWS),
            min(self.validation_rows, MOST_VALIDATION_ROWS),
            min(self.steps, MOST_STEPS),
            self.seed,
            min(self.minutes, MOST_MINUTES),
            self.runtime_hours,
        )


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of the optimizer steps of the whole run; preparation, validation, checkpoints and export are not in it."""

    seconds: float
    low: float
    """One run in ten is expected to be faster."""
    high: float


@dataclass(frozen=True, slots=True)
class TrialReport:
    """`trial.json`, written after each step, and what `tensorant trial --json` prints."""

    completed: bool
    """False where the time was over, or where it failed, before every step was measured."""
    rows: int
    """Training rows of the subset."""
    steps: int
    """Measured ones."""
    step_seconds: tuple[float, ...] = ()
    median_step_seconds: float | None = None
    losses: tuple[float, ...] = ()
    validation_rows: int = 0
    validation_loss: float | None = None
    prepare_seconds: float | None = None
    """Until the first step: rows, model and adapter."""
    memory_allocated_mb: int | None = None
    """At its peak; without a GPU it is the process's."""
    memory_reserved_mb: int | None = None
    memory_available_mb: int | None = None
    full_run_steps: int | None = None
    """Of the whole run, as its plan counts them."""
    prediction: Prediction | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    """What could not be measured → why, in a sentence."""
    advice: tuple[str, ...] = ()
    note: str = NOTE
