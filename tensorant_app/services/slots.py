"""Slots: how many machines an organization may hold at a time, and whose turn it is. Nobody is refused; one waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement
from sqlmodel import Session, col, func, or_, select

from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.organizations import Organization
from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of
from tensorant_app.domain.errors import Invalid, NotFound
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.machines import HOLDS_SLOT
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.runs import RunState
from tensorant_app.services.audit import write_audit

_ALLOWED = range(1, 101)


@dataclass(frozen=True, slots=True)
class SlotsView:
    """The organization's slots, and what holds them."""

    slots: int
    held_by: tuple[str, ...]
    """Names of machines, the oldest first; a machine holds its slot until it is proved gone."""
    waiting: int


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """Where somebody stands in the queue: those that lost a machine first, then who came first."""

    is_new: bool
    since: datetime
    id: UUID


def show_slots(session: Session, caller: Caller) -> SlotsView:
    caller.require(Permission.SEE)
    if caller.organization_id is None:
        return SlotsView(0, (), 0)
    organization = session.get_one(Organization, caller.organization_id)
    held = select(Machine.name).where(*_holds(organization.id)).order_by(col(Machine.created_at))
    return SlotsView(organization.run_slots, tuple(session.exec(held)), len(_queue(session, organization.id)))


def count_slots(session: Session, organization_id: UUID) -> tuple[int, int]:
    """How many there are, and how many are held."""
    held = select(func.count()).select_from(Machine).where(*_holds(organization_id))
    return session.get_one(Organization, organization_id).run_slots, session.exec(held).one()


def set_slots(session: Session, caller: Caller, typed: str) -> None:
    """Fewer than are held end nothing: what runs goes on, what is queued waits."""
    caller.require(Permission.ADMINISTER)
    if caller.organization_id is None:
        raise NotFound("Slots are an organization's; act as one of its members.")
    number = int(typed) if typed.strip().isdecimal() and len(typed.strip()) < 4 else 0
    if number not in _ALLOWED:
        raise Invalid({"slots": "Run slots are a whole number between 1 and 100."})
    organization = session.get_one(Organization, caller.organization_id)
    before, organization.run_slots = organization.run_slots, number
    write_audit(session, caller, "organizations.slots", organization.id, before=before, after=number)


def has_turn(session: Session, organization_id: UUID, subject_id: UUID, *, is_last_word: bool = False) -> bool:
    """Whether a machine may be asked for now: a slot is free, and nobody ready stands before it.

    `is_last_word` in the transaction that asks: nobody else of the organization decides at the same time.
    """
    query = select(Organization).where(Organization.id == organization_id)
    organization = session.exec(query.with_for_update() if is_last_word else query).one()
    # A machine that is not proved gone keeps its slot, also against the next attempt of its own run.
    holders = list(session.exec(select(Machine.subject_id).where(*_holds(organization_id))))
    free = organization.run_slots - len(holders)
    # One whose lost machine is still going stands in nobody's way.
    waiting = [place for place in _queue(session, organization_id) if place.id == subject_id or place.id not in holders]
    return subject_id in {place.id for place in sorted(waiting)[: max(free, 0)]}


def _holds(organization_id: UUID) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return col(Machine.organization_id) == organization_id, col(Machine.state).in_(list(HOLDS_SLOT))


def _queue(session: Session, organization_id: UUID) -> list[_Place]:
    """Everybody that could ask now; who waits for a time or for capacity lets the others pass."""
    now = now_of(session)
    runs = select(Run.losses, Run.queued_at, Run.created_at, Run.id).where(
        Run.organization_id == organization_id,
        Run.state == RunState.QUEUED,
        or_(col(Run.not_before).is_(None), col(Run.not_before) <= now),
    )
    evaluations = select(Evaluation.losses, Evaluation.created_at, Evaluation.id).where(
        Evaluation.organization_id == organization_id,
        Evaluation.state == EvaluationState.QUEUED,
        or_(col(Evaluation.not_before).is_(None), col(Evaluation.not_before) <= now),
    )
    found = [_Place(losses == 0, queued or created, key) for losses, queued, created, key in session.exec(runs)]
    return found + [_Place(losses == 0, created, key) for losses, created, key in session.exec(evaluations)]
