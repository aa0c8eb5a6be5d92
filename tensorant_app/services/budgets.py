"""What a project may spend in a month, and what its machines have taken or may still take of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlmodel import Session, col, select

from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of
from tensorant_app.domain.machines import HOLDS_SLOT
from tensorant_app.domain.money import ZERO, Money
from tensorant_app.services import spend


@dataclass(frozen=True, slots=True)
class Budget:
    """Of the calendar month (UTC)."""

    limit: Money | None
    """None: no limit."""
    taken: Money
    """What machines have cost, by their bill or else estimated, and what those that live may still cost until their deadline."""

    @property
    def left(self) -> Money | None:
        return None if self.limit is None else max(self.limit - self.taken, ZERO)


def budget_of(session: Session, project: Project) -> Budget:
    now = now_of(session)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    of_runs = select(Run.id).where(Run.project_id == project.id)
    of_evaluations = select(Evaluation.id).where(Evaluation.project_id == project.id)
    rented = select(Machine).where(
        col(Machine.rate).is_not(None),
        col(Machine.ask_sent_at).is_not(None),
        col(Machine.subject_id).in_(of_runs.union(of_evaluations)),
        col(Machine.released_at).is_(None) | (col(Machine.released_at) >= begin),
    )
    machines = session.exec(rented).all()
    billed = spend.booked_since(session, [one.id for one in machines if one.state not in HOLDS_SLOT], begin)
    costs = (billed[one.id] if one.id in billed else _cost(one, begin, now) for one in machines)
    return Budget(project.monthly_budget, Money.total(costs))


def _cost(machine: Machine, begin: datetime, now: datetime) -> Money:
    """One that lives is counted to its deadline: two launches cannot both take what is left."""
    assert machine.rate is not None
    assert machine.ask_sent_at is not None
    end = max(machine.deadline, now) if machine.state in HOLDS_SLOT else machine.released_at or machine.ask_sent_at
    return machine.rate.cost_of(max(end - max(machine.ask_sent_at, begin), end - end))
