"""What a run needs before it starts: the checks' numbers, their verdicts and the estimates behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from tensorant_app.domain.durations import say_seconds

GIB = 1024**3
ANSWERING = "answering"
"""What an evaluation's machine does: no gradients, but the weights whole, and what is remembered of each row at work."""
BYTES_PER_PARAMETER = {"lora": 2.6, "qlora": 0.7, ANSWERING: 2.1}
FIXED_BYTES = 4 * GIB


class Verdict(StrEnum):
    PASS = "pass"
    WARN = "warn"
    REFUSE = "refuse"


class Check(StrEnum):
    """The readiness checks by name; the numbers are those of `runs.md` §2."""

    COMPUTE = "compute"  # 1
    STORAGE = "storage"  # 2
    SPACE = "space"  # 3
    GPU = "gpu"  # 4
    STOCK = "stock"  # 5
    PRICE = "price"  # 6
    MEMORY = "memory"  # 7
    BUDGET = "budget"  # 8
    BASE = "base"  # 10
    BASE_FIT = "base_fit"  # 11
    VERSION = "version"  # 12
    ROWS = "rows"  # 13
    SAFETY = "safety"  # 13, the part that ends a run Refused
    SAFETY_LOOK = "safety_look"  # 13, whether all rows were looked through, by the settings of now
    BASELINE = "baseline"  # 14
    TRAINER = "trainer"  # 15
    PLAN = "plan"  # 16
    TIME = "time"  # 16, the part that only warns


RENTED_ONLY = frozenset({Check.GPU, Check.STOCK, Check.PRICE, Check.BUDGET})
"""What this computer is not asked."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's verdict with the numbers it saw and, where it refuses, what would mend it."""

    check: Check
    verdict: Verdict
    sentence: str


def passed(check: Check, sentence: str) -> Finding:
    return Finding(check, Verdict.PASS, sentence)


def refused(check: Check, sentence: str) -> Finding:
    return Finding(check, Verdict.REFUSE, sentence)


def warned(check: Check, sentence: str) -> Finding:
    return Finding(check, Verdict.WARN, sentence)


def memory_needed(parameters: int, method: str) -> int:
    """Bytes that training by a method, or `ANSWERING`, needs; context and batch size are left out of it."""
    return int(parameters * BYTES_PER_PARAMETER[method]) + FIXED_BYTES


def adapter_bytes(hidden_sizes: Sequence[tuple[int, int]], rank: int) -> int:
    """Bytes of a float32 adapter over linear layers of the given (in, out) sizes."""
    return sum((inputs + outputs) * rank for inputs, outputs in hidden_sizes) * 4


def space_needed(adapter: int, checkpoints: int) -> int:
    """Bytes of a run's files: every checkpoint keeps its adapter, two keep Adam's moments, and one package."""
    return adapter * checkpoints + 2 * (2 * adapter) + adapter


def judge_time(
    low: timedelta, high: timedelta, limit: timedelta, *, is_measured: bool, words: str, way: str
) -> Finding:
    """Whether it is expected to end in time. A formula's range is so wide that only its middle says something."""
    expected = high if is_measured else timedelta(seconds=math.sqrt(low.total_seconds() * high.total_seconds()))
    short, long = say_seconds(low.total_seconds()), say_seconds(high.total_seconds())
    span = "less than a minute" if high < timedelta(minutes=1) else long if short == long else f"{short} to {long}"
    sentence = f"It is expected to take {span} ({words}), and may take {say_seconds(limit.total_seconds())}."
    if expected > limit:
        return warned(Check.TIME, f"{sentence} The limit may end it first: {way}.")
    return passed(Check.TIME, sentence)


def gib(count: int) -> str:
    return f"{count / GIB:,.1f} GiB"
