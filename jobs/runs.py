"""What a run does next: start when it may, follow its machine, take its adapter, be judged."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from jobs import hearing
from jobs.broker import actor
from tensorant_app.db import clock
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain.errors import ProviderError, TensorantError
from tensorant_app.domain.evaluations import LIFECYCLE as EVALUATION
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.readiness import Check, Finding, refused
from tensorant_app.domain.runs import KEEPS_MACHINE, RunState, Work
from tensorant_app.providers.base import FileStore
from tensorant_app.services import adapters, machines, places, readiness, runs, slots, training, trials
from tensorant_app.services.connections import provider_for, tell_trouble
from tensorant_app.services.machines import MachineView
from tensorant_app.services.training import RunTask

_SLOT_WAIT = timedelta(seconds=5)
_FENCE_WAIT = timedelta(seconds=2)
_log = logging.getLogger(__name__)


@actor(runs.REACT, queue="slow")
def react(lease: Lease) -> None:
    """Look at the run and its machine, and take every step they call for."""
    with reading() as session:
        task = training.read_task(session, lease.subject_id)
    if task.state is RunState.QUEUED:
        _start(lease, task)
    elif task.state in KEEPS_MACHINE:
        _follow(lease, task)
    elif task.state is RunState.ADAPTER_READY:
        with lease.write() as session:
            training.score_adapter(session, task.id)
            lease.done(session)
    elif task.state is RunState.EVALUATING:
        _judge(lease, task)
    elif task.state is RunState.NEEDS_RECOVERY and task.verify_wanted_at is not None:
        _verify(lease, task)
    else:
        _rest(lease)


def _start(lease: Lease, task: RunTask) -> None:
    """Time, slot, fence, checks, files – then the intent, in this order; each can be repeated."""
    now = clock.now()
    if task.not_before is not None and now < task.not_before:
        _wait(lease, task.not_before)
        return
    with reading() as session:
        has_turn = slots.has_turn(session, task.organization_id, task.id)
        subject = readiness.read_subject(session, task.id)
    if not has_turn or training.is_fenced(task.machine, now):
        _wait(lease, now + (_FENCE_WAIT if has_turn else _SLOT_WAIT))
        return
    findings = readiness.check_run(subject, now)
    if not _may_start(lease, task, findings):
        return
    try:
        with reading() as session:
            doors = places.open_doors(session, task.organization_id, task.placement)
        place = places.choose_place(doors, task.placement, task.refusals, places.offers_of(doors))
        order = training.order_machine(task, place, clock.now())
        training.stage_inputs(
            doors.volume, task, order, places.bring_base(doors, task.base_repo_id, task.base_revision)
        )
    except (OSError, TensorantError) as error:
        _may_start(lease, task, [*findings, refused(Check.STORAGE, tell_trouble(error))])
        return
    with lease.write() as session:
        if training.note_asked(session, task, order):
            lease.done(session)
        else:
            lease.again(session, clock.now() + _SLOT_WAIT)


def _may_start(lease: Lease, task: RunTask, findings: Sequence[Finding]) -> bool:
    """Keep what was found; where something refuses, there is nothing left to do here."""
    with lease.write() as session:
        may_start = training.note_findings(session, task.id, findings)
        if not may_start:
            lease.done(session)
    return may_start


def _follow(lease: Lease, task: RunTask) -> None:
    """The machine promises a look at every change; the deadline is looked at here."""
    adapter, report, trouble = None, None, None
    try:
        with reading() as session:
            volume = training.volume_of(session, task)
        task = _hear(lease, task, volume)
        report = trials.read_report(volume, task.machine) if task.trial and task.machine else None
        if task.machine is not None and task.machine.work is Work.DONE:
            adapter = training.take_adapter(task, volume)
    except (OSError, ProviderError) as error:
        trouble = tell_trouble(error)
        if training.waits_for_volume(task, clock.now(), lease.tries):
            with lease.write() as session:
                training.note_trouble(session, task.id, trouble)
            raise
    with lease.write() as session:
        training.take_steps(session, task, adapter, report, trouble)
        if task.machine is None:
            lease.done(session)
        else:
            lease.again(session, max(training.next_look(task), clock.now() + _SLOT_WAIT))


def _hear(lease: Lease, task: RunTask, volume: FileStore) -> RunTask:
    """Before an attempt is given up its last words are read: it may have finished since anybody looked."""
    machine = task.machine
    if machine is None or machine.result is not None or not training.is_giving_up(task, clock.now()):
        return task
    if machine.keeps_files_to_itself:
        _listen(task, machine)
    status, result = machines.read_report(volume, machine)
    if status is None and result is None:
        return task
    with lease.write() as session:
        machines.note_report(session, machine.id, status, result)
    with reading() as session:
        return training.read_task(session, task.id)


def _listen(task: RunTask, machine: MachineView) -> None:
    """Its log is all that it can say; where that cannot be read, what was heard before stands."""
    try:
        with reading() as session:
            provider = provider_for(session, task.organization_id, machine.provider)
        hearing.hear(machine, provider)
    except ProviderError as error:
        _log.warning("The log of %s could not be read: %s", machine.name, error)


def _verify(lease: Lease, task: RunTask) -> None:
    """Over the volume alone: no machine is asked for."""
    try:
        with reading() as session:
            volume = training.volume_of(session, task)
        adapter = adapters.find_on(volume, task.id, task.attempt)
    except (OSError, ProviderError) as error:
        is_last = lease.tries >= training.VOLUME_TRIES
        with lease.write() as session:
            if not is_last:
                training.note_trouble(session, task.id, tell_trouble(error))
            else:
                adapters.note_unverified(session, task.id, tell_trouble(error))
                lease.done(session)
        if not is_last:
            raise
        return
    with lease.write() as session:
        adapters.note_verified(session, task.id, adapter)
        lease.done(session)


def _judge(lease: Lease, task: RunTask) -> None:
    if task.evaluation_state is EvaluationState.COMPLETED:
        verdict = training.judge_adapter(task)
        with lease.write() as session:
            training.note_verdict(session, task, verdict)
            lease.done(session)
    elif task.evaluation_state in EVALUATION.final:
        with lease.write() as session:
            training.note_unscored(session, task.id)
            lease.done(session)
    else:
        _rest(lease)


def _wait(lease: Lease, at: datetime) -> None:
    with lease.write() as session:
        lease.again(session, at)


def _rest(lease: Lease) -> None:
    """Whoever changes something that matters promises the next look."""
    with lease.write() as session:
        lease.done(session)
