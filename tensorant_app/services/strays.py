"""The sweep: the third stop. It believes the account's list alone, and the rows only where they say that a machine must go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from tensorant_app.db import clock
from tensorant_app.db.accounts import Account, StrayMachine
from tensorant_app.db.machines import Machine, MachineEvent
from tensorant_app.db.promise import promise
from tensorant_app.db.session import now_of
from tensorant_app.db.steps import note
from tensorant_app.domain.errors import Conflict
from tensorant_app.domain.machines import (
    LATE,
    LIFECYCLE,
    RENTED,
    RUNS_AGAIN,
    MachineReason,
    MachineState,
    Presence,
    ProofRules,
)
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.steps import Move
from tensorant_app.providers.base import Listed
from tensorant_app.services.accounts import POLL
from tensorant_app.services.accounts import SWEEP as SWEEP
from tensorant_app.services.audit import write_audit
from tensorant_app.services.lookup import own_row
from tensorant_app.services.machine_steps import TEND, take, tell_user
from tensorant_app.services.machines import note_release_sent

_JUST_SENT = timedelta(seconds=30)
"""So soon after a delete call the sweep sends no other one for the same machine."""


@dataclass(frozen=True, slots=True)
class Doomed:
    """A listed machine whose row says that it should be gone."""

    machine_id: UUID
    name: str
    outputs_key: str
    provider_ids: Sequence[str]
    why: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one listing shows that should not be there."""

    doomed: Sequence[Doomed]
    strays: Sequence[Listed]
    running_again: Sequence[str] = ()
    """Names of stopped machines that somebody started, and that had time enough."""


@dataclass(frozen=True, slots=True)
class StrayView:
    """A machine that no row knows, and what it costs."""

    id: UUID
    name: str
    provider_id: str
    provider_status: str
    rate: HourlyRate | None
    first_seen_at: datetime
    seen_at: datetime
    is_ending: bool
    """Somebody asked for its end; it is not confirmed yet."""
    problem: str | None


def sort_out(session: Session, listed: Sequence[Listed], installation: str, now: datetime) -> Sweep:
    """Which of our listed machines should be gone, and which are nobody's."""
    ours: dict[str, list[Listed]] = {}
    for machine in listed:
        if machine.installation == installation and machine.presence is not Presence.GONE:
            ours.setdefault(machine.name, []).append(machine)
    rows = _rows_named(session, list(ours))
    doomed, strays = [], []
    for name, found in ours.items():
        row = rows.get(name)
        if row is None:
            strays += found
            continue
        strays += _twins(row, found)
        if one := _doom(row, [machine.provider_id for machine in found], now):
            doomed.append(one)
    known = _renamed(session, [*strays, *(one for one in listed if not one.installation)])
    seen = {one.machine_id for one in doomed}
    doomed += [one for row, ids in known if row.id not in seen and (one := _doom(row, ids, now))]
    ids = {provider_id for _, found_ids in known for provider_id in found_ids}
    running = [name for name, found in ours.items() if name in rows and _runs_again(rows[name], found)]
    return Sweep(doomed, [one for one in strays if one.provider_id not in ids], running)


def note_doomed(
    session: Session, doomed: Doomed, *, problem: str | None, rules: ProofRules, was_known: bool = False
) -> None:
    """The sweep made the delete call itself; the row goes on from there, and does not send it a second time at once."""
    machine = session.get_one(Machine, doomed.machine_id)
    # The list may never show them again, and what they cost is this machine's.
    machine.billed_ids = sorted({*machine.billed_ids, *doomed.provider_ids})
    machine.known_at, machine.gone_since = machine.known_at or now_of(session), None
    if machine.provider_id is None and len(doomed.provider_ids) == 1:
        machine.provider_id = doomed.provider_ids[0]
    if machine.state is MachineState.ASKED:
        machine.provider_ids = list(doomed.provider_ids)
        take(session, machine, Move("catch", MachineReason.USE_ENDED, doomed.why))
    elif machine.state in {MachineState.HELD, MachineState.STOPPED}:
        take(session, machine, Move("release", MachineReason.USE_ENDED, doomed.why))
    elif machine.state in LIFECYCLE.final:
        take(session, machine, Move("reappear", MachineReason.CAME_BACK, doomed.why))
        machine.released_at = None
    sentence = problem or doomed.why
    note(session, machine, MachineEvent, verb="swept", sentence=sentence)
    note_release_sent(session, machine.id, problem=problem, rules=rules, was_known=was_known)
    promise(session, TEND, machine.id)
    if machine.connection_id is not None:
        # With no machine left the account was not looked at any more; these looks prove that this one is gone.
        promise(session, POLL, machine.connection_id)
    tell_user(session, machine)


def note_strays(session: Session, account_id: UUID, strays: Sequence[Listed]) -> None:
    """Show those that no row knows; one that is no longer listed is gone after three looks over a minute."""
    account = session.get_one(Account, account_id)
    account.swept_at = now = now_of(session)
    if account.organization_id is None:
        return
    known = {row.provider_id: row for row in session.exec(_open_strays(account_id))}
    for machine in strays:
        row = known.pop(machine.provider_id, None)
        row = row or _stray_again(session, account_id, machine) or _new_stray(session, account, machine)
        row.seen_at, row.provider_status = now, machine.provider_status
        row.rate = machine.rate if machine.rate else row.rate
        row.absent_since, row.absent_looks = None, 0
    for row in known.values():
        row.absent_since = row.absent_since or now
        row.absent_looks += 1
        if row.absent_looks >= RENTED.looks and now - row.absent_since >= RENTED.span:
            row.gone_at = now


def list_strays(session: Session, caller: Caller) -> list[StrayView]:
    """Machines of this installation in the organization's accounts that nothing here works with."""
    caller.require(Permission.SEE)
    query = select(StrayMachine).where(col(StrayMachine.gone_at).is_(None)).order_by(col(StrayMachine.first_seen_at))
    if not caller.is_operator:
        query = query.where(StrayMachine.organization_id == caller.organization_id)
    return [_view(row) for row in session.exec(query)]


def terminate_stray(session: Session, caller: Caller, stray_id: UUID) -> None:
    """Delete it: a person's decision, for nobody else knows whether it is still of use."""
    caller.require(Permission.STOP)
    row = own_row(session, caller, StrayMachine, stray_id, "unknown machine")
    if row.gone_at is not None:
        raise Conflict("This machine is gone already.")
    row.terminate_wanted_at = row.terminate_wanted_at or now_of(session)
    promise(session, SWEEP, row.account_id)
    write_audit(
        session,
        caller,
        "strays.terminate",
        row.id,
        organization_id=row.organization_id,
        machine=row.name,
        provider_id=row.provider_id,
    )


def wanted_ends(session: Session, account_id: UUID) -> list[tuple[UUID, str]]:
    """Strays that somebody wants deleted: row and provider id."""
    query = _open_strays(account_id).where(col(StrayMachine.terminate_wanted_at).is_not(None))
    return [(row.id, row.provider_id) for row in session.exec(query)]


def is_waiting(session: Session, account_id: UUID) -> bool:
    """Whether an end that somebody asked for is not confirmed yet."""
    return bool(wanted_ends(session, account_id))


def note_terminated(session: Session, stray_id: UUID, *, problem: str | None) -> None:
    """The call was made; it is gone once it is no longer listed."""
    session.get_one(StrayMachine, stray_id).terminate_problem = problem


@dataclass(frozen=True, slots=True)
class _Row:
    """What the sweep believes of a row."""

    id: UUID
    name: str
    outputs_key: str
    state: MachineState
    provider_id: str | None
    provider_ids: Sequence[str]
    release_wanted_at: datetime | None
    release_sent_at: datetime | None
    deadline: datetime


def _twins(row: _Row, found: Sequence[Listed]) -> list[Listed]:
    """Further machines of one name: nobody chooses between them but a person."""
    if len(found) < 2 or row.release_wanted_at is not None or row.state in LIFECYCLE.final:
        return []
    return [machine for machine in found if machine.provider_id != row.provider_id]


def _runs_again(row: _Row, found: Sequence[Listed]) -> bool:
    """By the uptime that the list tells, so that nothing else is needed."""
    if row.state is not MachineState.STOPPED or row.release_wanted_at is not None:
        return False
    up = [one.uptime_s or 0 for one in found if one.presence is Presence.PRESENT]
    return max(up, default=0) >= RUNS_AGAIN.total_seconds()


def _doom(row: _Row, ids: Sequence[str], now: datetime) -> Doomed | None:
    if row.release_sent_at is not None and abs(now - row.release_sent_at) < _JUST_SENT:
        return None  # a list of this very moment may show what is being deleted
    why = _why_gone(row, now)
    return Doomed(row.id, row.name, row.outputs_key, ids, why) if why else None


def _why_gone(row: _Row, now: datetime) -> str | None:
    if row.state in LIFECYCLE.final:
        return "It was taken for gone and is listed: the sweep deleted it."
    if row.state is MachineState.STOPPED and row.release_wanted_at is None:
        return None  # kept for recovery: a person decides
    if row.release_wanted_at is not None:
        return "Its work has ended and it is still listed: the sweep deleted it."
    return "It was long past its deadline: the sweep deleted it." if now >= row.deadline + LATE else None


def _rows_named(session: Session, names: Sequence[str]) -> Mapping[str, _Row]:
    columns = [getattr(Machine, name) for name in _Row.__dataclass_fields__]
    found: dict[str, _Row] = {}
    for start in range(0, len(names), 500):
        query = sa.select(*columns).where(col(Machine.name).in_(names[start : start + 500]))
        found |= {row.name: _Row(*row) for row in session.execute(query)}
    return found


def _renamed(session: Session, machines: Sequence[Listed]) -> list[tuple[_Row, list[str]]]:
    """Rows of machines that go by another name now, or tell no environment, by their ids."""
    columns = [getattr(Machine, name) for name in _Row.__dataclass_fields__]
    ids = [machine.provider_id for machine in machines if machine.presence is not Presence.GONE]
    found: list[tuple[_Row, list[str]]] = []
    for start in range(0, len(ids), 500):
        query = sa.select(*columns).where(col(Machine.provider_id).in_(ids[start : start + 500]))
        rows = [_Row(*row) for row in session.execute(query)]
        # Not one that only a file on the volume told: it must not name what is deleted.
        found += [(row, [row.provider_id]) for row in rows if row.provider_id and row.provider_id in row.provider_ids]
    return found


def _open_strays(account_id: UUID) -> SelectOfScalar[StrayMachine]:
    return select(StrayMachine).where(StrayMachine.account_id == account_id, col(StrayMachine.gone_at).is_(None))


def _stray_again(session: Session, account_id: UUID, machine: Listed) -> StrayMachine | None:
    """One that was taken for gone and is there again."""
    query = select(StrayMachine).where(
        StrayMachine.account_id == account_id, StrayMachine.provider_id == machine.provider_id
    )
    row = session.exec(query).one_or_none()
    if row is not None:
        row.gone_at = None
    return row


def _new_stray(session: Session, account: Account, machine: Listed) -> StrayMachine:
    now = now_of(session)
    assert account.organization_id is not None
    row = StrayMachine(
        id=clock.new_id(now),
        organization_id=account.organization_id,
        account_id=account.id,
        name=machine.name,
        provider_id=machine.provider_id,
        provider_status=machine.provider_status,
        rate=machine.rate,
        created_at=machine.created_at,
        first_seen_at=now,
        seen_at=now,
    )
    session.add(row)
    return row


def _view(row: StrayMachine) -> StrayView:
    return StrayView(
        id=row.id,
        name=row.name,
        provider_id=row.provider_id,
        provider_status=row.provider_status,
        rate=row.rate,
        first_seen_at=row.first_seen_at,
        seen_at=row.seen_at,
        is_ending=row.terminate_wanted_at is not None,
        problem=row.terminate_problem,
    )
