"""A run as its own page shows it: phases, numbers, settings, what it was made from, and what can be done now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db.datasets import Dataset, DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.organizations import Member, User
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Adapter, Run, RunEvent
from tensorant_app.db.session import now_of
from tensorant_app.domain.connections import RUNPOD
from tensorant_app.domain.durations import PhaseTime, phase_times
from tensorant_app.domain.errors import NotFound
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.hyperparameters import CHOICES, RunSettings
from tensorant_app.domain.machines import MachineState, Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.place_form import FURTHER, NOT_BEFORE, type_placement
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.run_form import BY_NAME, RANGES
from tensorant_app.domain.runs import LIFECYCLE, RunPurpose, RunState
from tensorant_app.domain.spend import Spend
from tensorant_app.domain.trials import TrialSettings
from tensorant_app.services import machines, metrics, runs
from tensorant_app.services.lookup import own_row
from tensorant_app.services.machines import MachineView
from tensorant_app.services.spend import machine_spend
from tensorant_app.services.waiting import Waiting, waiting_of
from trainer.contract import Failure


@dataclass(frozen=True, slots=True)
class SettingView:
    """One setting beside its default."""

    label: str
    value: str
    default: str
    is_changed: bool


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The machine of the current attempt; `name` is whole, for it is what one looks for at the provider."""

    id: UUID
    name: str
    provider_id: str | None
    provider: str
    gpu_type: str
    gpu_count: int
    data_center: str | None
    provider_status: str
    rate: HourlyRate | None
    boots: int
    since: datetime | None
    """The create call."""
    deadline: datetime
    is_rented: bool
    state: MachineState
    is_overdue: bool
    """Asked, and the answer is late or lost."""
    was_heard: bool
    """Its trainer has spoken: it is there, whatever the provider says."""
    sentence: str | None
    attempt: int
    released_at: datetime | None
    disk_ends: bool
    """What it made lies on a disk that is deleted with it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The numbers that move."""

    step: int
    total_steps: int
    epoch: float
    percent: int
    loss: float | None
    validation_loss: float | None
    tokens_per_second: float | None
    done: int
    """Rows prepared or scored in a phase without steps."""
    total: int
    elapsed: float | None
    """Seconds since the first machine was asked for."""
    remaining: float | None
    """Seconds of training still to come, by the speed so far."""
    peak_rss_mb: int | None


@dataclass(frozen=True, slots=True)
class Origin:
    """What the run was made from."""

    dataset: str
    version_id: UUID
    version: int
    baseline_id: UUID
    baseline_scores: Mapping[str, float]
    base_repo_id: str
    base_revision: str
    created_by: str
    rule: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunDetails:
    id: UUID
    project_id: UUID
    name: str
    purpose: RunPurpose
    state: RunState
    sentence: str | None
    created_at: datetime
    started_at: datetime | None
    attempt: int
    is_final: bool
    is_settled: bool
    """Nothing about it can change any more: final, and its machine is proved gone."""
    is_rented: bool
    """Its draft says RunPod."""
    phases: Sequence[PhaseTime]
    progress: Progress
    machine: MachineFacts | None
    waiting: Waiting | None
    """Of a queued run: for what."""
    failure: Failure | None
    settings: Sequence[SettingView]
    maximum_runtime: timedelta
    seconds_used: float
    findings: Sequence[Mapping[str, Any]]
    origin: Origin
    has_adapter: bool
    spend: Spend
    looked_at: datetime
    evaluation_id: UUID | None
    evaluation_state: EvaluationState | None
    verdict: Mapping[str, Any] | None
    scores: Mapping[str, float]


_GONE = frozenset({MachineState.RELEASED, MachineState.ABSENT})


def show_details(session: Session, caller: Caller, project_id: UUID, run_id: UUID) -> RunDetails:
    caller.require(Permission.SEE)
    run = own_row(session, caller, Run, run_id, "run")
    if run.project_id != project_id:
        raise NotFound(f"There is no run {run_id} in this project.")
    machine = machines.machine_of(session, Use.RUN, run.id, run.attempt)
    evaluation = session.get(Evaluation, run.evaluation_id) if run.evaluation_id else None
    adapter = session.exec(select(Adapter.id).where(Adapter.run_id == run.id)).one_or_none()
    return RunDetails(
        id=run.id,
        project_id=run.project_id,
        name=run.name,
        purpose=run.purpose,
        state=run.state,
        sentence=run.sentence,
        created_at=run.created_at,
        started_at=run.started_at,
        attempt=run.attempt,
        is_final=run.state in LIFECYCLE.final,
        is_settled=run.state in LIFECYCLE.final and (machine is None or machine.state in _GONE),
        is_rented=Placement.of(run.placement or {}).provider == RUNPOD,
        phases=_phases(session, run),
        progress=_progress(session, run, machine, evaluation),
        machine=_machine(machine, now_of(session)) if machine else None,
        waiting=waiting_of(session, run),
        failure=machine.result.failure if machine and machine.result else None,
        settings=[*list_settings(run.settings, run.trial), *list_place(run.placement)],
        maximum_runtime=runs.maximum_runtime(run),
        seconds_used=run.seconds_used,
        findings=run.findings or [],
        origin=_origin(session, run),
        has_adapter=adapter is not None,
        spend=machine_spend(session, Use.RUN, run.id),
        looked_at=now_of(session),
        evaluation_id=run.evaluation_id,
        evaluation_state=evaluation.state if evaluation else None,
        verdict=evaluation.verdict if evaluation else None,
        scores=(evaluation.scores or {}) if evaluation else {},
    )


def list_place(stored: Mapping[str, Any] | None) -> list[SettingView]:
    """Where it is trained, beside the defaults of a rented machine; of this computer, which has no choices, a time."""
    optional = (*FURTHER, NOT_BEFORE)
    typed = {name: text for name, text in type_placement(stored).items() if text or name not in optional}
    typed.pop("provider")
    if Placement.of(stored or {}).provider != RUNPOD:
        typed.pop("gpu_type")
    rows = [(BY_NAME[name], text) for name, text in typed.items()]
    return [
        SettingView(one.label, _with_unit(text, one.unit), _with_unit(one.default, one.unit), text != one.default)
        for one, text in rows
    ]


def _with_unit(text: str, unit: str) -> str:
    return f"{text} {unit}" if text and unit else text


def list_settings(values: Mapping[str, Any], trial: Mapping[str, Any] | None = None) -> list[SettingView]:
    """Every setting in the order of the form; the bounds of a trial first."""
    found = []
    defaults = {**(TrialSettings().as_values() if trial else {}), **RunSettings().as_values()}
    for name, default in defaults.items():
        label = CHOICES[name][0] if name in CHOICES else RANGES[name].label
        value = {**values, **(trial or {})}.get(name, default)
        found.append(SettingView(label, _say(name, value), _say(name, default), value != default))
    return found


def _phases(session: Session, run: Run) -> tuple[PhaseTime, ...]:
    events = session.exec(select(RunEvent).where(RunEvent.subject_id == run.id).order_by(col(RunEvent.id)))
    changes = [(event.at, RunState(event.state)) for event in events]
    if not changes or changes[-1][1] is not run.state:
        changes.append((now_of(session), run.state))
    return phase_times(changes, run.ended_at or now_of(session), scores=run.evaluates)


def _progress(session: Session, run: Run, machine: MachineView | None, evaluation: Evaluation | None) -> Progress:
    status = machine.status if machine and machine.status else None
    result = machine.result if machine else None
    step, total = (status.step, status.total_steps) if status else (0, 0)
    scoring = None
    if run.state is RunState.EVALUATING and evaluation is not None:
        scorer = machines.machine_of(session, Use.EVALUATION, evaluation.id, evaluation.attempt)
        scoring = scorer.status if scorer else None
    rows = scoring or status
    percent = 100 * rows.done // rows.total if rows and rows.total and (scoring or not step) else 0
    return Progress(
        step=step,
        total_steps=total,
        epoch=status.epoch if status else 0.0,
        percent=100 * step // total if total and run.state is not RunState.EVALUATING else percent,
        loss=status.loss if status else None,
        validation_loss=status.validation_loss if status else None,
        tokens_per_second=status.tokens_per_second if status else None,
        done=rows.done if rows else 0,
        total=rows.total if rows else 0,
        elapsed=((run.ended_at or now_of(session)) - run.started_at).total_seconds() if run.started_at else None,
        remaining=_remaining(session, run, machine) if run.state is RunState.TRAINING else None,
        peak_rss_mb=result.peak_rss_mb if result else None,
    )


def _remaining(session: Session, run: Run, machine: MachineView | None) -> float | None:
    """The steps left at the speed of this attempt; None before its second step."""
    first = metrics.first_step(session, run.id, run.attempt)
    if machine is None or machine.status is None or first is None or machine.status.step <= first:
        return None
    began = session.exec(
        select(RunEvent.at)
        .where(RunEvent.subject_id == run.id, RunEvent.verb == "train")
        .order_by(col(RunEvent.id).desc())
    ).first()
    if began is None:
        return None
    spent = (now_of(session) - began).total_seconds()
    done, left = machine.status.step - first + 1, machine.status.total_steps - machine.status.step
    return spent / done * left


def _machine(machine: MachineView, now: datetime) -> MachineFacts:
    return MachineFacts(
        id=machine.id,
        name=machine.name,
        provider_id=machine.provider_id,
        provider=machine.provider,
        gpu_type=machine.gpu_type,
        gpu_count=machine.gpu_count,
        data_center=machine.data_center,
        provider_status=machine.provider_status,
        rate=machine.rate,
        boots=machine.boots,
        since=machine.ask_sent_at,
        deadline=machine.deadline,
        is_rented=machine.connection_id is not None,
        state=machine.state,
        is_overdue=machine.is_checking(now),
        was_heard=machine.started_at is not None,
        sentence=machine.trouble or machine.sentence,
        attempt=machine.attempt,
        released_at=machine.released_at,
        disk_ends=machine.keeps_files_to_itself,
    )


def _origin(session: Session, run: Run) -> Origin:
    version = session.get_one(DatasetVersion, run.version_id)
    project = session.get_one(Project, run.project_id)
    return Origin(
        dataset=session.get_one(Dataset, version.dataset_id).name,
        version_id=version.id,
        version=version.number,
        baseline_id=run.baseline_id,
        baseline_scores=session.get_one(Evaluation, run.baseline_id).scores or {},
        base_repo_id=project.base_repo_id,
        base_revision=project.base_revision,
        created_by=_who(session, run.created_by),
        rule=run.gate,
    )


def _who(session: Session, member_id: UUID | None) -> str:
    member = session.get(Member, member_id) if member_id else None
    user = session.get(User, member.user_id) if member else None
    return (user.name or user.email) if user else ""


def _say(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if name == "learning_rate":
        return f"{value:g}"
    units = {
        "trial_minutes": " min",
        "checkpoint_every_epochs": " epoch" if value == 1 else " epochs",
        "maximum_runtime_hours": " h",
    }
    if isinstance(value, int | float):
        return f"{value:,g}{units.get(name, '')}"
    return {"lora": "LoRA", "qlora": "QLoRA"}.get(value, str(value))
