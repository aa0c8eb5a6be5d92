"""Measures a few optimizer steps, the longest rows first, and says what the whole run would take."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.batching import Pack, window
from trainer.contract import Outcome, Plan, Prediction, TrainOptions, TrialLimits
from trainer.watchdog import Halt

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

    from trainer.chat import Encoded
    from trainer.loop import Loop

WARM_STEPS = 2
"""The first steps also load kernels and grow memory pools."""
LEAST_STEPS = 5
SAMPLED_WINDOWS = 400
"""A larger plan is drawn from: counting every pack of a million rows would take longer than the trial."""
DRAWS = 400
TIGHT = 0.9


@dataclass(frozen=True, slots=True)
class StepCost:
    seconds: float
    work: float
    """Multiplications of one step, as `work_of` counts them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a token costs in one model."""

    linear: int
    """Weights of the linear layers that every token passes."""
    head: int
    """Weights of the head, which only trained tokens pass."""
    attention: int
    """Layers by width: each pair of positions costs so much."""


def subset(rows: Sequence[Encoded], limits: TrialLimits, batch: int) -> list[Encoded]:
    """One step of the longest rows, so that memory shows its limit at once, then a seeded sample of the others."""
    count = min(limits.rows, len(rows))
    by_length = sorted(range(len(rows)), key=lambda i: (-len(rows[i].ids), i))
    longest = by_length[: min(batch, count)]
    others = sorted(set(range(len(rows))) - set(longest))
    sample = random.Random(f"trial:{limits.seed}").sample(others, count - len(longest))
    return [rows[i] for i in (*longest, *sample)]


def measure(
    loop: Loop,
    rows: Sequence[Encoded],
    limits: TrialLimits,
    clock: Callable[[], float] = time.monotonic,
    note: Callable[[StepCost], None] = lambda cost: None,
) -> tuple[list[StepCost], bool]:
    """The steps measured, and whether the time sufficed; `note` is told each at once, for a trial that is ended."""
    batch = loop.options.micro_batch_size * loop.options.accumulation * loop.world.size
    windows = [list(rows[first : first + batch]) for first in range(0, len(rows), batch)]
    shape, ends = shape_of(loop.model), time.monotonic() + 60 * limits.minutes
    costs: list[StepCost] = []
    loop.prepare()
    for number in range(limits.steps):
        is_over = Outcome.OVERRUN if time.monotonic() >= ends else None
        if loop.world.agree(is_over, loop.model.device):
            return costs, False
        chosen = windows[number % len(windows)]  # where rows are few they are gone through again
        began = clock()
        try:
            loop.train_on(chosen)
        except Halt:
            return costs, False
        costs.append(StepCost(clock() - began, _work(loop, chosen, shape)))
        note(costs[-1])
    return costs, True


def plan_work(loop: Loop, rows: Sequence[Encoded], options: TrainOptions, plan: Plan) -> list[float]:
    """The work of each step of the whole run, in its own order; of a sample of them where they are many."""
    shape = shape_of(loop.model)
    steps = range(plan.total_steps)
    if plan.total_steps > SAMPLED_WINDOWS:
        steps = sorted(random.Random(f"plan:{options.seed}").sample(steps, SAMPLED_WINDOWS))  # type: ignore[assignment]
    return [_work(loop, window(rows, options, step, loop.world.size), shape) for step in steps]


def predict(costs: Sequence[StepCost], work: Sequence[float], total_steps: int, seed: int = 42) -> Prediction | None:
    """From a straight line through the measured steps; None where they are too few."""
    warm = costs[WARM_STEPS:] if len(costs) >= LEAST_STEPS + WARM_STEPS else costs[1:]
    if len(warm) < LEAST_STEPS or not work:
        return None
    scale = total_steps / len(work)
    centre = _total(warm, work) * scale
    dice = random.Random(seed)
    drawn = sorted(_total(dice.choices(warm, k=len(warm)), work) * scale for _ in range(DRAWS))
    # Steps of one run are alike; another day, another neighbour on the machine adds a few percent.
    return Prediction(centre, drawn[DRAWS // 10] * 0.97, drawn[DRAWS - 1 - DRAWS // 10] * 1.03)


def work_of(packs: Sequence[Pack], shape: Shape) -> float:
    work = 0.0
    for pack in packs:
        lines, width = len(pack.ids), len(pack.ids[0])
        work += lines * width * shape.linear + len(pack.labels) * shape.head + lines * width * width * shape.attention
    return work


def shape_of(model: PeftModel) -> Shape:
    import torch

    base: PreTrainedModel = model.get_base_model()  # type: ignore[assignment]
    decoder, head = base.get_decoder(), base.get_output_embeddings()
    linear = sum(m.weight.numel() for m in decoder.modules() if isinstance(m, torch.nn.Linear))
    config = base.config.get_text_config()
    return Shape(linear, head.weight.numel(), config.num_hidden_layers * config.hidden_size)


def advice(
    *, used: float, available: float, predicted: Prediction | None, runtime_hours: float | None
) -> Iterator[str]:
    """`used` and `available` memory in the same unit."""
    if available and used >= TIGHT * available:
        yield f"The memory is {used / available:.0%} full: choose a smaller micro batch, a shorter context or a larger GPU."
    if predicted and runtime_hours and predicted.high > 3600 * runtime_hours:
        yield (
            f"The maximum runtime of {runtime_hours:g} h may be too short for {predicted.high / 3600:.1f} h of optimizer steps: "
            "allow more time, or train fewer epochs."
        )


def _work(loop: Loop, rows: Sequence[Encoded], shape: Shape) -> float:
    """Of one step, whose time is that of the GPU with the most to do."""
    shared = loop.options.dropout == 0
    return max(work_of(loop.packs(part, share_prefix=shared), shape) for part in loop.world.shares(rows))


def _total(costs: Sequence[StepCost], work: Sequence[float]) -> float:
    """Seconds of all steps; the line never slopes down and never starts below nothing."""
    works, seconds = [cost.work for cost in costs], [cost.seconds for cost in costs]
    mean_work, mean_seconds = statistics.fmean(works), statistics.fmean(seconds)
    spread = sum((x - mean_work) ** 2 for x in works)
    both = sum((x - mean_work) * (y - mean_seconds) for x, y in zip(works, seconds, strict=True))
    slope = max(both / spread, 0.0) if spread else mean_seconds / mean_work
    start = mean_seconds - slope * mean_work
    if start < 0:
        slope, start = mean_seconds / mean_work, 0.0
    return sum(start + slope * x for x in work)
