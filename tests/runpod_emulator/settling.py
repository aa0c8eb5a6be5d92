"""The hours after the last Pod, in seconds: a bill rests six hours after the release at the earliest, and nobody waits so long."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import sqlalchemy as sa
from sqlmodel import col, select

from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading
from tensorant_app.db.spend import MachineBill
from tensorant_app.domain.evaluations import LIFECYCLE as EVALUATION
from tensorant_app.domain.machines import LIFECYCLE as MACHINE
from tensorant_app.domain.runs import LIFECYCLE as RUN
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.spend import AGREEMENT, REST
from tests.later import Later, rest_of
from tests.runpod_emulator.emulator import Emulator

LEAP = timedelta(minutes=30)
"""As long as the console leaves between two looks at a bill."""
_AT_REST = RUN.final | {RunState.DRAFT, RunState.PAUSED, RunState.NEEDS_RECOVERY, RunState.ADAPTER_READY}
_LOOK_SECONDS = 0.2
_MOST_LEAPS = 4 * ((REST + AGREEMENT) // LEAP)


def unsettled(emulator: Emulator) -> int:
    """Pods that are gone and whose bill may still change, by the console's books."""
    query = (
        select(sa.func.count())
        .select_from(Machine)
        .outerjoin(MachineBill, col(MachineBill.machine_id) == col(Machine.id))
        .where(col(Machine.provider_id).in_(list(emulator.pods)), col(MachineBill.settled_at).is_(None))
    )
    with reading() as session:
        return session.exec(query).one()


def is_at_rest(emulator: Emulator) -> bool:
    """Nothing is rented, and no run and no evaluation is at work: time may pass without taking any from anybody."""
    live = select(Machine.id).where(col(Machine.state).not_in(list(MACHINE.final)))
    running = select(Run.id).where(col(Run.state).not_in(list(_AT_REST)))
    scoring = select(Evaluation.id).where(col(Evaluation.state).not_in(list(EVALUATION.final)))
    with reading() as session:
        is_busy = any(session.exec(query.limit(1)).first() is not None for query in (live, running, scoring))
    return not is_busy and not emulator.account.alive()


def settle_bills(emulator: Emulator, later: Later, *, is_over: Callable[[], bool] = lambda: False) -> bool:
    """Leap from one look at the bills to the next until each rests; False where something else began, or it never does."""
    leaps = 0
    while unsettled(emulator):
        if is_over() or leaps == _MOST_LEAPS or not is_at_rest(emulator):
            return False
        if rest_of(later) > timedelta(0):
            later.advance(LEAP.total_seconds())
            leaps += 1
        time.sleep(_LOOK_SECONDS)
    return True
