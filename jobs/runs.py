"""What a run does next: start when it may, follow its machine, take its adapter, be judged."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from jobs.broker import actor
from tensorant_app.db import clock
from tensorant_app.db.promise import Lease
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading
from tensorant_app.domain.evaluations import LIFECYCLE as EVALUATION
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.readiness import Check, Finding, refused
from tensorant_app.domain.runs import KEEPS_MACHINE, RunState, Work
from tensorant_app.services import readiness, runs, training, trials
from tensorant_app.services.bases import find_base
from tensorant_app.services.connections import provider_for, provider_name, tell_disk_trouble, volume_for
from tensorant_app.services.training import RunTask

_SLOT_WAIT = timedelta(seconds=5)
_FENCE_WAIT = timedelta(seconds=2)


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
    else:
        _rest(lease)


def _start(lease: Lease, task: RunTask) -> None:
    """Slot, fence, checks, files – then the intent, in this order; each can be repeated."""
    with reading() as session:
        run = session.get_one(Run, task.id)
        has_slot = runs.has_free_slot(session, run)
        subject = readiness.read_subject(session, task.id)
        provider, volume = provider_for(session, task.organization_id), volume_for(session, task.organization_id)
        name = provider_name(session, task.organization_id)
    if not has_slot or training.is_fenced(task.machine, clock.now()):
        _wait(lease, clock.now() + (_FENCE_WAIT if has_slot else _SLOT_WAIT))
        return
    findings = readiness.check_run(subject, clock.now())
    if not _may_start(lease, task, findings):
        return
    order = training.order_machine(task, name, provider.offers()[0].gpu_type, clock.now())
    try:
        training.stage_inputs(volume, task, order, find_base(task.base_repo_id, task.base_revision))
    except OSError as error:
        _may_start(lease, task, [*findings, refused(Check.STORAGE, tell_disk_trouble(error))])
        return
    with lease.write() as session:
        training.note_asked(session, task, order)
        lease.done(session)


def _may_start(lease: Lease, task: RunTask, findings: Sequence[Finding]) -> bool:
    """Keep what was found; where something refuses, there is nothing left to do here."""
    with lease.write() as session:
        may_start = training.note_findings(session, task.id, findings)
        if not may_start:
            lease.done(session)
    return may_start


def _follow(lease: Lease, task: RunTask) -> None:
    """The machine promises a look at every change; the deadline is looked at here."""
    adapter = None
    with reading() as session:
        volume = volume_for(session, task.organization_id)
    report = trials.read_report(volume, task.machine) if task.trial and task.machine else None
    if task.machine is not None and task.machine.work is Work.DONE:
        try:
            adapter = training.take_adapter(task, volume)
        except OSError as error:
            with lease.write() as session:
                training.note_trouble(session, task.id, tell_disk_trouble(error))
            raise
    with lease.write() as session:
        training.take_steps(session, task, adapter, report)
        if task.machine is None:
            lease.done(session)
        else:
            lease.again(session, max(task.machine.deadline, clock.now() + _SLOT_WAIT))


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
