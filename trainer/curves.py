"""Reads from the curves whether training still makes sense: divergence, overfitting, and the best evaluation so far."""

from __future__ import annotations

import itertools
import math

from trainer.checkpoint import Progress
from trainer.contract import Plan, TrainOptions
from trainer.errors import TrainerError

SMOOTHING = 0.9
DIVERGED_ABOVE = 3.0
DIVERGED_STEPS = 20
NOISE = 0.1
"""Below this loss tripling is noise: a model that knows its rows by heart would count as diverged."""
OVERFIT_EVALUATIONS = 2
"""So often in a row the validation loss must rise while the training loss falls."""


def require_finite(loss: float, norm: float, *, learned: int, step: int, rows: list[int]) -> None:
    """Before the weights are touched; `learned` are the tokens of the step that count."""
    numbers = ", ".join(str(row) for row in sorted(set(rows))[:20])
    if learned == 0:
        gradient = f"a gradient of {norm:g}" if math.isfinite(norm) else "a gradient that is not a finite number"
        raise TrainerError("all_masked", step=step, rows=numbers, gradient=gradient)
    for what, value in (("loss", loss), ("gradient", norm)):
        if not math.isfinite(value):
            raise TrainerError("not_finite", what=what, step=step, learned=learned, rows=numbers)


def note_loss(progress: Progress, loss: float, plan: Plan) -> None:
    """A spike that heals passes; a loss that stays far above its best ends the run."""
    smoothed = loss if progress.smoothed is None else SMOOTHING * progress.smoothed + (1 - SMOOTHING) * loss
    progress.smoothed = smoothed
    progress.best = smoothed if progress.best is None else min(progress.best, smoothed)
    warm = progress.step > plan.warmup_steps
    high = warm and smoothed > DIVERGED_ABOVE * max(progress.best, NOISE)
    progress.above = progress.above + 1 if high else 0
    if progress.above >= DIVERGED_STEPS:
        facts = {"smoothed": round(smoothed, 3), "best": round(progress.best, 3), "steps": progress.above}
        raise TrainerError("diverged", step=progress.step, **facts)


def note_validation(progress: Progress, loss: float, options: TrainOptions) -> None:
    """Remember the best, and stop early where that is wished and nothing has improved for long enough."""
    progress.validations[str(progress.step)] = loss
    if progress.best_validation is None or loss < progress.best_validation:
        progress.best_validation, progress.best_step, progress.worse = loss, progress.step, 0
        return
    progress.worse += 1
    progress.stopped_early = options.early_stop and progress.worse >= options.early_stop_patience


def overfits(progress: Progress) -> bool:
    """The validation loss rises time after time while the training loss falls."""
    steps = sorted(int(step) for step in progress.validations)[-OVERFIT_EVALUATIONS - 1 :]
    if len(steps) <= OVERFIT_EVALUATIONS:
        return False
    validations = [progress.validations[str(step)] for step in steps]
    trained = [sum(progress.losses[a:b]) / (b - a) for a, b in itertools.pairwise(steps)]
    rising = all(later > earlier for earlier, later in itertools.pairwise(validations))
    return rising and all(later < earlier for earlier, later in itertools.pairwise(trained))
