"""An evaluation as its scorecard shows it: the verdict, the counts, the means, and every row's answers side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, func, select

from tensorant_app.db.datasets import Dataset, DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.domain.errors import Invalid, NotFound
from tensorant_app.domain.evaluations import LIFECYCLE, EvaluationKind, EvaluationState
from tensorant_app.domain.gate import Metric
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.spend import NOTHING, Spend
from tensorant_app.services import evaluations, machines
from tensorant_app.services.connections import store
from tensorant_app.services.lookup import own_row
from tensorant_app.services.spend import machine_spends
from tensorant_app.services.versions import frozen_key
from trainer.contract import Answer, Split

PAGE_ROWS = 50
_PROMPT = 400
"""Characters of a question in the table."""


class Change(StrEnum):
    """How a row's two answers compare; a baseline's rows are both right or both wrong."""

    BOTH_RIGHT = "both_right"
    GAINED = "gained"
    LOST = "lost"
    BOTH_WRONG = "both_wrong"


class Show(StrEnum):
    """Which rows of the table."""

    ALL = "all"
    CHANGED = "changed"
    GAINED = "gained"
    LOST = "lost"
    BOTH_WRONG = "both_wrong"
    BOTH_RIGHT = "both_right"


_SHOWN: Mapping[Show, frozenset[Change]] = {
    Show.ALL: frozenset(Change),
    Show.CHANGED: frozenset({Change.GAINED, Change.LOST}),
    Show.GAINED: frozenset({Change.GAINED}),
    Show.LOST: frozenset({Change.LOST}),
    Show.BOTH_WRONG: frozenset({Change.BOTH_WRONG}),
    Show.BOTH_RIGHT: frozenset({Change.BOTH_RIGHT}),
}


@dataclass(frozen=True, slots=True)
class MetricView:
    """A line of the table of means, as shares from 0 to 1."""

    name: str
    role: str
    """Primary, Guard or nothing."""
    baseline: float | None
    adapter: float | None
    tolerance: float | None = None
    """Of a guard: how much it may fall."""
    lower_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Scorecard:
    id: UUID
    project_id: UUID
    kind: EvaluationKind
    state: EvaluationState
    sentence: str | None
    is_final: bool
    started_at: datetime | None
    ended_at: datetime | None
    run_id: UUID | None
    run_name: str
    baseline_id: UUID | None
    dataset: str
    version_id: UUID
    version: int
    base_repo_id: str
    done: int
    """Rows scored so far."""
    total: int
    verdict: Mapping[str, Any] | None
    rule: Mapping[str, Any] | None
    """Fixed when the run's draft was saved."""
    counts: Mapping[Change, int]
    metrics: Sequence[MetricView]
    rows: int
    by_likelihood: int
    """Rows that the baseline got right only by the label it finds most likely."""


@dataclass(frozen=True, slots=True)
class ListedEvaluation:
    """An evaluation in the project's list."""

    id: UUID
    kind: EvaluationKind
    state: EvaluationState
    sentence: str | None
    run_name: str
    dataset: str
    version: int
    created_at: datetime
    scores: Mapping[str, float]
    verdict: Mapping[str, Any] | None
    spend: Spend


@dataclass(frozen=True, slots=True)
class RowView:
    row: int
    """Its number in the imported file."""
    question: str
    expected: str
    baseline: str
    adapter: str
    change: Change
    baseline_right: bool
    baseline_likely: bool
    """Its words are wrong, yet the label it finds most likely is right, and the run's gate counts that."""
    adapter_right: bool
    baseline_note: str
    adapter_note: str


@dataclass(frozen=True, slots=True)
class RowPage:
    rows: Sequence[RowView]
    start: int
    total: int


@dataclass(frozen=True, slots=True)
class _Pair:
    base: Answer
    tuned: Answer
    change: Change


def show_scorecard(session: Session, caller: Caller, project_id: UUID, evaluation_id: UUID) -> Scorecard:
    row = _own(session, caller, project_id, evaluation_id)
    run = session.get(Run, row.run_id) if row.run_id else None
    version = session.get_one(DatasetVersion, row.version_id)
    machine = machines.machine_of(session, Use.EVALUATION, row.id, row.attempt)
    status = machine.status if machine else None
    pairs = _pairs_of(session, row)
    return Scorecard(
        id=row.id,
        project_id=row.project_id,
        kind=row.kind,
        state=row.state,
        sentence=row.sentence,
        is_final=row.state in LIFECYCLE.final and not _awaits_verdict(row, run),
        started_at=row.started_at,
        ended_at=row.ended_at,
        run_id=row.run_id,
        run_name=run.name if run else "",
        baseline_id=row.baseline_id,
        dataset=session.get_one(Dataset, version.dataset_id).name,
        version_id=version.id,
        version=version.number,
        base_repo_id=session.get_one(Project, row.project_id).base_repo_id,
        done=status.done if status else 0,
        total=status.total if status else 0,
        verdict=row.verdict,
        rule=run.gate if run else None,
        counts={change: sum(pair.change is change for pair in pairs) for change in Change},
        metrics=_metrics(row, run, pairs),
        rows=len(pairs),
        by_likelihood=sum(not pair.base.exact and bool(pair.base.likely_correct) for pair in pairs),
    )


def list_rows(
    session: Session,
    caller: Caller,
    project_id: UUID,
    evaluation_id: UUID,
    *,
    show: Show = Show.ALL,
    search: str = "",
    start: int = 0,
) -> RowPage:
    """Up to 50 rows from `start`; `search` looks through expected and given answers."""
    if start < 0:
        raise Invalid({"start": "A page begins at row 0 or later."})
    row = _own(session, caller, project_id, evaluation_id)
    words = search.strip().casefold()
    found = [pair for pair in _pairs_of(session, row) if pair.change in _SHOWN[show] and _has(pair, words)]
    start = start if start < len(found) else 0
    page = found[start : start + PAGE_ROWS]
    version = session.get_one(DatasetVersion, row.version_id)
    questions = _questions(version.content_sha256, [pair.base.row for pair in page])
    return RowPage([_view(pair, questions.get(pair.base.row, "")) for pair in page], start, len(found))


def list_evaluations(
    session: Session, caller: Caller, project_id: UUID, *, start: int = 0
) -> tuple[list[ListedEvaluation], int]:
    """Up to 50 of a project's from `start`, newest first, and how many there are."""
    caller.require(Permission.SEE)
    own_row(session, caller, Project, project_id, "project")
    if start < 0:
        raise Invalid({"start": "A page begins at row 0 or later."})
    of_project = col(Evaluation.project_id) == project_id
    total = session.exec(select(func.count()).select_from(Evaluation).where(of_project)).one()
    query = (
        select(Evaluation, DatasetVersion.number, Dataset.name, Run.name)
        .join(DatasetVersion, col(DatasetVersion.id) == col(Evaluation.version_id))
        .join(Dataset, col(Dataset.id) == col(DatasetVersion.dataset_id))
        .join(Run, col(Run.id) == col(Evaluation.run_id), isouter=True)
        .where(of_project)
        .order_by(col(Evaluation.created_at).desc(), col(Evaluation.id).desc())
        .offset(start)
        .limit(PAGE_ROWS)
    )
    rows = session.exec(query).all()
    costs = machine_spends(session, Use.EVALUATION, [row.id for row, *_ in rows])
    found = [
        ListedEvaluation(
            id=row.id,
            kind=row.kind,
            state=row.state,
            sentence=row.sentence,
            run_name=run_name or "",
            dataset=dataset,
            version=number,
            created_at=row.created_at,
            scores=row.scores or {},
            verdict=row.verdict,
            spend=costs.get(row.id, NOTHING),
        )
        for row, number, dataset, run_name in rows
    ]
    return found, total


def _own(session: Session, caller: Caller, project_id: UUID, evaluation_id: UUID) -> Evaluation:
    caller.require(Permission.SEE)
    row = own_row(session, caller, Evaluation, evaluation_id, "evaluation")
    if row.project_id != project_id:
        raise NotFound(f"There is no evaluation {evaluation_id} in this project.")
    return row


def _awaits_verdict(row: Evaluation, run: Run | None) -> bool:
    return run is not None and row.state is EvaluationState.COMPLETED and row.verdict is None


def _pairs_of(session: Session, row: Evaluation) -> tuple[_Pair, ...]:
    """Both answers of every row; a baseline is compared with itself."""
    rival = session.get(Evaluation, row.baseline_id) if row.baseline_id else row
    if row.answers_sha256 is None or rival is None or rival.answers_sha256 is None:
        return ()
    run = session.get(Run, row.run_id) if row.run_id else None
    by_likelihood = run is not None and run.gate["metric"] == Metric.EXACT
    return _pairs(row.id, row.answers_sha256, rival.id, rival.answers_sha256, by_likelihood)


@lru_cache(maxsize=8)
def _pairs(
    tuned_id: UUID, tuned_sha256: str, base_id: UUID, base_sha256: str, by_likelihood: bool
) -> tuple[_Pair, ...]:
    """Stored answers never change, so that they are read once for all who look."""
    base = {answer.row: answer for answer in evaluations.read_answers(base_id)}
    pairs = []
    for tuned in evaluations.read_answers(tuned_id):
        if rival := base.get(tuned.row):
            is_right = rival.exact or (by_likelihood and bool(rival.likely_correct))
            pairs.append(_Pair(rival, tuned, _change(is_right, tuned.exact)))
    return tuple(sorted(pairs, key=lambda pair: pair.tuned.row))


def _change(base_right: bool, tuned_right: bool) -> Change:
    if base_right:
        return Change.BOTH_RIGHT if tuned_right else Change.LOST
    return Change.GAINED if tuned_right else Change.BOTH_WRONG


def _has(pair: _Pair, words: str) -> bool:
    return not words or any(
        words in text.casefold() for text in (pair.tuned.expected, pair.tuned.answer, pair.base.answer)
    )


def _metrics(row: Evaluation, run: Run | None, pairs: Sequence[_Pair]) -> list[MetricView]:
    if not pairs:
        return []
    base, tuned = [pair.base for pair in pairs], [pair.tuned for pair in pairs]
    is_own = row.kind is EvaluationKind.BASELINE
    guards: Mapping[str, float] = run.gate["guards"] if run else {}
    primary = run.gate["metric"] if run else ""
    found = []
    for name, key, read, is_odd in _METRICS:
        baseline = _mean([read(answer) for answer in base])
        if baseline is None:
            continue
        adapter = None if is_own else _mean([read(answer) for answer in tuned])
        role = "Primary" if key and key == primary else "Guard" if key in guards else ""
        found.append(MetricView(name, role, baseline, adapter, guards.get(key), is_odd))
    return found


_METRICS: tuple[tuple[str, str, Any, bool], ...] = (
    ("Exact match", Metric.EXACT, lambda answer: float(answer.exact), False),
    ("Token F1", Metric.F1, lambda answer: answer.f1, False),
    (
        "Right by likelihood",
        "",
        lambda answer: None if answer.likely_correct is None else float(answer.likely_correct),
        False,
    ),
    ("Did not stop", "", lambda answer: float(not answer.stopped), True),
)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _view(pair: _Pair, question: str) -> RowView:
    return RowView(
        row=pair.tuned.row,
        question=question,
        expected=pair.tuned.expected,
        baseline=pair.base.answer,
        adapter=pair.tuned.answer,
        change=pair.change,
        baseline_right=pair.base.exact,
        baseline_likely=not pair.base.exact and pair.change in {Change.BOTH_RIGHT, Change.LOST},
        adapter_right=pair.tuned.exact,
        baseline_note=_note(pair.base),
        adapter_note=_note(pair.tuned),
    )


def _note(answer: Answer) -> str:
    parts = []
    if answer.likely is not None:
        is_right = "right" if answer.likely_correct else "wrong"
        parts.append(f"Most likely label: {answer.likely} ({is_right})")
    if not answer.exact and answer.f1 > 0:
        parts.append(f"token F1 {answer.f1:.2f}")
    parts.append("stopped by itself" if answer.stopped else "did not stop")
    text = ", ".join(parts)
    return text[:1].upper() + text[1:] + "."


def _questions(content_sha256: str | None, rows: Sequence[int]) -> dict[int, str]:
    """The last message before the reply, of these rows only."""
    import pyarrow.parquet as pq

    if content_sha256 is None or not rows:
        return {}
    path = store().fetch(f"{frozen_key(content_sha256)}/{Split.TEST.value}.parquet")
    if not path.is_file():
        return {}
    table = pq.read_table(path, columns=["row", "example"], filters=[("row", "in", list(rows))])
    return {line["row"]: _question(line["example"]) for line in table.to_pylist()}


def _question(example: str) -> str:
    messages = json.loads(example).get("messages", [])
    asked = [message.get("content") for message in messages if message.get("role") == "user"]
    text = asked[-1] if asked and isinstance(asked[-1], str) else ""
    return text if len(text) <= _PROMPT else f"{text[:_PROMPT]} …"
