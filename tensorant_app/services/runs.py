"""Runs: drafts, launches and cancels for people; the steps of a run for its job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, or_, select

from tensorant_app.db import clock
from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.projects import Project
from tensorant_app.db.promise import ensure, promise
from tensorant_app.db.runs import Adapter, Run, RunEvent
from tensorant_app.db.session import now_of
from tensorant_app.db.steps import step
from tensorant_app.domain.errors import Invalid, NotFound
from tensorant_app.domain.evaluations import EvaluationKind, EvaluationState
from tensorant_app.domain.gate import GateRule, choose_metric
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.machines import HOLDS_SLOT, MachineReason, MachineState, Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.placement import Placement, next_ask
from tensorant_app.domain.runs import KEEPS_MACHINE, LIFECYCLE, RunPurpose, RunReason, RunState
from tensorant_app.domain.steps import Cause, Move
from tensorant_app.domain.trials import TrialSettings
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import evaluations, gpus, machines, prices
from tensorant_app.services.audit import write_audit
from tensorant_app.services.lookup import hold_row, own_row
from tensorant_app.services.machines import MachineView
from tensorant_app.services.versions import report_of

REACT = "runs.react"
_NEEDS_LOOK = frozenset({RunState.QUEUED, *KEEPS_MACHINE, RunState.ADAPTER_READY, RunState.EVALUATING})


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as people see it in a list."""

    id: UUID
    name: str
    purpose: RunPurpose
    state: RunState
    sentence: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    attempt: int
    machine: MachineState | None
    step: int
    total_steps: int
    epoch: float
    loss: float | None
    validation_loss: float | None


@dataclass(frozen=True, slots=True)
class EventView:
    at: datetime
    verb: str
    cause: Cause
    state: str
    sentence: str | None


@dataclass(frozen=True, slots=True)
class RunDetail:
    """A run as its own page shows it."""

    view: RunView
    settings: Mapping[str, Any]
    findings: Sequence[Mapping[str, Any]]
    events: Sequence[EventView]
    machine_name: str | None
    adapter_zip: str | None
    """Key in the store."""
    verdict: Mapping[str, Any] | None
    scores: Mapping[str, float] | None
    baseline_scores: Mapping[str, float] | None
    peak_rss_mb: int | None
    trial: Mapping[str, Any] | None
    """The bounds of a small training trial."""


def save_draft(
    session: Session,
    caller: Caller,
    *,
    name: str,
    version_id: UUID,
    baseline_id: UUID,
    settings: Mapping[str, Any],
    trial: Mapping[str, Any] | None = None,
    trial_id: UUID | None = None,
    margin: float = 0.0,
    placement: Mapping[str, Any] | None = None,
) -> UUID:
    """A draft costs nothing; its settings never change again.

    With `trial`, its bounds, it measures what they take. `placement`: where it is trained; None: here.
    """
    caller.require(Permission.PREPARE)
    version = hold_row(session, caller, DatasetVersion, version_id, "version")
    baseline = own_row(session, caller, Evaluation, baseline_id, "evaluation")
    checked = _require_usable(name, version, baseline, settings)
    bounds = TrialSettings.of(trial).as_values() if trial is not None else None
    at = now_of(session)
    place = Placement.of(placement or {})
    gpus.require_usable(session, session.get_one(Project, baseline.project_id), checked.method, place)
    rule = GateRule(choose_metric(report_of(session, version.id).labels), margin=margin)
    run = Run(
        id=clock.new_id(at),
        created_at=at,
        organization_id=version.organization_id,
        project_id=baseline.project_id,
        version_id=version.id,
        baseline_id=baseline.id,
        created_by=caller.member_id,
        name=name.strip(),
        purpose=RunPurpose.FULL if bounds is None else RunPurpose.TRIAL,
        state=RunState.DRAFT,
        settings=checked.as_values(),
        placement=place.as_values(),
        gate=asdict(rule),
        trial=bounds,
        trial_id=trial_id,
        evaluates=bounds is None,
    )
    session.add(run)
    write_audit(session, caller, "runs.save", run.id)
    return run.id


def launch_run(
    session: Session,
    caller: Caller,
    run_id: UUID,
    *,
    evaluates: bool | None = None,
    shown_price: HourlyRate | None = None,
) -> None:
    """Confirm the launch: the checks run again, then the machine is asked for. `evaluates`: score the adapter after.

    A trial is never scored. `shown_price` is what the person saw an hour of the machine costs; a rented one is not launched for more.
    """
    caller.require(Permission.SPEND)
    run = own_row(session, caller, Run, run_id, "run")
    price = prices.require_shown_price(session, run, shown_price)
    run.evaluates = run.purpose is RunPurpose.FULL and (run.evaluates if evaluates is None else evaluates)
    run.queued_at = now_of(session)
    run.not_before = placement_of(run).not_before
    advance(session, run, Move("enqueue"), Cause.MEMBER)
    write_audit(session, caller, "runs.launch", run.id, shown_price_micros=(shown_price or price).per_hour.micros)


def cancel_run(session: Session, caller: Caller, run_id: UUID) -> None:
    """Stop at once; what was saved stays. While it is being scored only the scoring stops: the adapter is safe."""
    caller.require(Permission.STOP)
    run = own_row(session, caller, Run, run_id, "run")
    if run.state is RunState.EVALUATING and run.evaluation_id is not None:
        evaluations.cancel_evaluation(session, caller, run.evaluation_id)
        return
    reason = RunReason.BY_OPERATOR if caller.is_operator else RunReason.BY_MEMBER
    cause = Cause.OPERATOR if caller.is_operator else Cause.MEMBER
    advance(session, run, Move("cancel", reason, f"Cancelled by {caller.name}."), cause)
    write_audit(session, caller, "runs.cancel", run.id, organization_id=run.organization_id)


def list_runs(session: Session, caller: Caller) -> list[RunView]:
    """Newest first; the operator sees every organization's."""
    caller.require(Permission.SEE)
    query = select(Run).order_by(col(Run.created_at).desc(), col(Run.id).desc())
    if not caller.is_operator:
        query = query.where(Run.organization_id == caller.organization_id)
    return [_view(session, run) for run in session.exec(query)]


def show_run(session: Session, caller: Caller, run_id: UUID) -> RunDetail:
    caller.require(Permission.SEE)
    run = own_row(session, caller, Run, run_id, "run")
    adapter = session.exec(select(Adapter).where(Adapter.run_id == run.id)).one_or_none()
    evaluation = session.get(Evaluation, run.evaluation_id) if run.evaluation_id else None
    machine = machines.machine_of(session, Use.RUN, run.id, run.attempt)
    events = session.exec(select(RunEvent).where(RunEvent.subject_id == run.id).order_by(col(RunEvent.id)))
    return RunDetail(
        view=_view(session, run),
        settings=run.settings,
        findings=run.findings or [],
        events=[EventView(e.at, e.verb, e.cause, e.state, e.sentence) for e in events],
        machine_name=machine.name if machine else None,
        adapter_zip=adapter.zip_key if adapter else None,
        verdict=evaluation.verdict if evaluation else None,
        scores=evaluation.scores if evaluation else None,
        baseline_scores=session.get_one(Evaluation, run.baseline_id).scores,
        peak_rss_mb=machine.result.peak_rss_mb if machine and machine.result else None,
        trial=run.trial,
    )


def evaluation_of(session: Session, caller: Caller, run_id: UUID) -> UUID:
    """The evaluation that scored its adapter."""
    caller.require(Permission.SEE)
    run = own_row(session, caller, Run, run_id, "run")
    if run.evaluation_id is None:
        raise NotFound("This run has no evaluation yet.")
    return run.evaluation_id


def advance(session: Session, run: Run, move: Move, cause: Cause) -> None:
    """Take a step; leaving the machine's states gives the machine back in the same transaction."""
    run.reason, run.sentence = move.reason, move.sentence
    target = LIFECYCLE.steps[move.verb].target
    if move.verb == "lose":
        run.losses += 1
    if target in LIFECYCLE.final:
        run.ended_at = now_of(session)
    if run.state in KEEPS_MACHINE and target not in KEEPS_MACHINE:
        run.seconds_used += _seconds_of_attempt(session, run)
    if move.verb == "wait":
        _note_refusal(session, run)
    if move.verb in {"prepare", "enqueue", "resume", "extend"}:
        run.refusals, run.waits_since = 0, None
    if target not in KEEPS_MACHINE:
        run.pause_wanted_at = None
    step(session, run, LIFECYCLE, RunEvent, verb=move.verb, cause=cause, reason=move.reason, sentence=move.sentence)
    if run.state not in KEEPS_MACHINE:
        kept = run.attempt if run.state is RunState.NEEDS_RECOVERY else None
        machines.want_release(session, Use.RUN, run.id, but_stop=kept)
    if run.state in _NEEDS_LOOK:
        promise(session, REACT, run.id)


def holds_machine(session: Session, run_id: UUID) -> bool:
    """Whether some machine of the run, of whichever attempt, is not proved gone."""
    held = select(Machine.id).where(
        Machine.use == Use.RUN, Machine.subject_id == run_id, col(Machine.state).in_(list(HOLDS_SLOT))
    )
    return session.exec(held).first() is not None


def time_left(run: Run) -> timedelta:
    """Of the maximum runtime, which covers all attempts together."""
    return maximum_runtime(run) - timedelta(seconds=run.seconds_used)


def maximum_runtime(run: Run) -> timedelta:
    """The draft's, or the longer one that a member set since. A trial has its own; that of the full run counts nothing."""
    if run.runtime_limit_hours is not None:
        return timedelta(hours=run.runtime_limit_hours)
    if run.trial is not None:
        return timedelta(minutes=run.trial["trial_minutes"])
    return timedelta(hours=run.settings["maximum_runtime_hours"])


def placement_of(run: Run) -> Placement:
    """Where the draft wants its machines."""
    return Placement.of(run.placement or {})


def next_ask_of(run: Run, machine: MachineView, now: datetime) -> datetime | None:
    """When another machine may be asked for in the place of one that was refused; None where the refusal ends it."""
    is_busy = machine.reason is MachineReason.BUSY
    since = run.waits_since or now
    due = next_ask(placement_of(run), refusals=run.refusals + 1, since=since, is_busy=is_busy, now=now)
    return due and max(due, machine.retry_at or due)


def promise_all(session: Session) -> None:
    """What the rows call for, whatever became of the promises."""
    needs = or_(col(Run.state).in_(list(_NEEDS_LOOK)), col(Run.verify_wanted_at).is_not(None))
    ensure(session, REACT, session.exec(select(Run.id).where(needs)))


def _require_usable(
    name: str, version: DatasetVersion, baseline: Evaluation, settings: Mapping[str, Any]
) -> RunSettings:
    """The settings, or `Invalid` with all that is wrong with the draft."""
    wrong = {}
    if not name.strip():
        wrong["name"] = "A run needs a name."
    if version.state is not VersionState.FROZEN:
        wrong["version"] = f"The version is {version.state.value}. Freeze it first."
    if baseline.kind is not EvaluationKind.BASELINE or baseline.version_id != version.id:
        wrong["baseline"] = "The baseline must be one of the chosen version."
    elif baseline.state is not EvaluationState.COMPLETED:
        wrong["baseline"] = f"The baseline is {baseline.state.value}. Wait until it is completed."
    try:
        checked = RunSettings.of(settings)
    except Invalid as error:
        raise Invalid({**wrong, **error.fields}) from None
    if wrong:
        raise Invalid(wrong)
    return checked


def _note_refusal(session: Session, run: Run) -> None:
    """Nothing was made and nothing was lost: it queues for another machine, not before a while."""
    machine = machines.machine_of(session, Use.RUN, run.id, run.attempt)
    now = now_of(session)
    run.waits_since = run.waits_since or now
    run.not_before = next_ask_of(run, machine, now) if machine else None
    run.refusals += 1


def _seconds_of_attempt(session: Session, run: Run) -> float:
    """Billed time of the current machine; one that was refused never was."""
    machine = machines.machine_of(session, Use.RUN, run.id, run.attempt)
    if machine is None or machine.ask_sent_at is None or machine.state is MachineState.ABSENT:
        return 0.0
    return max((now_of(session) - machine.ask_sent_at).total_seconds(), 0.0)


def _view(session: Session, run: Run) -> RunView:
    machine: MachineView | None = machines.machine_of(session, Use.RUN, run.id, run.attempt)
    status = machine.status if machine else None
    return RunView(
        id=run.id,
        name=run.name,
        purpose=run.purpose,
        state=run.state,
        sentence=run.sentence,
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        attempt=run.attempt,
        machine=machine.state if machine else None,
        step=status.step if status else 0,
        total_steps=status.total_steps if status else 0,
        epoch=status.epoch if status else 0.0,
        loss=status.loss if status else None,
        validation_loss=status.validation_loss if status else None,
    )
