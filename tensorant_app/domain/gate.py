"""The gate: whether an adapter is better than its baseline beyond doubt, from the scores of the same test rows.

Pure and recomputable: equal scores and rule give the equal verdict on every machine and Python version, because only
`Random.random()` is drawn from, whose sequence Python promises to keep.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from tensorant_app.domain.errors import Invalid

MIN_TEST_ROWS = 50
MIN_RESAMPLES = 2_000
TAIL = 0.025
"""Share of resamples beyond each bound: 95 % lie between."""


class Metric(StrEnum):
    EXACT = "exact"
    F1 = "token_f1"


class Decision(StrEnum):
    PASSED = "passed"
    NO_GAIN = "no_gain"
    GUARD_FAILED = "guard_failed"
    TOO_FEW_ROWS = "too_few_rows"


@dataclass(frozen=True, slots=True)
class RowScore:
    """How one model answered one test row."""

    row: int
    exact: bool
    f1: float
    """0 to 1."""
    likely_correct: bool | None = None
    """Whether the label it finds most likely is the right one; None without labels."""


@dataclass(frozen=True, slots=True)
class GateRule:
    """What was fixed before the run."""

    metric: Metric
    margin: float = 0.0
    """The lower bound of the gain must lie above it."""
    resamples: int = MIN_RESAMPLES
    seed: int = 42
    min_rows: int = MIN_TEST_ROWS
    guards: Mapping[Metric, float] = field(default_factory=dict)
    """How much the mean of a metric may fall below the base model's own."""


@dataclass(frozen=True, slots=True)
class Interval:
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Means:
    """One model's mean scores; the adapter's `exact` minus the base's `likely` is what it gained beyond the format."""

    exact: float
    f1: float
    likely: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Decision
    reason: str
    rule: GateRule
    rows: int
    baseline_score: float
    """Mean of what the adapter was compared with: under `exact`, per row the better of answer and likeliest label."""
    difference: float
    lower: float
    upper: float
    adapter: Means
    baseline: Means

    @property
    def passed(self) -> bool:
        return self.decision is Decision.PASSED


def choose_metric(labels: Sequence[str]) -> Metric:
    """Exact match where answers form a small closed set, token F1 otherwise."""
    return Metric.EXACT if labels else Metric.F1


def judge(adapter: Sequence[RowScore], baseline: Sequence[RowScore], rule: GateRule) -> Verdict:
    """The verdict on the same rows answered by both; the order of the rows does not matter."""
    _check_rule(rule)
    _check_pairs(adapter, baseline)
    tuned, base = (sorted(scores, key=lambda score: score.row) for scores in (adapter, baseline))
    own = [_own_score(score, rule.metric) for score in tuned]
    rival = [_rival_score(score, rule.metric) for score in base]
    gain = mean_interval([a - b for a, b in zip(own, rival, strict=True)], rule.seed, rule.resamples)
    means = _means(tuned), _means(base)
    decision, reason = _decide(gain, len(own), rule, *means)
    return Verdict(
        decision=decision,
        reason=reason,
        rule=rule,
        rows=len(own),
        baseline_score=_mean(rival),
        difference=gain.mean,
        lower=gain.lower,
        upper=gain.upper,
        adapter=means[0],
        baseline=means[1],
    )


def mean_interval(values: Sequence[float], seed: int, resamples: int = MIN_RESAMPLES) -> Interval:
    """The mean and its 95 % bounds: the percentiles of the means of seeded resamples."""
    if not values:
        raise Invalid({"rows": "There are no scored rows; score the test split first."})
    draw, count = Random(seed).random, len(values)
    means = sorted(math.fsum([values[int(draw() * count)] for _ in values]) / count for _ in range(resamples))
    outside = int(TAIL * (resamples + 1))
    return Interval(_mean(values), means[max(outside - 1, 0)], means[min(resamples - outside, resamples - 1)])


def _decide(gain: Interval, rows: int, rule: GateRule, adapter: Means, baseline: Means) -> tuple[Decision, str]:
    bounds = f"{_points(gain.mean)} points (95 % between {_points(gain.lower)} and {_points(gain.upper)})"
    if rows < rule.min_rows:
        return Decision.TOO_FEW_ROWS, f"There are too few test rows to decide: {rows}, and {rule.min_rows} are needed."
    if gain.lower <= rule.margin:
        beyond = f"more than {_points(rule.margin)}" if rule.margin else "a sure gain"
        return Decision.NO_GAIN, f"The difference to the baseline is {bounds}, which is not {beyond}."
    for metric, tolerance in sorted(rule.guards.items()):
        worse = _of(baseline, metric) - _of(adapter, metric)
        if worse > tolerance:
            allowed = f"{_points(-worse)} points against the base model; {_points(-tolerance)} is allowed"
            return Decision.GUARD_FAILED, f"It gained {bounds}, but {_NAMES[metric]} changed by {allowed}."
    return Decision.PASSED, f"The adapter is better than the baseline by {bounds}."


_NAMES = {Metric.EXACT: "exact match", Metric.F1: "token F1"}


def _own_score(score: RowScore, metric: Metric) -> float:
    return float(score.exact) if metric is Metric.EXACT else score.f1


def _rival_score(score: RowScore, metric: Metric) -> float:
    """A base model that knows the label but not the format must not make the adapter look good."""
    if metric is Metric.EXACT:
        return float(score.exact or bool(score.likely_correct))
    return score.f1


def _means(scores: Sequence[RowScore]) -> Means:
    likely = [float(score.likely_correct) for score in scores if score.likely_correct is not None]
    whole = len(likely) == len(scores)
    exact = _mean([float(score.exact) for score in scores])
    return Means(exact, _mean([score.f1 for score in scores]), _mean(likely) if whole else None)


def _of(means: Means, metric: Metric) -> float:
    return means.exact if metric is Metric.EXACT else means.f1


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _points(share: float) -> str:
    return f"{round(share * 100, 1) + 0.0:+.1f}"


def _check_rule(rule: GateRule) -> None:
    wrong = {}
    if not 0 <= rule.margin < 1:
        wrong["margin"] = "The margin must be at least 0 and below 1."
    if rule.resamples < MIN_RESAMPLES:
        wrong["resamples"] = f"At least {MIN_RESAMPLES:,} resamples are needed; {rule.resamples} were asked for."
    if rule.min_rows < 1:
        wrong["min_rows"] = "At least 1 test row must be asked for."
    if not all(0 <= tolerance <= 1 for tolerance in rule.guards.values()):
        wrong["guards"] = "A guard's tolerance must lie between 0 and 1."
    if wrong:
        raise Invalid(wrong)


def _check_pairs(adapter: Sequence[RowScore], baseline: Sequence[RowScore]) -> None:
    for name, scores in (("adapter", adapter), ("baseline", baseline)):
        if len({score.row for score in scores}) != len(scores):
            raise Invalid({name: f"A test row is scored twice for the {name}; score it again."})
        if not all(0 <= score.f1 <= 1 for score in scores):
            raise Invalid({name: f"A token F1 of the {name} does not lie between 0 and 1; score it again."})
    if odd := sorted({score.row for score in adapter} ^ {score.row for score in baseline}):
        rows = ", ".join(str(row) for row in odd[:5]) + (" and more" if len(odd) > 5 else "")
        raise Invalid({"rows": f"Adapter and baseline must answer the same test rows; only one answered {rows}."})
    if len({score.likely_correct is None for score in baseline}) == 2:
        raise Invalid({"baseline": "The baseline's label likelihoods are there for some rows only; score it again."})
