"""What a person can do where a run does not simply go on: pause, resume, extend, verify."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.promise import promise
from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of
from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.hyperparameters import RANGES, show_number
from tensorant_app.domain.machines import (
    MachineState,
    Use,
)
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.runs import KEEPS_MACHINE, RunReason, RunState, Work
from tensorant_app.domain.steps import Cause, Move
from tensorant_app.providers.base import Storage
from tensorant_app.services import machine_actions, machines, runs
from tensorant_app.services.audit import write_audit
from tensorant_app.services.lookup import own_row
from tensorant_app.services.machines import MachineView
from trainer.contract import Ask

_LEAST_EXTENSION = timedelta(minutes=6)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What can be done about a run now; each None where it can be done, else a sentence that says why not."""

    checking: bool
    """**Checking launch**: nobody knows whether the machine exists."""
    machine_ids: Sequence[str]
    """Every machine of its name at the provider; more than one must be settled by a person."""
    confirm_absent: str | None
    retry_cleanup: str | None
    pause: str | None
    resume: str | None
    verify: str | None
    extend: str | None
    least_hours: float
    """The smallest maximum runtime that `extend` takes."""
    is_pausing: bool
    is_verifying: bool
    """The volume is being looked through."""
    was_searched: bool
    """It was looked through, and no finished adapter lies there."""
    is_pod_local: bool
    """What it made lies on the machine's own disk, and a person carries it over."""
    has_disk: bool
    """Of such a machine: its disk is still there."""
    has_zip: bool
    """Of such a machine: it said that its adapter is there."""
    unfinished: int
    """Of such a machine whose time was over: the step that the adapter is of; 0 for a finished one."""


def show_recovery(session: Session, caller: Caller, run_id: UUID) -> Recovery:
    """For the panels of a run's page."""
    caller.require(Permission.SEE)
    run = own_row(session, caller, Run, run_id, "run")
    machine = machines.machine_of(session, Use.RUN, run.id, run.attempt)
    now = now_of(session)
    return Recovery(
        checking=machine is not None and machine.is_checking(now),
        machine_ids=machine.provider_ids if machine else (),
        confirm_absent=machine_actions.why_not_absent(machine, now),
        retry_cleanup=_why_no_cleanup(machine),
        pause=_why_no_pause(run, machine),
        resume=None if run.state is RunState.PAUSED else "Only a paused run can be resumed.",
        verify=None if run.state is RunState.NEEDS_RECOVERY else "Only a run that needs recovery can be verified.",
        extend=_why_no_extension(run, machine),
        least_hours=_least_hours(run),
        is_pausing=run.pause_wanted_at is not None,
        is_verifying=run.verify_wanted_at is not None,
        was_searched=run.reason == RunReason.NOT_FOUND,
        is_pod_local=_is_pod_local(machine),
        has_disk=machine is not None and machine.keeps_files_to_itself,
        has_zip=_is_pod_local(machine)
        and (_unfinished(machine) > 0 or (machine is not None and machine.work is Work.DONE)),
        unfinished=_unfinished(machine),
    )


def pause_run(session: Session, caller: Caller, run_id: UUID) -> None:
    """Write a checkpoint, give the machine back, keep everything. Only `resume_run` ends it."""
    caller.require(Permission.SPEND)
    run = own_row(session, caller, Run, run_id, "run")
    machine = machines.machine_of(session, Use.RUN, run.id, run.attempt)
    if reason := _why_no_pause(run, machine):
        raise Conflict(reason)
    write_audit(session, caller, "runs.pause", run.id)
    if machine is None or machine.work is Work.NONE:
        # Nothing has been trained that could be lost.
        runs.advance(session, run, Move("pause", RunReason.BY_MEMBER, f"Paused by {caller.name}."), Cause.MEMBER)
        return
    run.pause_wanted_at = run.pause_wanted_at or now_of(session)
    machines.say(session, Use.RUN, run.id, run.attempt, ask=Ask.PAUSE, deadline=None)
    promise(session, runs.REACT, run.id)


def resume_run(session: Session, caller: Caller, run_id: UUID) -> None:
    """Queue it again: checks and price are looked at anew, and it goes on from its last verified checkpoint."""
    caller.require(Permission.SPEND)
    run = own_row(session, caller, Run, run_id, "run")
    run.queued_at, run.not_before = now_of(session), None
    runs.advance(session, run, Move("resume", RunReason.BY_MEMBER, f"Resumed by {caller.name}."), Cause.MEMBER)
    write_audit(session, caller, "runs.resume", run.id)


def extend_run(session: Session, caller: Caller, run_id: UUID, maximum_runtime_hours: float) -> None:
    """A longer maximum runtime, for all attempts together. A run that needs recovery goes on; one at work is told."""
    caller.require(Permission.SPEND)
    run = own_row(session, caller, Run, run_id, "run")
    machine = machines.machine_of(session, Use.RUN, run.id, run.attempt)
    if reason := _why_no_extension(run, machine):
        raise Conflict(reason)
    _require_hours(run, maximum_runtime_hours)
    longer = timedelta(hours=maximum_runtime_hours - _hours_of(run))
    before, run.runtime_limit_hours = _hours_of(run), maximum_runtime_hours
    write_audit(session, caller, "runs.extend", run.id, hours=maximum_runtime_hours, before=before)
    if run.state is RunState.NEEDS_RECOVERY:
        run.queued_at, run.not_before, run.verify_wanted_at = now_of(session), None, None
        sentence = f"{caller.name} set the maximum runtime to {show_number(maximum_runtime_hours)} h."
        runs.advance(session, run, Move("extend", RunReason.BY_MEMBER, sentence), Cause.MEMBER)
    elif machine is not None:
        ask = Ask.PAUSE if run.pause_wanted_at else Ask.NONE
        machines.say(session, Use.RUN, run.id, run.attempt, ask=ask, deadline=machine.deadline + longer)
        promise(session, runs.REACT, run.id)


def verify_run(session: Session, caller: Caller, run_id: UUID) -> None:
    """Look for a finished adapter on the volume, without a GPU; what is found whole is taken."""
    caller.require(Permission.SPEND)
    run = own_row(session, caller, Run, run_id, "run")
    if run.state is not RunState.NEEDS_RECOVERY:
        raise Conflict("Only a run that needs recovery can be verified.")
    run.verify_wanted_at = now_of(session)
    promise(session, runs.REACT, run.id)
    write_audit(session, caller, "runs.verify", run.id)


def _why_no_cleanup(machine: MachineView | None) -> str | None:
    if machine is None or machine.state is not MachineState.RELEASE_FAILED:
        return "Its machine's release has not failed."
    return None


def _hours_of(run: Run) -> float:
    """The maximum runtime in force."""
    return runs.maximum_runtime(run) / timedelta(hours=1)


_OUT_OF_HEARING = "Without a network volume the console cannot speak to its Pod. Let it finish, or cancel the run."


def _why_no_pause(run: Run, machine: MachineView | None) -> str | None:
    if run.state is RunState.PACKAGING:
        return "The adapter is being packaged; that is nearly done and is not interrupted."
    if run.state not in KEEPS_MACHINE:
        return f"This run is {run.state.value.replace('_', ' ')}: there is nothing to pause."
    if _is_pod_local(machine):
        return _OUT_OF_HEARING
    return "It is being paused already." if run.pause_wanted_at else None


def _why_no_extension(run: Run, machine: MachineView | None) -> str | None:
    if run.trial is not None:
        return "A small training trial has nothing to recover. Create another one, or the full run."
    if run.state is not RunState.NEEDS_RECOVERY:
        is_at_work = run.state in KEEPS_MACHINE
        if is_at_work and _is_pod_local(machine):
            return _OUT_OF_HEARING
        return None if is_at_work else "Only a run that is at work or needs recovery can have a longer limit."
    if _is_pod_local(machine):
        return "Its checkpoints lie on the machine's own disk, from which no other machine can go on."
    return None


def _is_pod_local(machine: MachineView | None) -> bool:
    return machine is not None and machine.storage is Storage.POD


def _unfinished(machine: MachineView | None) -> int:
    return machine.result.unfinished if machine is not None and machine.result is not None else 0


def _least_hours(run: Run) -> float:
    used = timedelta(seconds=run.seconds_used) + _LEAST_EXTENSION
    return max(round(used / timedelta(hours=1), 2), _hours_of(run))


def _require_hours(run: Run, hours: float) -> None:
    most = RANGES["maximum_runtime_hours"].high
    least = _least_hours(run)
    if not least < hours <= most:
        raise Invalid(
            {
                "maximum_runtime_hours": f"Maximum runtime must be above {show_number(least)} h and at most {show_number(most)} h."
            }
        )
