"""The formula that stands in until something is measured."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tensorant_app.domain.estimates import formula_pace
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.readiness import Check, Verdict, judge_time

SETTINGS = RunSettings()


def test_the_measured_paces_of_one_core_lie_in_the_formulas_range() -> None:
    """SmolLM2 with 134.5 million parameters: 65 tokens a second padded, 185 with a shared prefix (docs/benchmarks.md)."""
    pace = formula_pace(134_500_000, SETTINGS, None, 1)

    assert pace.low < 1 / 185 * 1.01
    assert pace.high > 1 / 65


@pytest.mark.parametrize(
    ("slower", "faster"),
    [
        (("NVIDIA A40", 1), ("NVIDIA H100 80GB HBM3", 1)),
        (("NVIDIA L4", 1), ("NVIDIA L40S", 1)),
        (("NVIDIA A40", 1), ("NVIDIA A40", 4)),
        ((None, 2), ("Some new card", 1)),
    ],
)
def test_a_faster_machine_is_faster(slower: tuple[str | None, int], faster: tuple[str | None, int]) -> None:
    slow, fast = formula_pace(8 * 10**9, SETTINGS, *slower), formula_pace(8 * 10**9, SETTINGS, *faster)

    assert fast.low < slow.low
    assert fast.high < slow.high
    assert slow.low < slow.high


def test_four_gpus_are_not_four_times_as_fast() -> None:
    one, four = (formula_pace(10**9, SETTINGS, "NVIDIA A40", count) for count in (1, 4))

    assert 2.5 < one.low / four.low < 3.5


@pytest.mark.parametrize(
    ("low", "high", "is_measured", "verdict"),
    [
        (50, 59, True, Verdict.PASS),
        (50, 61, True, Verdict.WARN),
        (10, 300, False, Verdict.PASS),
        (30, 300, False, Verdict.WARN),
    ],
)
def test_the_limit_is_held_against_what_is_expected(low: int, high: int, is_measured: bool, verdict: Verdict) -> None:
    minutes = [timedelta(minutes=value) for value in (low, high, 60)]

    finding = judge_time(*minutes, is_measured=is_measured, words="from this run's trial", way="allow more")

    assert (finding.check, finding.verdict) == (Check.TIME, verdict)
    assert "(from this run's trial), and may take 1 h" in finding.sentence


def test_seconds_are_not_told_as_a_range_of_nothing() -> None:
    low, high, limit = timedelta(seconds=0.2), timedelta(seconds=0.9), timedelta(hours=6)

    said = judge_time(low, high, limit, is_measured=False, words="by formula", way="allow more").sentence

    assert said.startswith("It is expected to take less than a minute (by formula), and may take 6 h")
