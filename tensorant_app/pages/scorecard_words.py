"""What a scorecard shows, in words and in rows; plain functions from what the service says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from tensorant_app import routes
from tensorant_app.components.chats import Span
from tensorant_app.components.scorecards import Counts
from tensorant_app.components.sparks import Interval, interval, signed
from tensorant_app.domain.durations import say_seconds
from tensorant_app.domain.evaluations import EvaluationKind
from tensorant_app.domain.gate import Decision, Metric
from tensorant_app.pages.run_words import say_rule
from tensorant_app.services.scorecards import Change, MetricView, RowView, Scorecard, Show

_CLIPPED = 120
"""Characters of an answer in the table; unfolded it is whole."""
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class CardHead:
    id: str = ""
    state: str = ""
    is_baseline: bool = True
    is_live: bool = False
    percent: int = 0
    title: str = ""
    run: str = ""
    run_href: str = ""
    base: str = ""
    version: str = ""
    version_href: str = ""
    line: str = ""
    said: str = ""
    answers: str = ""
    baseline_answers: str = ""
    took: str = ""


@dataclass(frozen=True)
class Ruling:
    """The gate's verdict, its interval, and the rule that was fixed before the run."""

    is_there: bool = False
    passed: bool = False
    sentence: str = ""
    why: str = ""
    rule: str = ""
    resamples: str = ""
    likelihood: str = ""


@dataclass(frozen=True)
class MetricRow:
    name: str
    role: str
    baseline: str
    adapter: str
    difference: str
    tone: str
    verdict: str


@dataclass(frozen=True)
class AnswerRow:
    row: int
    label: str
    question: str
    expected: str
    baseline: str
    adapter: str
    change: str
    baseline_right: bool
    baseline_likely: bool
    adapter_right: bool


@dataclass(frozen=True)
class Unfolded:
    """The row that is open, in full."""

    row: int = 0
    question: str = ""
    expected: str = ""
    baseline: list[Span] = field(default_factory=list)
    adapter: list[Span] = field(default_factory=list)
    baseline_right: bool = False
    baseline_likely: bool = False
    adapter_right: bool = False
    baseline_note: str = ""
    adapter_note: str = ""


@dataclass(frozen=True)
class Segment:
    """One filter of the rows; its key is pressed without Shift or Control."""

    label: str
    count: str
    href: str
    key: str
    is_it: bool


def head_of(card: Scorecard) -> CardHead:
    is_baseline = card.kind is EvaluationKind.BASELINE
    title = "Baseline" if is_baseline else "Scorecard"
    percent = 100 * card.done // card.total if card.total else 0
    line = card.sentence or ""
    if not card.is_final and card.total:
        line = f"{card.done:,} of {card.total:,} rows"
    took = ""
    if card.started_at and card.ended_at:
        took = f"this computer, {say_seconds((card.ended_at - card.started_at).total_seconds())}"
    return CardHead(
        id=str(card.id),
        state=card.state.value,
        is_baseline=is_baseline,
        is_live=not card.is_final,
        percent=percent,
        title=title,
        run=card.run_name,
        run_href=routes.run(card.project_id, card.run_id) if card.run_id else "",
        base=card.base_repo_id,
        version=f"{card.dataset} v{card.version}",
        version_href=routes.version(card.project_id, card.version_id),
        line=line,
        said=f"{title} {card.state.value}" + (f", {percent} %" if not card.is_final else ""),
        answers=routes.answers(card.id) if card.rows else "",
        baseline_answers=routes.answers(card.baseline_id) if card.rows and card.baseline_id else "",
        took=took,
    )


def ruling_of(card: Scorecard) -> Ruling:
    rule = card.rule or {}
    said = say_rule(rule["metric"], rule["margin"], rule["min_rows"]) if rule else ""
    if card.verdict is None:
        return Ruling(rule=said)
    likelihood = ""
    if card.by_likelihood and rule.get("metric") == Metric.EXACT:
        likelihood = f"{card.by_likelihood:,} of the baseline's rows are right only by its likeliest label"
    return Ruling(
        is_there=True,
        passed=bool(card.verdict["passed"]),
        sentence=_sentence(card.verdict),
        why=_why(card.verdict, rule),
        rule=said,
        resamples=f"{rule['resamples']:,} resamples, seed {rule['seed']}" if rule else "",
        likelihood=likelihood,
    )


def interval_of(card: Scorecard) -> Interval:
    verdict = card.verdict or {}
    low, middle, high = (100 * verdict.get(name, 0.0) for name in ("lower", "difference", "upper"))
    return interval(low, middle, high, margin=100 * (card.rule or {}).get("margin", 0.0))


def counts_of(card: Scorecard) -> Counts:
    return Counts(**{change.value: card.counts[change] for change in Change})


def metrics_of(card: Scorecard) -> list[MetricRow]:
    return [_metric(metric, card) for metric in card.metrics]


def segments_of(card: Scorecard, shown: Show, href: Any) -> list[Segment]:
    """`href` makes the address of a filter."""
    counts = card.counts
    changed = counts[Change.GAINED] + counts[Change.LOST]
    if card.kind is EvaluationKind.BASELINE:
        kinds = [
            (Show.ALL, "All", card.rows),
            (Show.BOTH_RIGHT, "Right", counts[Change.BOTH_RIGHT]),
            (Show.BOTH_WRONG, "Wrong", counts[Change.BOTH_WRONG]),
        ]
    else:
        kinds = [
            (Show.ALL, "All", card.rows),
            (Show.CHANGED, "Changed", changed),
            (Show.GAINED, "Gained", counts[Change.GAINED]),
            (Show.LOST, "Lost", counts[Change.LOST]),
            (Show.BOTH_WRONG, "Both wrong", counts[Change.BOTH_WRONG]),
        ]
    return [
        Segment(label, f"{count:,}", href("" if show is Show.ALL else show.value), str(n), show is shown)
        for n, (show, label, count) in enumerate(kinds, 1)
    ]


def row_of(row: RowView) -> AnswerRow:
    return AnswerRow(
        row=row.row,
        label=f"{row.row:,}",
        question=row.question or f"Row {row.row:,}",
        expected=_clip(row.expected),
        baseline=_clip(row.baseline),
        adapter=_clip(row.adapter),
        change=row.change.value,
        baseline_right=row.baseline_right,
        baseline_likely=row.baseline_likely,
        adapter_right=row.adapter_right,
    )


def unfold(row: RowView) -> Unfolded:
    return Unfolded(
        row=row.row,
        question=row.question,
        expected=row.expected,
        baseline=mark(row.expected, row.baseline, is_right=row.baseline_right or row.baseline_likely),
        adapter=mark(row.expected, row.adapter, is_right=row.adapter_right),
        baseline_right=row.baseline_right,
        baseline_likely=row.baseline_likely,
        adapter_right=row.adapter_right,
        baseline_note=row.baseline_note,
        adapter_note=row.adapter_note,
    )


def mark(expected: str, answer: str, *, is_right: bool) -> list[Span]:
    """The answer in stretches, those that differ from what was expected marked."""
    if is_right or not answer.strip():
        return [Span(answer or "(nothing)", "")]
    wanted, given = _WORDS.findall(expected), _WORDS.findall(answer)
    spans = []
    for kind, _, _, start, end in SequenceMatcher(None, wanted, given, autojunk=False).get_opcodes():
        if start < end:
            spans.append(Span("".join(given[start:end]), "" if kind == "equal" else "r"))
    return spans


def _sentence(verdict: Mapping[str, Any]) -> str:
    points = 100 * verdict["difference"]
    match verdict["decision"]:
        case Decision.PASSED:
            return f"Better than the baseline by {abs(points):.1f} points"
        case Decision.TOO_FEW_ROWS:
            return "Too few test rows to decide"
        case Decision.GUARD_FAILED:
            return f"It gained {abs(points):.1f} points, but a guard metric fell too far"
    return "No sure gain over the baseline" if points > 0 else "Not better than the baseline"


def _why(verdict: Mapping[str, Any], rule: Mapping[str, Any]) -> str:
    lower, margin = 100 * verdict["lower"], 100 * rule.get("margin", 0.0)
    if verdict["decision"] == Decision.TOO_FEW_ROWS:
        return str(verdict["reason"])
    side = "above" if lower > margin else "not above"
    start = (
        f"The 95 % interval of the paired difference starts at {signed(lower)}, {side} the margin of {signed(margin)}"
    )
    if verdict["decision"] == Decision.GUARD_FAILED:
        return f"{start}. {verdict['reason']}"
    guards = ", and every guard metric stays within its tolerance" if rule.get("guards") and verdict["passed"] else ""
    return f"{start}{guards}."


def _metric(metric: MetricView, card: Scorecard) -> MetricRow:
    verdict, tone, difference = "–", "", ""
    if metric.adapter is not None and metric.baseline is not None:
        points = 100 * (metric.adapter - metric.baseline)
        difference = signed(points)
        if metric.role == "Guard" and metric.tolerance is not None:
            is_within = -points <= 100 * metric.tolerance
            verdict = f"{'Within' if is_within else 'Beyond'} {signed(-100 * metric.tolerance)}"
            tone = "good" if is_within else "bad"
        elif metric.role == "Primary" and card.verdict is not None:
            is_above = card.verdict["lower"] > (card.rule or {}).get("margin", 0.0)
            verdict, tone = ("Above margin", "good") if is_above else ("Not above margin", "")
    return MetricRow(
        metric.name, metric.role, _percent(metric.baseline), _percent(metric.adapter), difference, tone, verdict
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _clip(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _CLIPPED else f"{flat[:_CLIPPED]} …"
