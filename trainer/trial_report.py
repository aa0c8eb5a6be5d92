"""The work of a trial: checks the sampled rows, trains a few steps, and writes the training trial report."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import trial
from trainer.attempt import peak_rss_mb, take
from trainer.base import load_model, load_tokenizer, stop_tokens
from trainer.checkpoint import Progress
from trainer.contract import AttemptKeys, Base, Plan, TrainOptions
from trainer.data import Example, Limits, encode_row, rows_refused
from trainer.errors import TrainerError
from trainer.loop import Loop
from trainer.lora import add_lora
from trainer.mask_file import texts_of
from trainer.step import make_optimizer
from trainer.watchdog import Watchdog

if TYPE_CHECKING:
    from trainer.chat import Encoded

Report = dict[str, Any]


def run_trial(
    base: Base,
    train: Path,
    validation: Path | None,
    options: TrainOptions,
    limits: trial.TrialLimits,
    *,
    runtime_hours: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Report:
    """The report; `completed` is false where the time was over, and then it holds what was measured till then."""
    began, limits = time.monotonic(), limits.capped()
    tokenizer = load_tokenizer(base)
    conditions = Limits(stop_tokens(base, tokenizer), options.context_length)
    rows = _encoded(tokenizer, train, "train", conditions, options)
    held = (
        _encoded(tokenizer, validation, "validation", conditions, options)[: limits.validation_rows]
        if validation
        else []
    )
    model = add_lora(load_model(base, quantised=options.method == "qlora"), options)
    _watch_memory()
    plan, batch = Plan.of(len(rows), options), options.micro_batch_size * options.accumulation
    chosen = trial.subset(rows, limits, batch)
    with tempfile.TemporaryDirectory(prefix="tensorant-trial-") as folder:
        attempt = take(Path(folder), AttemptKeys.of("runs", "trial", 1), machine="trial", number=1)
        assert attempt is not None, "nobody else knows this folder"
        loop = Loop(
            model, chosen, held, options, plan, make_optimizer(model, options), Progress(), attempt, Watchdog(attempt)
        )
        prepared = time.monotonic() - began
        costs, sufficed = trial.measure(loop, chosen, limits, clock)
        loss = loop.validation_loss() if held and sufficed else None
    predicted = trial.predict(costs, trial.plan_work(loop, rows, options, plan), plan.total_steps, limits.seed)
    return _report(costs, predicted, plan, loop, limits, prepared, sufficed, loss, runtime_hours, len(chosen))


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


def _report(
    costs: list[trial.StepCost],
    predicted: trial.Prediction | None,
    plan: Plan,
    loop: Loop,
    limits: trial.TrialLimits,
    prepared: float,
    sufficed: bool,
    loss: float | None,
    runtime_hours: float | None,
    rows: int,
) -> Report:
    allocated, reserved, available = _memory()
    missing = {}
    if not sufficed:
        missing["steps"] = (
            f"The {limits.minutes:g} minutes were over after {len(costs)} of {limits.steps} steps; preparing took {prepared:.0f} s of other time."
        )
    if predicted is None:
        missing["prediction"] = f"{len(costs)} steps are too few; {trial.LEAST_STEPS + 1} are needed."
    if reserved is None:
        missing["memory_reserved_mb"] = "There is no GPU here; only the memory of the process was measured."
    if loss is None:
        missing["validation_loss"] = (
            "There were no validation rows." if not loop.validation else "The time was over before it."
        )
    seconds = [cost.seconds for cost in costs]
    return {
        "completed": sufficed,
        "rows": rows,
        "steps": len(costs),
        "step_seconds": [round(value, 4) for value in seconds],
        "median_step_seconds": statistics.median(seconds) if seconds else None,
        "losses": loop.progress.losses,
        "validation_loss": loss,
        "prepare_seconds": round(prepared, 2),
        "memory_allocated_mb": allocated,
        "memory_reserved_mb": reserved,
        "memory_available_mb": available,
        "full_run_steps": plan.total_steps,
        "prediction": asdict(predicted) if predicted else None,
        "missing": missing,
        "advice": list(
            trial.advice(
                used=reserved or allocated, available=available, predicted=predicted, runtime_hours=runtime_hours
            )
        ),
        "note": "Optimizer steps only: preparation, validation, checkpoints, export and storage are not in it. Neither a quality evaluation nor a quote.",
    }


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
