"""What an evaluation does next: ask for its machine, follow it, take its answers."""

from __future__ import annotations

from datetime import timedelta

from jobs.broker import actor
from tensorant_app.db import clock
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain.errors import TensorantError
from tensorant_app.domain.evaluations import KEEPS_MACHINE, EvaluationReason, EvaluationState
from tensorant_app.domain.steps import Move
from tensorant_app.services import evaluations, machines, training
from tensorant_app.services.bases import find_base
from tensorant_app.services.connections import provider_for, provider_name, tell_disk_trouble, volume_for
from tensorant_app.services.evaluations import EvaluationTask
from trainer.contract import Split

_FENCE_WAIT = timedelta(seconds=2)
_LEAST_WAIT = timedelta(seconds=5)


@actor(evaluations.REACT, queue="slow")
def react(lease: Lease) -> None:
    """Look at the evaluation and its machine, and take every step they call for."""
    with reading() as session:
        task = evaluations.read_task(session, lease.subject_id)
    if task.state is EvaluationState.QUEUED:
        _start(lease, task)
    elif task.state in KEEPS_MACHINE:
        _follow(lease, task)
    else:
        with lease.write() as session:
            lease.done(session)


def _start(lease: Lease, task: EvaluationTask) -> None:
    if training.is_fenced(task.machine, clock.now()):
        with lease.write() as session:
            lease.again(session, clock.now() + _FENCE_WAIT)
        return
    with reading() as session:
        provider, volume = provider_for(session, task.organization_id), volume_for(session, task.organization_id)
        name = provider_name(session, task.organization_id)
    try:
        base = find_base(task.base_repo_id, task.base_revision)
    except TensorantError as error:
        _fail(lease, error.message)
        return
    order = evaluations.order_machine(task, name, provider.offers()[0].gpu_type, clock.now())
    try:
        training.stage_version(volume, task.version_key, (Split.TEST,))
        machines.stage(volume, order, evaluations.job_of(task, order, base))
    except OSError as error:
        _fail(lease, tell_disk_trouble(error))
        return
    with lease.write() as session:
        evaluations.note_asked(session, task, order)
        lease.done(session)


def _fail(lease: Lease, sentence: str) -> None:
    """It cannot start, and no machine is asked for."""
    with lease.write() as session:
        evaluations.note_refused(session, lease.subject_id, Move("fail", EvaluationReason.DENIED, sentence))
        lease.done(session)


def _follow(lease: Lease, task: EvaluationTask) -> None:
    with reading() as session:
        volume = volume_for(session, task.organization_id)
    are_verified = evaluations.take_answers(task, volume)
    with lease.write() as session:
        evaluations.take_steps(session, task, are_answers_verified=are_verified)
        if task.machine is None:
            lease.done(session)
        else:
            lease.again(session, max(task.machine.deadline, clock.now() + _LEAST_WAIT))
