"""How long training may take before anything was measured: work divided by what a machine of its kind does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tensorant_app.domain.hyperparameters import RunSettings

WORK_PER_PARAMETER = 4
"""Floating-point operations for each token: forward and back through frozen weights, whose own gradients are not needed."""
CORE_SPEED = (15e9, 100e9)
"""Operations a second of one CPU core, as measured: crowded and without shared beginnings, and quiet with them."""
GPU_SHARE = (0.12, 0.45)
"""Of a GPU's bfloat16 speed that training reaches: short rows and small models the less, full packs the more."""
GPU_SPEED: tuple[tuple[str, float], ...] = (
    ("B200", 2250e12),
    ("H200", 989e12),
    ("H100", 800e12),
    ("A100", 312e12),
    ("L40S", 362e12),
    ("RTX PRO 6000", 500e12),
    ("RTX 6000 ADA", 364e12),
    ("RTX 5090", 210e12),
    ("RTX 4090", 165e12),
    ("RTX A6000", 155e12),
    ("A40", 150e12),
    ("L40", 181e12),
    ("A10", 125e12),
    ("L4", 121e12),
)
"""Makers' dense bfloat16 figures; the first name that is part of a type's name counts."""
UNKNOWN_GPU = 70e12
"""Of a small card of the Ampere generation, the oldest that may train."""
EACH_MORE = 0.8
"""Several of one machine together: their number to this power, until it is measured."""
QUANTISED = 1.3
"""So much longer QLoRA takes."""


class Source(StrEnum):
    """What an estimate is made from, the best first."""

    TRIAL = "trial"
    RUNS = "runs"
    FORMULA = "formula"


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds for each training token; one run in ten is expected below, one above."""

    low: float
    high: float


def formula_pace(parameters: int, settings: RunSettings, gpu_type: str | None, count: int) -> Pace:
    """`gpu_type` is None for a CPU, and `count` then its cores."""
    work = WORK_PER_PARAMETER * parameters * (QUANTISED if settings.method == "qlora" else 1.0)
    together = max(count, 1) ** EACH_MORE
    slow, fast = CORE_SPEED if gpu_type is None else _gpu(gpu_type)
    return Pace(work / (fast * together), work / (slow * together))


def sway(settings: RunSettings) -> str:
    """What pulls the time up or down, most of all for these settings."""
    longer = ["more and longer rows"]
    longer += ["QLoRA"] if settings.method == "qlora" else []
    longer += ["dropout above 0, for rows cannot share their beginning"] if settings.dropout else []
    longer += ["no packing"] if not settings.packing else []
    longer += ["answers at each checkpoint"] if settings.evaluate_at_checkpoints else []
    shorter = ["a faster or a second GPU"] + (["a common system prompt"] if not settings.dropout else [])
    shorter += ["early stop"] if settings.early_stop else []
    return f"Longer with {_list(longer)}; shorter with {_list(shorter)}."


def _gpu(gpu_type: str) -> tuple[float, float]:
    speed = next((speed for name, speed in GPU_SPEED if name in gpu_type.upper()), UNKNOWN_GPU)
    return speed * GPU_SHARE[0], speed * GPU_SHARE[1]


def _list(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
