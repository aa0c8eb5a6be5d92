"""What a person sees of a run at a moment, as a line of the played tape."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlmodel import col

from tensorant_app.components import badges
from tensorant_app.db.machines import Machine, MachineEvent
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading
from tensorant_app.domain.machines import HOLDS_SLOT, Use
from tensorant_app.services import recoveries, spend
from tests.faults.console import Console

_GOING = frozenset({"releasing", "release_failed"})


@dataclass(frozen=True, slots=True)
class Mark:
    """What a person sees at a moment."""

    at: str
    event: str
    """What has just happened; empty where the run or its machine changed by itself, or just before an event."""
    run: str
    label: str
    badge: str
    """Of the machine, beside the run's; empty where there is nothing to tell."""
    reason: str
    machine: str
    slot_held: bool
    estimate: str
    actual: str | None
    spend: str
    can_confirm_absent: bool


@dataclass(slots=True)
class Played:
    tape: str
    calls: dict[str, int] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def end(self) -> Mark:
        return self.marks[-1]

    def at(self, words: str) -> Mark:
        """The first mark whose event holds these words."""
        return next(mark for mark in self.marks if words in mark.event)

    def before(self, words: str) -> Mark:
        """The mark in front of it."""
        return self.marks[self.marks.index(self.at(words)) - 1]

    def as_values(self) -> dict[str, Any]:
        return {"tape": self.tape, "calls": self.calls, "events": [asdict(m) for m in self.marks], **self.facts}


def look(console: Console, run_id: UUID, at: str, event: str) -> Mark:
    run, machine = console.run(run_id), console.machine(run_id)
    with reading() as session:
        money = spend.machine_spend(session, Use.RUN, run.id)
        recovery = recoveries.show_recovery(session, console.caller, run.id)
    is_going = machine is not None and machine.state.value in _GOING
    trouble = machine.trouble if machine else None
    return Mark(
        at=at,
        event=event,
        run=run.state.value,
        label="Checking launch" if recovery.checking else badges.RUN[run.state].word,
        badge=badges.MACHINE[machine.state].word if machine and is_going else "",
        reason=" ".join(part for part in (run.sentence, trouble) if part),
        machine=machine.state.value if machine else "",
        slot_held=is_slot_held(run_id),
        estimate=dollars(money.estimated.micros, 2),
        actual=None if money.actual is None else dollars(money.actual.micros, 4),
        spend=money.state.value,
        can_confirm_absent=recovery.confirm_absent is None,
    )


def is_slot_held(run_id: UUID) -> bool:
    """By the current attempt's machine, or by an earlier one that is not proved gone."""
    query = sa.select(col(Machine.state)).where(Machine.use == Use.RUN, col(Machine.subject_id) == run_id)
    with reading() as session:
        return any(state in HOLDS_SLOT for state in session.execute(query).scalars())


def glance(run_id: UUID) -> tuple[object, ...]:
    """What a mark depends on, in one query: it is asked at every look of the console."""
    own = sa.and_(
        col(Machine.use) == Use.RUN,
        col(Machine.subject_id) == col(Run.id),
        col(Machine.attempt) == col(Run.attempt),
    )
    columns = sa.select(col(Run.id), col(Run.state), col(Run.sentence), col(Machine.state), col(Machine.boots))
    with reading() as session:
        return tuple(session.execute(columns.outerjoin(Machine, own).where(col(Run.id) == run_id)).one())


def history(run_id: UUID) -> list[str]:
    """What its machines went through, in the sentences of their events."""
    query = (
        sa.select(col(Machine.name), col(MachineEvent.verb), col(MachineEvent.sentence))
        .join(Machine, col(Machine.id) == col(MachineEvent.subject_id))
        .where(Machine.use == Use.RUN, col(Machine.subject_id) == run_id)
        .order_by(col(MachineEvent.id))
    )
    with reading() as session:
        return [f"{name} {verb}{f': {said}' if said else ''}" for name, verb, said in session.execute(query)]


def dollars(micros: int, places: int) -> str:
    """Half rounded away from zero, as the pages show it."""
    unit = 10 ** (6 - places)
    whole = (micros + unit // 2) // unit
    return f"{whole // 10**places}.{whole % 10**places:0{places}d}"
