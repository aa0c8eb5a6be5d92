"""The gate: sure gains pass, doubt does not, and the same scores always give the same verdict."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.gate import (
    MIN_TEST_ROWS,
    Decision,
    GateRule,
    Metric,
    RowScore,
    Verdict,
    choose_metric,
    judge,
    mean_interval,
)

EXACT, F1 = GateRule(Metric.EXACT), GateRule(Metric.F1)


def exact(*right: bool, likely: list[bool] | None = None) -> list[RowScore]:
    """Rows answered all right or all wrong, so that token F1 says the same."""
    guesses: list[bool | None] = [*likely] if likely else [None] * len(right)
    return [RowScore(n, hit, float(hit), guess) for n, (hit, guess) in enumerate(zip(right, guesses, strict=True), 1)]


def overlap(*f1: float) -> list[RowScore]:
    return [RowScore(n, value == 1, value) for n, value in enumerate(f1, start=1)]


def mixed(right: int, rows: int) -> list[bool]:
    return [n < right for n in range(rows)]


def test_a_sure_gain_passes_and_says_how_large_it_is() -> None:
    verdict = judge(exact(*mixed(80, 100)), exact(*mixed(40, 100)), EXACT)

    assert verdict.passed
    assert verdict.difference == pytest.approx(0.4)
    assert 0.3 <= verdict.lower < 0.4 < verdict.upper <= 0.5
    assert (verdict.rows, verdict.baseline_score) == (100, 0.4)
    assert verdict.reason == (
        "The adapter is better than the baseline by +40.0 points "
        f"(95 % between {verdict.lower * 100:+.1f} and {verdict.upper * 100:+.1f})."
    )


def test_a_base_that_knows_the_label_but_not_the_format_is_given_credit_for_it() -> None:
    adapter = exact(*mixed(35, 100))
    baseline = exact(*[False] * 100, likely=mixed(35, 100))

    verdict = judge(adapter, baseline, EXACT)

    assert verdict.decision is Decision.NO_GAIN
    assert verdict.difference == 0
    assert (verdict.adapter.exact, verdict.baseline.exact, verdict.baseline.likely) == (0.35, 0.0, 0.35)


def test_the_baseline_is_the_better_of_answer_and_likeliest_label_in_each_row() -> None:
    answered = [True, True, False, False] * 25
    guessed = [True, False, True, False] * 25

    verdict = judge(exact(*[True] * 100), exact(*answered, likely=guessed), EXACT)

    assert verdict.baseline_score == 0.75
    assert (verdict.baseline.exact, verdict.baseline.likely) == (0.5, 0.5)
    assert verdict.difference == 0.25


def test_without_labels_token_f1_is_compared() -> None:
    assert choose_metric(()) is Metric.F1
    assert choose_metric(("no", "yes")) is Metric.EXACT

    verdict = judge(overlap(*[0.8] * 60), overlap(*[0.5] * 60), F1)

    assert verdict.passed
    assert verdict.lower == pytest.approx(0.3)
    assert verdict.baseline.likely is None


def test_an_uncertain_gain_does_not_pass() -> None:
    verdict = judge(exact(*mixed(32, 60)), exact(*mixed(30, 60)[::-1]), EXACT)

    assert verdict.decision is Decision.NO_GAIN
    assert verdict.lower < 0 < verdict.difference
    assert "which is not a sure gain" in verdict.reason


def test_a_gain_must_lie_above_the_margin_and_not_on_it() -> None:
    adapter, baseline = overlap(*[0.75] * 60), overlap(*[0.5] * 60)

    on_it = judge(adapter, baseline, replace(F1, margin=0.25))
    above = judge(adapter, baseline, replace(F1, margin=0.2))

    assert on_it.decision is Decision.NO_GAIN
    assert "not more than +25.0" in on_it.reason
    assert above.passed


@pytest.mark.parametrize(
    ("rows", "decision"), [(1, Decision.TOO_FEW_ROWS), (49, Decision.TOO_FEW_ROWS), (50, Decision.PASSED)]
)
def test_few_rows_decide_nothing_however_good(rows: int, decision: Decision) -> None:
    verdict = judge(exact(*[True] * rows), exact(*[False] * rows), EXACT)

    assert verdict.decision is decision
    assert verdict.passed is (rows >= MIN_TEST_ROWS)
    assert (rows < 50) == (verdict.reason == f"There are too few test rows to decide: {rows}, and 50 are needed.")


@pytest.mark.parametrize(("tolerance", "decision"), [(0.05, Decision.GUARD_FAILED), (0.15, Decision.PASSED)])
def test_a_guard_metric_may_fall_as_far_as_was_allowed(tolerance: float, decision: Decision) -> None:
    baseline = [RowScore(n, False, 0.9) for n in range(100)]
    adapter = [RowScore(n, n < 60, 0.8) for n in range(100)]

    verdict = judge(adapter, baseline, replace(EXACT, guards={Metric.F1: tolerance}))

    assert verdict.decision is decision
    if decision is Decision.GUARD_FAILED:
        assert "token F1 changed by -10.0 points against the base model; -5.0 is allowed" in verdict.reason


def bad_pairs() -> dict[str, tuple[list[RowScore], list[RowScore], GateRule, str, str]]:
    good, fewer = exact(*[True] * 60), exact(*[True] * 58)
    half = exact(*[True] * 30, likely=[True] * 30) + [RowScore(n, True, 1.0) for n in range(31, 61)]
    return {
        "rows missing": (good, fewer, EXACT, "rows", "only one answered 59, 60."),
        "many rows missing": (good, [], EXACT, "rows", "1, 2, 3, 4, 5 and more"),
        "nothing scored": ([], [], EXACT, "rows", "no scored rows"),
        "a row twice": ([*good, good[0]], good, EXACT, "adapter", "scored twice"),
        "F1 that is no number": (overlap(float("nan")), overlap(1.0), F1, "adapter", "between 0 and 1"),
        "F1 above 1": (overlap(1.0), overlap(1.5), F1, "baseline", "between 0 and 1"),
        "half the likelihoods": (good, half, EXACT, "baseline", "for some rows only"),
        "a negative margin": (good, good, replace(EXACT, margin=-0.1), "margin", "at least 0"),
        "a margin that is no number": (good, good, replace(EXACT, margin=float("nan")), "margin", "at least 0"),
        "few resamples": (good, good, replace(EXACT, resamples=100), "resamples", "At least 2,000"),
        "no minimum": (good, good, replace(EXACT, min_rows=0), "min_rows", "At least 1"),
        "a negative tolerance": (good, good, replace(EXACT, guards={Metric.F1: -1.0}), "guards", "between 0 and 1"),
    }


@pytest.mark.parametrize("name", bad_pairs())
def test_scores_that_cannot_be_compared_are_refused(name: str) -> None:
    adapter, baseline, rule, field, sentence = bad_pairs()[name]

    with pytest.raises(Invalid) as refused:
        judge(adapter, baseline, rule)

    assert sentence in refused.value.fields[field]


def test_a_verdict_of_this_version_is_the_verdict_of_every_version() -> None:
    """Stored verdicts must be found again; these bounds were written down when the gate was made."""
    draw = Random(7)
    adapter = [RowScore(n, draw.random() < 0.7, 0.0) for n in range(200)]
    baseline = [RowScore(n, draw.random() < 0.5, 0.0) for n in range(200)]

    verdict = judge(adapter, baseline, EXACT)

    assert (verdict.difference, verdict.lower, verdict.upper) == (0.24, 0.145, 0.335)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    draw = Random(3)
    held = 0
    for sample in range(100):
        values = [float(draw.random() < 0.3) for _ in range(100)]
        interval = mean_interval(values, seed=sample)
        held += interval.lower <= 0.3 <= interval.upper

    assert 88 <= held <= 100


def test_a_thousand_rows_are_judged_in_two_seconds() -> None:
    adapter, baseline = exact(*mixed(700, 1000)), exact(*mixed(500, 1000))
    started = time.process_time()

    judge(adapter, baseline, EXACT)

    assert time.process_time() - started < 2


scores = st.lists(st.tuples(st.booleans(), st.floats(0, 1), st.booleans()), min_size=1, max_size=70)
rules = st.builds(GateRule, metric=st.sampled_from(Metric), margin=st.sampled_from([0.0, 0.1]), seed=st.integers(0, 99))


def rows_of(scores: list[tuple[bool, float, bool]]) -> list[RowScore]:
    return [RowScore(n, *score) for n, score in enumerate(scores)]


@given(scores, rules)
@settings(deadline=None, max_examples=15)
def test_identical_answers_never_pass(scores: list[tuple[bool, float, bool]], rule: GateRule) -> None:
    verdict = judge(rows_of(scores), rows_of(scores), rule)

    assert not verdict.passed
    assert verdict.difference <= 0


@given(scores, scores, rules, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=15)
def test_recomputing_in_any_order_gives_the_same_verdict_with_bounds_around_the_mean(
    first: list[tuple[bool, float, bool]], second: list[tuple[bool, float, bool]], rule: GateRule, shuffle: Random
) -> None:
    size = min(len(first), len(second))
    adapter, baseline = rows_of(first)[:size], rows_of(second)[:size]

    verdicts: list[Verdict] = [
        judge(adapter, baseline, rule),
        judge(shuffle.sample(adapter, size), shuffle.sample(baseline, size), rule),
    ]

    assert verdicts[0] == verdicts[1]
    assert -1 <= verdicts[0].lower <= verdicts[0].upper <= 1
    assert verdicts[0].passed == (verdicts[0].lower > rule.margin and size >= MIN_TEST_ROWS)
