"""What an evaluation does next: ask for its machine, follow it, take its answers."""

from __future__ import annotations

from datetime import datetime, timedelta

from jobs.broker import actor
from tensorant_app.db import clock
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain.connections import LOCAL
from tensorant_app.domain.errors import ProviderError, TensorantError
from tensorant_app.domain.evaluations import KEEPS_MACHINE, EvaluationReason, EvaluationState
from tensorant_app.domain.steps import Move
from tensorant_app.services import evaluations, machines, places, slots, training
from tensorant_app.services.connections import tell_trouble, volume_for
from tensorant_app.services.evaluations import EvaluationTask
from trainer.contract import Split

_FENCE_WAIT = timedelta(seconds=2)
_SLOT_WAIT = timedelta(seconds=5)


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
    """Time, slot and fence, then its files, then the intent."""
    now = clock.now()
    with reading() as session:
        has_turn = slots.has_turn(session, task.organization_id, task.id)
    if (wait := _waits(task, now, has_turn=has_turn)) is not None:
        with lease.write() as session:
            lease.again(session, wait)
        return
    try:
        with reading() as session:
            doors = places.open_doors(session, task.organization_id, task.placement)
        places.require_volume(doors)
        base = places.bring_base(doors, task.base_repo_id, task.base_revision)
        place = places.choose_place(doors, task.placement, task.refusals, places.offers_of(doors))
        order = evaluations.order_machine(task, place, clock.now())
        training.stage_version(doors.volume, task.version_key, (Split.TEST,))
        machines.stage(doors.volume, order, evaluations.job_of(task, order, base))
    except (OSError, TensorantError) as error:
        _fail(lease, tell_trouble(error))
        return
    with lease.write() as session:
        if evaluations.note_asked(session, task, order):
            lease.done(session)
        else:
            lease.again(session, clock.now() + _SLOT_WAIT)


def _waits(task: EvaluationTask, now: datetime, *, has_turn: bool) -> datetime | None:
    if task.not_before is not None and now < task.not_before:
        return task.not_before
    if not has_turn:
        return now + _SLOT_WAIT
    return now + _FENCE_WAIT if training.is_fenced(task.machine, now) else None


def _fail(lease: Lease, sentence: str) -> None:
    """It cannot start, and no machine is asked for."""
    with lease.write() as session:
        evaluations.note_refused(session, lease.subject_id, Move("fail", EvaluationReason.DENIED, sentence))
        lease.done(session)


def _follow(lease: Lease, task: EvaluationTask) -> None:
    """The machine promises a look at every change; the deadline is looked at here."""
    are_verified, trouble = None, None
    try:
        with reading() as session:
            volume = volume_for(session, task.organization_id, task.machine.provider if task.machine else LOCAL)
        are_verified = evaluations.take_answers(task, volume)
    except (OSError, ProviderError) as error:
        trouble = tell_trouble(error)
        if evaluations.waits_for_volume(task, clock.now()) and lease.tries < training.VOLUME_TRIES:
            with lease.write() as session:
                evaluations.note_trouble(session, task.id, trouble)
            raise
        are_verified = False
    with lease.write() as session:
        evaluations.take_steps(session, task, are_answers_verified=are_verified, trouble=trouble)
        if task.machine is None:
            lease.done(session)
        else:
            lease.again(session, max(evaluations.next_look(task), clock.now() + _SLOT_WAIT))
