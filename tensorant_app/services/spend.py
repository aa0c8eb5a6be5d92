"""What machines cost: the estimate by the clock, the provider's bill in a ledger, and which of them is shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlmodel import Session, col, select

from tensorant_app.db import clock
from tensorant_app.db.machines import Machine
from tensorant_app.db.promise import ensure
from tensorant_app.db.session import now_of
from tensorant_app.db.spend import MachineBill, SpendEntry
from tensorant_app.domain.machines import MachineState, Use
from tensorant_app.domain.money import ZERO, Money
from tensorant_app.domain.spend import (
    AFTER_TROUBLE,
    GIVEN_UP,
    NO_BILL,
    NOTHING,
    Bill,
    Rental,
    Spend,
    by_hour,
    corrections,
    is_settled,
    next_bill,
    next_sync,
    raises_alone,
    spend_of,
    tells_something,
    window,
)
from tensorant_app.providers.base import BillLine
from tensorant_app.services.machine_prices import prices_of
from tensorant_app.services.machine_steps import BILL as BILL


@dataclass(frozen=True, slots=True)
class BillTask:
    """One question about one machine's bill."""

    account_id: UUID
    provider_ids: Sequence[str]
    """Every machine that ever bore the name: a twin is billed too."""
    since: datetime
    until: datetime


def machine_spend(session: Session, use: Use, subject_id: UUID) -> Spend:
    """What one run, evaluation or deployment cost so far, all attempts together."""
    return machine_spends(session, use, [subject_id]).get(subject_id, NOTHING)


def machine_spends(session: Session, use: Use, subjects: Iterable[UUID]) -> dict[UUID, Spend]:
    """The same for many; those that nothing was rented for are left out."""
    query = select(Machine).where(
        Machine.use == use, col(Machine.subject_id).in_(list(subjects)), col(Machine.connection_id).is_not(None)
    )
    machines = session.exec(query).all()
    bills = _bills(session, [machine.id for machine in machines])
    rentals: defaultdict[UUID, list[tuple[Rental, Bill]]] = defaultdict(list)
    for machine in machines:
        rentals[machine.subject_id].append((_rental(machine), bills.get(machine.id, NO_BILL)))
    return {subject: spend_of(found, now_of(session)) for subject, found in rentals.items()}


def booked_since(session: Session, machines: Sequence[UUID], begin: datetime) -> dict[UUID, Money]:
    """What the bills say of the hours since `begin`, by machine; machines without a bill are left out."""
    billed = [machine for machine, bill in _bills(session, machines).items() if bill.covers_until is not None]
    booked = dict.fromkeys(billed, ZERO)
    query = select(SpendEntry).where(col(SpendEntry.machine_id).in_(billed), col(SpendEntry.hour) >= begin)
    for entry in session.exec(query):
        booked[entry.machine_id] += entry.amount
    return booked


def read_task(session: Session, machine_id: UUID) -> BillTask | None:
    """None where there is nothing to ask for (any more)."""
    machine = session.get(Machine, machine_id)
    if machine is None or machine.connection_id is None or machine.ask_sent_at is None:
        return None
    ids = sorted({*machine.billed_ids, *machine.provider_ids, *filter(None, [machine.provider_id])})
    if not ids:
        return None
    since, until = window(machine.ask_sent_at, machine.released_at, now_of(session))
    return BillTask(machine.connection_id, ids, since, until)


def note_bill(
    session: Session, machine_id: UUID, lines: Sequence[BillLine], *, trouble: str | None = None
) -> datetime | None:
    """Book what changed; when to ask again, or None where the bill has been looked at for the last time.

    `trouble` says that some records could not be read: what could is booked, and the bill does not rest on it.
    """
    machine, now = session.get_one(Machine, machine_id), now_of(session)
    row = _bill_row(session, machine_id)
    billed = by_hour((line.start, line.amount) for line in lines)
    booked = _booked(session, machine_id)
    changes = corrections(booked, billed)
    if trouble is not None:
        changes = raises_alone(changes)
    for hour, amount in changes.items():
        session.add(
            SpendEntry(
                id=clock.new_id(now),
                created_at=now,
                organization_id=machine.organization_id,
                machine_id=machine_id,
                hour=hour,
                amount=amount,
            )
        )
    counts = lines if tells_something(lines, machine.released_at, now) else []
    covers = max((line.end for line in counts), default=row.covers_until)
    amount = Money.total([*booked.values(), *changes.values()])
    has_changed = bool(changes) or trouble is not None
    bill = next_bill(_as_bill(row), has_changed=has_changed, covers_until=covers, amount=amount, now=now)
    _write(row, bill)
    row.problem = trouble
    if row.settled_at is None and is_settled(bill, machine.released_at, now):
        row.settled_at = now
    return next_sync(_as_bill(row), machine.released_at, now)


def note_trouble(session: Session, machine_id: UUID, sentence: str, retry_after: timedelta | None) -> datetime | None:
    """The bill could not be asked for: nothing that is known changes."""
    machine, now = session.get_one(Machine, machine_id), now_of(session)
    row = _bill_row(session, machine_id)
    row.problem = sentence
    due = next_sync(_as_bill(row), machine.released_at, now)
    return None if due is None else max(due if row.settled_at else now, now + (retry_after or AFTER_TROUBLE))


def promise_all(session: Session) -> None:
    """Every rented machine whose bill does not rest."""
    ensure(session, BILL, session.execute(_open_bills(session, col(Machine.id))).scalars())


def unsettled(session: Session, account_id: UUID) -> list[str]:
    """Names of an account's machines whose bill does not rest."""
    query = _open_bills(session, col(Machine.name)).where(col(Machine.connection_id) == account_id)
    return list(session.execute(query.order_by(col(Machine.created_at))).scalars())


def _open_bills(session: Session, column: Any) -> sa.Select[Any]:
    return (
        sa.select(column)
        .outerjoin(MachineBill, col(MachineBill.machine_id) == col(Machine.id))
        .where(
            col(Machine.connection_id).is_not(None),
            col(Machine.state) != MachineState.ABSENT,
            col(Machine.provider_id).is_not(None),
            col(MachineBill.settled_at).is_(None),
            sa.or_(col(Machine.released_at).is_(None), col(Machine.released_at) > now_of(session) - GIVEN_UP),
        )
    )


def _rental(machine: Machine) -> Rental:
    began = machine.ask_sent_at if machine.state is not MachineState.ABSENT else None
    disk = int(machine.options.get("disk_gb", 0)) if machine.stopped_at else 0
    return Rental(machine.rate, began, machine.stopped_at, machine.released_at, disk, prices_of(machine))


def _bills(session: Session, machines: Sequence[UUID]) -> Mapping[UUID, Bill]:
    rows = session.exec(select(MachineBill).where(col(MachineBill.machine_id).in_(machines)))
    return {row.machine_id: _as_bill(row) for row in rows}


def _bill_row(session: Session, machine_id: UUID) -> MachineBill:
    row = session.get(MachineBill, machine_id)
    if row is None:
        row = MachineBill(machine_id=machine_id)
        session.add(row)
    return row


def _as_bill(row: MachineBill) -> Bill:
    return Bill(row.amount, row.covers_until, row.synced_at, row.agreed_since, row.settled_at)


def _write(row: MachineBill, bill: Bill) -> None:
    row.amount, row.covers_until, row.problem = bill.amount, bill.covers_until, None
    row.synced_at, row.agreed_since, row.settled_at = bill.synced_at, bill.agreed_since, bill.settled_at


def _booked(session: Session, machine_id: UUID) -> dict[datetime, Money]:
    rows = session.exec(select(SpendEntry).where(SpendEntry.machine_id == machine_id))
    return by_hour((row.hour, row.amount) for row in rows)
