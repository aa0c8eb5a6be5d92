"""The training trial report: what a trial has measured at any moment, and why the rest is missing."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import trial
from trainer.attempt import peak_rss_mb, take
from trainer.base import load_model, load_tokenizer, stop_tokens
from trainer.checkpoint import Progress
from trainer.contract import AttemptKeys, Base, Plan, Prediction, TrainOptions, TrialLimits, TrialReport
from trainer.data import Example, Limits, encode_row, rows_refused
from trainer.errors import TrainerError
from trainer.loop import Loop
from trainer.lora import add_lora
from trainer.mask_file import texts_of
from trainer.step import make_optimizer
from trainer.watchdog import Watchdog

if TYPE_CHECKING:
    from trainer.chat import Encoded


@dataclass(slots=True)
class Measured:
    """What a trial has found so far; a report can be made of it whatever ends it."""

    limits: TrialLimits
    began: float = field(default_factory=time.monotonic)
    """On the monotonic clock."""
    stage: str = "the rows were read"
    """What it is at, for the sentence about what is missing."""
    plan: Plan | None = None
    """Of the whole run."""
    rows: int = 0
    validation_rows: int = 0
    prepared: float | None = None
    costs: list[trial.StepCost] = field(default_factory=list)
    losses: Sequence[float] = ()
    validation_loss: float | None = None
    prediction: Prediction | None = None
    failure: str | None = None
    """Why it ended, where not for the time."""
    is_over_time: bool = False

    @property
    def is_whole(self) -> bool:
        return len(self.costs) >= self.limits.steps

    def report(self) -> TrialReport:
        seconds = tuple(round(cost.seconds, 4) for cost in self.costs)
        allocated, reserved, available = _memory() if self.prepared is not None else (None, None, None)
        advice = trial.advice(
            used=reserved or allocated or 0,
            available=available or 0,
            predicted=self.prediction,
            runtime_hours=self.limits.runtime_hours,
        )
        return TrialReport(
            completed=self.is_whole and self.failure is None,
            rows=self.rows,
            steps=len(seconds),
            step_seconds=seconds,
            median_step_seconds=statistics.median(seconds) if seconds else None,
            losses=tuple(self.losses),
            validation_rows=self.validation_rows,
            validation_loss=self.validation_loss,
            prepare_seconds=round(self.prepared, 2) if self.prepared is not None else None,
            memory_allocated_mb=allocated,
            memory_reserved_mb=reserved,
            memory_available_mb=available,
            full_run_steps=self.plan.total_steps if self.plan else None,
            prediction=self.prediction,
            missing=self._missing(has_memory=allocated is not None, has_reserved=reserved is not None),
            advice=tuple(advice),
        )

    def _missing(self, *, has_memory: bool, has_reserved: bool) -> dict[str, str]:
        missing, steps = {}, len(self.costs)
        if not self.is_whole or self.failure:
            missing["steps"] = f"{self._why_it_ended()} after {steps} of {self.limits.steps} steps{self._where()}."
        if self.prediction is None:
            missing["prediction"] = (
                f"{steps} steps are too few to tell the whole run's time; {trial.LEAST_STEPS + 1} are needed."
            )
        if not has_memory:
            missing["memory_allocated_mb"] = "The model was not loaded, so no memory was measured."
        elif not has_reserved:
            missing["memory_reserved_mb"] = "There is no GPU here; only the memory of the process was measured."
        if self.validation_loss is None:
            missing["validation_loss"] = (
                "It ended before the validation rows." if self.validation_rows else "There were no validation rows."
            )
        return missing

    def _why_it_ended(self) -> str:
        if self.failure:
            return f"It failed ({self.failure})"
        return f"The {self.limits.minutes:g} minutes were over" if self.is_over_time else "It was ended from outside"

    def _where(self) -> str:
        if self.prepared is None:
            return f", while {self.stage}: nothing could be measured yet"
        return f"; preparing took {self.prepared:.0f} s of other time"


def run_trial(
    base: Base,
    train: Path,
    validation: Path | None,
    options: TrainOptions,
    limits: TrialLimits,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> TrialReport:
    """Of two files, for the command line; not completed where the time was over, with what was measured till then."""
    found = Measured(limits.capped())
    tokenizer = load_tokenizer(base)
    conditions = Limits(stop_tokens(base, tokenizer), options.context_length)
    rows = _encoded(tokenizer, train, "train", conditions, options)
    held = _encoded(tokenizer, validation, "validation", conditions, options) if validation else []
    model = add_lora(load_model(base, quantised=options.method == "qlora"), options)
    with tempfile.TemporaryDirectory(prefix="tensorant-trial-") as folder:
        attempt = take(Path(folder), AttemptKeys.of("runs", "trial", 1), machine="trial", number=1)
        assert attempt is not None, "nobody else knows this folder"
        chosen, plan = choose(found, rows, held, options)
        optimizer = make_optimizer(model, options)
        loop = Loop(model, chosen, held, options, plan, optimizer, Progress(), attempt, Watchdog(attempt))
        loop.validation = held[: found.validation_rows]
        measure(found, loop, rows, clock)
        found.is_over_time = not found.is_whole
        if found.validation_rows and found.is_whole:
            found.validation_loss = loop.validation_loss()
    return found.report()


def choose(
    found: Measured, rows: Sequence[Encoded], held: Sequence[Encoded], options: TrainOptions, world: int = 1
) -> tuple[list[Encoded], Plan]:
    """The subset, and the plan by which a trial trains it; the plan of the whole run goes into `found`.

    `world` is how many GPUs share a step.
    """
    limits = found.limits
    found.plan = Plan.of(len(rows), options, world)
    if found.plan.total_steps == 0:
        raise TrainerError("nothing_to_train", what=f"{len(rows)} rows and {options.epochs} epochs make no step")
    chosen = trial.subset(rows, limits, options.micro_batch_size * options.accumulation * world)
    found.rows, found.validation_rows = len(chosen), min(len(held), limits.validation_rows)
    warmup = round(limits.steps * options.warmup_ratio)
    return chosen, replace(found.plan, total_steps=limits.steps, warmup_steps=warmup)


def measure(
    found: Measured,
    loop: Loop,
    rows: Sequence[Encoded],
    clock: Callable[[], float] = time.monotonic,
    tell: Callable[[], None] = lambda: None,
) -> None:
    """Train the steps of the trial, then say what the whole run would take; `tell` is called after each step."""
    assert found.plan is not None, "chosen before"
    _watch_memory()
    found.prepared, found.stage = time.monotonic() - found.began, "steps were measured"

    def note(cost: trial.StepCost) -> None:
        found.costs.append(cost)
        found.losses = loop.progress.losses
        tell()

    trial.measure(loop, loop.rows, found.limits, clock, note)
    work = trial.plan_work(loop, rows, loop.options, found.plan)
    found.prediction = trial.predict(found.costs, work, found.plan.total_steps, found.limits.seed)


def _encoded(tokenizer: Any, path: Path, split: str, limits: Limits, options: TrainOptions) -> list[Encoded]:
    encoded, errors = [], []
    for number, text in enumerate(texts_of(path), start=1):
        sequences, error = encode_row(tokenizer, split, Example(number, text, options.merge_system), limits)
        encoded += sequences
        errors += [error] if error else []
    if errors:
        raise rows_refused(errors)
    if not encoded:
        raise TrainerError("nothing_to_train", what=f"{path.name} has no rows")
    return encoded


def _watch_memory() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def _memory() -> tuple[int, int | None, int]:
    """Allocated, reserved and available megabytes, at their peak."""
    import os

    import torch

    if torch.cuda.is_available():
        total = torch.cuda.get_device_properties(0).total_memory
        return torch.cuda.max_memory_allocated() >> 20, torch.cuda.max_memory_reserved() >> 20, total >> 20
    return peak_rss_mb(), None, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
