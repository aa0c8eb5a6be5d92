"""What a queued run waits for: its time, capacity, a slot, or the machine that it lost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlmodel import Session

from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of
from tensorant_app.domain.machines import HOLDS_SLOT, Use
from tensorant_app.domain.runs import RunState
from tensorant_app.services import machines, slots, training


class WaitsFor(StrEnum):
    CHECKS = "checks"
    """Nothing that lasts: they run, then it asks for its machine."""
    TIME = "time"
    """Its own *not before*."""
    CAPACITY = "capacity"
    """The provider had none; it is asked again."""
    SLOT = "slot"
    """Others hold them all."""
    LOST_MACHINE = "lost_machine"
    """The same, and one of them is held by the machine that this run lost."""
    FENCE = "fence"
    """A slot is free, and the lost machine may still write."""


@dataclass(frozen=True, slots=True)
class Waiting:
    what: WaitsFor
    until: datetime | None = None
    """When it goes on by itself at the latest; None where that depends on something else."""
    slots: int = 0
    held: int = 0


def waiting_of(session: Session, run: Run) -> Waiting | None:
    """None for a run that is not queued."""
    if run.state is not RunState.QUEUED:
        return None
    if run.not_before is not None and run.not_before > now_of(session):
        return Waiting(WaitsFor.CAPACITY if run.refusals else WaitsFor.TIME, run.not_before)
    limit, held = slots.count_slots(session, run.organization_id)
    machine = machines.machine_of(session, Use.RUN, run.id, run.attempt)
    is_lost = machine is not None and machine.state in HOLDS_SLOT
    fence_ends = machine.release_wanted_at + training.FENCE if machine and machine.release_wanted_at else None
    if not slots.has_turn(session, run.organization_id, run.id):
        return Waiting(
            WaitsFor.LOST_MACHINE if is_lost else WaitsFor.SLOT, fence_ends if is_lost else None, limit, held
        )
    if training.is_fenced(machine, now_of(session)):
        return Waiting(WaitsFor.FENCE, fence_ends, limit, held)
    return Waiting(WaitsFor.CHECKS)
