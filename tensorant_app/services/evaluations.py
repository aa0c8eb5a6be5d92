"""Evaluations: one model scored on the test rows of one version, on its own machine; stored answers are never recomputed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db import clock
from tensorant_app.db.datasets import Dataset, DatasetVersion
from tensorant_app.db.evaluations import Evaluation, EvaluationEvent
from tensorant_app.db.projects import Project
from tensorant_app.db.promise import ensure, promise
from tensorant_app.db.runs import Adapter, Run
from tensorant_app.db.session import now_of
from tensorant_app.db.steps import begin, step
from tensorant_app.domain.errors import Conflict
from tensorant_app.domain.evaluations import (
    KEEPS_MACHINE,
    LIFECYCLE,
    EvaluationFacts,
    EvaluationKind,
    EvaluationState,
    decide,
)
from tensorant_app.domain.gate import RowScore
from tensorant_app.domain.machines import LATE, MachineReason, Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.placement import Placement, next_ask
from tensorant_app.domain.runs import CHECKPOINT_TIME, Work
from tensorant_app.domain.steps import Cause, Move
from tensorant_app.domain.trials import require_usable
from tensorant_app.domain.versions import VersionState
from tensorant_app.providers.base import FileStore, Storage
from tensorant_app.services import machines, slots
from tensorant_app.services.audit import write_audit
from tensorant_app.services.connections import store
from tensorant_app.services.lookup import hold_row, own_row
from tensorant_app.services.machines import MachineView, Order
from tensorant_app.services.places import Place
from tensorant_app.services.versions import report_of
from trainer.contract import ANSWERS, Answer, BadManifest, Base, EvaluateJob, Split, hash_file, load_lines

REACT = "evaluations.react"
_LIVE = frozenset(EvaluationState) - LIFECYCLE.final
_MOST_NEW_TOKENS = 256
_MOST_ROWS = 64
_BATCH_TOKENS = 16_384
"""Tokens answered side by side: what keeps a CPU busy without filling its memory."""


@dataclass(frozen=True, slots=True)
class EvaluationView:
    id: UUID
    kind: EvaluationKind
    state: EvaluationState
    sentence: str | None
    scores: Mapping[str, float] | None
    verdict: Mapping[str, Any] | None
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class EvaluationTask:
    """An evaluation and its current machine, as its job found them."""

    id: UUID
    organization_id: UUID
    state: EvaluationState
    version_key: str
    labels: tuple[str, ...]
    longest: int
    base_repo_id: str
    base_revision: str
    adapter_key: str | None
    merge_system: bool
    attempt: int
    losses: int
    started_at: datetime | None
    maximum_runtime: timedelta
    placement: Placement
    refusals: int
    not_before: datetime | None
    machine: MachineView | None


def create_baseline(session: Session, caller: Caller, version_id: UUID) -> UUID:
    """Score the base model on a frozen version: what every adapter of it will be compared with."""
    caller.require(Permission.SPEND)
    version = hold_row(session, caller, DatasetVersion, version_id, "version")
    if version.state is not VersionState.FROZEN:
        raise Conflict(f"The version is {version.state.value}. Freeze it, then evaluate the base model on it.")
    if (version.report or {}).get("images"):
        raise Conflict("Evaluating on images comes later. Choose a version without images, and a text model.")
    evaluation = _create(session, version, EvaluationKind.BASELINE, Cause.MEMBER)
    write_audit(session, caller, "evaluations.create", evaluation.id, kind=evaluation.kind.value)
    return evaluation.id


def create_for_run(session: Session, run: Run, cause: Cause = Cause.WORKER) -> UUID:
    """Score a run's adapter against its baseline, as its launch announced or a member asks; a trial's is refused."""
    require_usable(run.purpose)
    version = session.get_one(DatasetVersion, run.version_id)
    evaluation = _create(session, version, EvaluationKind.ADAPTER, cause)
    evaluation.run_id, evaluation.baseline_id = run.id, run.baseline_id
    evaluation.placement = place_of_adapter(session, run)
    return evaluation.id


def place_of_adapter(session: Session, run: Run) -> dict[str, Any] | None:
    """Where a run's adapter is scored: as the run's machine was asked for, with one GPU.

    One that was carried over from a Pod lies here alone, and is scored on this computer: None.
    """
    machine = machines.machine_of(session, Use.RUN, run.id, run.attempt)
    if not run.placement or (machine is not None and machine.storage is not Storage.VOLUME):
        return None
    return {**run.placement, "gpu_count": 1, "not_before": None}


def cancel_evaluation(session: Session, caller: Caller, evaluation_id: UUID) -> None:
    caller.require(Permission.STOP)
    evaluation = own_row(session, caller, Evaluation, evaluation_id, "evaluation")
    cause = Cause.OPERATOR if caller.is_operator else Cause.MEMBER
    advance(session, evaluation, Move("cancel", "by_member"), cause)
    write_audit(session, caller, "evaluations.cancel", evaluation.id, organization_id=evaluation.organization_id)


def show_evaluation(session: Session, caller: Caller, evaluation_id: UUID) -> EvaluationView:
    caller.require(Permission.SEE)
    return _view(own_row(session, caller, Evaluation, evaluation_id, "evaluation"))


def read_task(session: Session, evaluation_id: UUID) -> EvaluationTask:
    row = session.get_one(Evaluation, evaluation_id)
    project = session.get_one(Project, row.project_id)
    version = session.get_one(DatasetVersion, row.version_id)
    report = report_of(session, version.id)
    adapter = (
        session.exec(select(Adapter).where(col(Adapter.run_id) == row.run_id)).one_or_none() if row.run_id else None
    )
    return EvaluationTask(
        id=row.id,
        organization_id=row.organization_id,
        state=row.state,
        version_key=f"versions/{version.content_sha256}",
        labels=report.labels,
        longest=report.mask.longest,
        base_repo_id=project.base_repo_id,
        base_revision=row.base_revision,
        adapter_key=adapter.key if adapter else None,
        merge_system=version.merge_system,
        attempt=row.attempt,
        losses=row.losses,
        started_at=row.started_at,
        maximum_runtime=timedelta(hours=row.maximum_runtime_hours),
        placement=placement_of(row),
        refusals=row.refusals,
        not_before=row.not_before,
        machine=machines.machine_of(session, Use.EVALUATION, row.id, row.attempt),
    )


def order_machine(task: EvaluationTask, place: Place, now: datetime) -> Order:
    """The next attempt's machine; the runtime counts from the first one."""
    return Order(
        task.organization_id,
        Use.EVALUATION,
        task.id,
        task.attempt + 1,
        place.provider,
        place.gpu_type,
        (task.started_at or now) + task.maximum_runtime,
        connection_id=place.connection_id,
        rate=place.rate,
        rate_limit=task.placement.rate_limit,
        data_center=place.data_center,
        options=place.options,
    )


def job_of(task: EvaluationTask, order: Order, base: Base) -> EvaluateJob:
    """What its machine reads; with labels the trainer bounds an answer by the longest of them."""
    return EvaluateJob(
        subject_id=str(task.id),
        attempt=order.attempt,
        machine=order.name,
        base=base,
        test=f"{task.version_key}/{Split.TEST.value}.parquet",
        adapter=task.adapter_key,
        labels=task.labels,
        max_new_tokens=_MOST_NEW_TOKENS,
        batch_size=max(1, min(_MOST_ROWS, _BATCH_TOKENS // max(task.longest, 1))),
        context_length=task.longest + _MOST_NEW_TOKENS,
        merge_system=task.merge_system,
    )


def note_asked(session: Session, task: EvaluationTask, order: Order) -> bool:
    """The machine's intent and the step, in one transaction; False where the slot went to somebody else meanwhile."""
    row = session.get_one(Evaluation, task.id)
    if row.state is not EvaluationState.QUEUED or row.attempt != task.attempt:
        return False
    if not slots.has_turn(session, row.organization_id, row.id, is_last_word=True):
        return False
    row.attempt = order.attempt
    row.started_at = row.started_at or now_of(session)
    advance(session, row, Move("ask"), Cause.WORKER)
    machines.ask_machine(session, order, "evaluate")
    return True


def placement_of(row: Evaluation) -> Placement:
    """Where its launch wants its machines; of one that a run asked for, as the run's, with one GPU."""
    return Placement.of(row.placement or {})


def note_refused(session: Session, evaluation_id: UUID, move: Move) -> None:
    """It cannot start: the reason, and no machine is asked for."""
    row = session.get_one(Evaluation, evaluation_id)
    if row.state is EvaluationState.QUEUED:
        advance(session, row, move, Cause.WORKER)


def take_steps(
    session: Session, task: EvaluationTask, *, are_answers_verified: bool | None, trouble: str | None = None
) -> None:
    """Every step that the machine's report calls for, one after the other.

    `trouble` says why its answers could not be looked at, for so long that nobody waits any more.
    """
    row = session.get_one(Evaluation, task.id)
    machine = machines.machine_of(session, Use.EVALUATION, row.id, row.attempt)
    while move := decide(_facts(row, machine, are_answers_verified, trouble, now_of(session)), now_of(session)):
        if move.verb == "finish":
            _take_result(row, machine)
        advance(session, row, move, Cause.WORKER)


def next_look(task: EvaluationTask) -> datetime:
    """When it looks by itself, whatever its machine promises."""
    assert task.machine is not None
    return task.machine.deadline + (timedelta(0) if task.machine.work is Work.NONE else CHECKPOINT_TIME)


def take_answers(task: EvaluationTask, volume: FileStore) -> bool | None:
    """Copy finished answers into the store if they are what the result says; None while there are none."""
    machine = task.machine
    if machine is None or machine.work is not Work.DONE or machine.result is None:
        return None
    if machine.result.answers != f"{machine.outputs_key}/{ANSWERS}":
        return False
    try:
        path = volume.fetch(machine.result.answers)
    except (BadManifest, FileNotFoundError):
        return False
    if not path.is_file() or hash_file(path).sha256 != machine.result.answers_sha256:
        return False
    store().put(answers_key(task.id), path)
    return True


def waits_for_volume(task: EvaluationTask, now: datetime) -> bool:
    """Whether answers that cannot be read yet are worth waiting for; their machine costs meanwhile."""
    return task.machine is not None and task.machine.work is Work.DONE and now < task.machine.deadline + LATE


def note_trouble(session: Session, evaluation_id: UUID, sentence: str) -> None:
    """Its answers cannot be read, or not be stored here, yet: it is tried again."""
    session.get_one(Evaluation, evaluation_id).sentence = f"{sentence} It is tried again."


def answers_key(evaluation_id: UUID) -> str:
    return f"evaluations/{evaluation_id}/{ANSWERS}"


def read_answers(evaluation_id: UUID) -> list[Answer]:
    """The stored answers in row order; shared by scorecards and the gate."""
    with store().fetch(answers_key(evaluation_id)).open(encoding="utf-8") as lines:
        return list(load_lines(Answer, list(lines)))


def scores_of(answers: list[Answer]) -> list[RowScore]:
    return [RowScore(answer.row, answer.exact, answer.f1, answer.likely_correct) for answer in answers]


def advance(session: Session, row: Evaluation, move: Move, cause: Cause) -> None:
    """Take a step; leaving the machine's states gives the machine back in the same transaction."""
    row.reason, row.sentence = move.reason, move.sentence
    if move.verb == "lose":
        row.losses += 1
    if move.verb == "wait":
        _note_refusal(session, row)
    if move.verb == "start":
        row.refusals, row.waits_since = 0, None
    if LIFECYCLE.steps[move.verb].target in LIFECYCLE.final:
        row.ended_at = now_of(session)
    step(
        session,
        row,
        LIFECYCLE,
        EvaluationEvent,
        verb=move.verb,
        cause=cause,
        reason=move.reason,
        sentence=move.sentence,
    )
    if row.state not in KEEPS_MACHINE:
        machines.want_release(session, Use.EVALUATION, row.id)
    if row.state in LIFECYCLE.final and row.run_id is not None:
        promise(session, "runs.react", row.run_id)
    if row.state not in LIFECYCLE.final:
        promise(session, REACT, row.id)


def promise_all(session: Session) -> None:
    """What the rows call for, whatever became of the promises."""
    ensure(session, REACT, session.exec(select(Evaluation.id).where(col(Evaluation.state).in_(list(_LIVE)))))


def _create(session: Session, version: DatasetVersion, kind: EvaluationKind, cause: Cause) -> Evaluation:
    at = now_of(session)
    dataset = session.get_one(Dataset, version.dataset_id)
    project = session.get_one(Project, dataset.project_id)
    evaluation = Evaluation(
        id=clock.new_id(at),
        created_at=at,
        organization_id=version.organization_id,
        project_id=project.id,
        version_id=version.id,
        kind=kind,
        base_revision=project.base_revision,
        state=EvaluationState.QUEUED,
    )
    begin(session, evaluation, EvaluationEvent, verb="create", cause=cause)
    promise(session, REACT, evaluation.id)
    return evaluation


def _next_ask(row: Evaluation, machine: MachineView, now: datetime) -> datetime | None:
    is_busy = machine.reason is MachineReason.BUSY
    since = row.waits_since or now
    due = next_ask(placement_of(row), refusals=row.refusals + 1, since=since, is_busy=is_busy, now=now)
    return due and max(due, machine.retry_at or due)


def _note_refusal(session: Session, row: Evaluation) -> None:
    """Nothing was made and nothing was lost: it queues for another machine, not before a while."""
    machine = machines.machine_of(session, Use.EVALUATION, row.id, row.attempt)
    now = now_of(session)
    row.waits_since = row.waits_since or now
    row.not_before = _next_ask(row, machine, now) if machine else None
    row.refusals += 1


def _facts(
    row: Evaluation,
    machine: MachineView | None,
    are_answers_verified: bool | None,
    trouble: str | None,
    now: datetime,
) -> EvaluationFacts:
    failure = machine.result.failure if machine and machine.result else None
    return EvaluationFacts(
        state=row.state,
        machine=machine.state if machine else None,
        machine_reason=machine.reason if machine else None,
        machine_sentence=machine.sentence if machine else None,
        work=machine.work if machine else Work.NONE,
        failure=f"{failure.message} {failure.advice}" if failure else None,
        losses=row.losses,
        deadline=machine.deadline if machine else row.created_at,
        are_answers_verified=are_answers_verified,
        answers_trouble=trouble,
        waits_for_capacity=machine is not None and _next_ask(row, machine, now) is not None,
    )


def _take_result(row: Evaluation, machine: MachineView | None) -> None:
    assert machine is not None
    assert machine.result is not None
    row.answers_key = answers_key(row.id)
    row.answers_sha256 = machine.result.answers_sha256
    row.scores = dict(machine.result.scores)


def _view(row: Evaluation) -> EvaluationView:
    return EvaluationView(
        row.id, row.kind, row.state, row.sentence, row.scores, row.verdict, row.started_at, row.ended_at
    )
