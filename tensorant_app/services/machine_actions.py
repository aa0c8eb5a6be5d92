"""What a person can do about a machine, of a run or of an evaluation: confirm that there is none, clean up, watch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlmodel import Session, select

from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.promise import promise
from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of
from tensorant_app.domain.errors import Conflict
from tensorant_app.domain.evaluations import LIFECYCLE as EVALUATION
from tensorant_app.domain.machines import LIFECYCLE as MACHINE
from tensorant_app.domain.machines import (
    RENTED,
    MachineReason,
    MachineState,
    Use,
    why_not_confirmed,
)
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.runs import KEEPS_MACHINE, RunReason
from tensorant_app.domain.spend import Spend
from tensorant_app.domain.steps import Cause, Move
from tensorant_app.services import evaluations, machines, runs
from tensorant_app.services.audit import write_audit
from tensorant_app.services.lookup import own_row
from tensorant_app.services.machine_steps import facts_of
from tensorant_app.services.machines import MachineView
from tensorant_app.services.spend import machine_spend

WATCH = timedelta(seconds=45)
"""So long after its page last asked, a machine counts as watched."""


@dataclass(frozen=True, slots=True)
class EvaluationMachine:
    """The machine of an evaluation, as far as it may need a person, and what the evaluation cost."""

    id: UUID
    name: str
    is_rented: bool
    is_gone: bool
    checking: bool
    machine_ids: Sequence[str]
    confirm_absent: str | None
    trouble: str | None
    """Why it is not given back; None where its release has not failed."""
    spend: Spend
    gpu_type: str
    data_center: str | None
    rate: HourlyRate | None
    deadline: datetime
    """It is given back then, whatever it says."""


def show_evaluation_machine(session: Session, caller: Caller, evaluation_id: UUID) -> EvaluationMachine | None:
    """For the panel of its page; None where no machine was asked for."""
    caller.require(Permission.SEE)
    row = own_row(session, caller, Evaluation, evaluation_id, "evaluation")
    machine, now = machines.machine_of(session, Use.EVALUATION, row.id, row.attempt), now_of(session)
    if machine is None:
        return None
    return EvaluationMachine(
        machine.id,
        machine.name,
        machine.connection_id is not None,
        machine.state in MACHINE.final,
        machine.is_checking(now),
        machine.provider_ids,
        why_not_absent(machine, now),
        machine.trouble,
        machine_spend(session, Use.EVALUATION, row.id),
        machine.gpu_type,
        machine.data_center,
        machine.rate,
        machine.deadline,
    )


def confirm_run_absent(session: Session, caller: Caller, run_id: UUID) -> None:
    """A person looked at the provider: the launch made no machine. A run that waited for it ends cancelled.

    One that was paused, or has its adapter, had given the machine up before: it stays as it is.
    """
    caller.require(Permission.SPEND)
    run = own_row(session, caller, Run, run_id, "run")
    _confirm_absent(session, Use.RUN, run.id, run.attempt)
    if run.state in KEEPS_MACHINE:
        sentence = f"{caller.name} confirmed that its machine was never rented."
        runs.advance(session, run, Move("cancel", RunReason.NO_LAUNCH, sentence), Cause.MEMBER)
    write_audit(session, caller, "runs.confirm_absent", run.id, attempt=run.attempt)


def confirm_evaluation_absent(session: Session, caller: Caller, evaluation_id: UUID) -> None:
    """The same for an evaluation."""
    caller.require(Permission.SPEND)
    row = own_row(session, caller, Evaluation, evaluation_id, "evaluation")
    _confirm_absent(session, Use.EVALUATION, row.id, row.attempt)
    if row.state not in EVALUATION.final:
        sentence = f"{caller.name} confirmed that its machine was never rented."
        evaluations.advance(session, row, Move("cancel", "no_launch", sentence), Cause.MEMBER)
    write_audit(session, caller, "evaluations.confirm_absent", row.id, attempt=row.attempt)


def retry_cleanup(session: Session, caller: Caller, machine_id: UUID) -> None:
    """Send the delete call again now; it goes on by itself as well."""
    caller.require(Permission.SPEND)
    row = own_row(session, caller, Machine, machine_id, "machine")
    machines.take_step(session, row, Move("retry"), Cause.MEMBER)
    write_audit(session, caller, "machines.retry_cleanup", row.id, machine=row.name)


def watch_machine(session: Session, caller: Caller, machine_id: UUID) -> None:
    """Its page is open: its heartbeat is read every few seconds for a while. Call it at each tick; it seldom writes."""
    caller.require(Permission.SEE)
    row = own_row(session, caller, Machine, machine_id, "machine")
    now = now_of(session)
    if row.state is not MachineState.HELD or (row.watched_until and row.watched_until > now + WATCH / 2):
        return
    row.watched_until = now + WATCH
    promise(session, machines.TEND, row.id)


def why_not_absent(machine: MachineView | None, now: datetime) -> str | None:
    """Why nobody can confirm yet that it was never rented; None where they can."""
    if machine is None:
        return "It has no machine."
    if machine.connection_id is None:
        return "On this computer the console finds out by itself."
    return why_not_confirmed(facts_of(machine), RENTED, now)


def _confirm_absent(session: Session, use: Use, subject_id: UUID, attempt: int) -> None:
    found = select(Machine).where(Machine.use == use, Machine.subject_id == subject_id, Machine.attempt == attempt)
    row = session.exec(found).one_or_none()
    reason = why_not_absent(machines.view(row) if row else None, now_of(session))
    if row is None or reason:
        raise Conflict(reason or "It has no machine.")
    move = Move("confirm_absent", MachineReason.CONFIRMED_ABSENT, "A person confirmed that it was never rented.")
    machines.take_step(session, row, move, Cause.MEMBER)
