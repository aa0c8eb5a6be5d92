"""Accounts: one list of all machines, compared with the rows, so that only what changed is looked at.

Nothing here rents or decides: a look is written down, and the machine's own job takes the steps that it calls for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa
from sqlmodel import Session, col, select

from tensorant_app.db.accounts import Account
from tensorant_app.db.connections import Connection
from tensorant_app.db.machines import Machine, MachineEvent
from tensorant_app.db.promise import ensure, promise
from tensorant_app.db.session import now_of
from tensorant_app.db.steps import note
from tensorant_app.domain import watching
from tensorant_app.domain.connections import RUNPOD, ConnectionKind
from tensorant_app.domain.errors import AuthFailed, ProviderError
from tensorant_app.domain.machines import LIFECYCLE, LISTED, MachineState, Presence, Sighting
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.steps import Move
from tensorant_app.providers.base import Listed, Provider, rate_of, sight_own
from tensorant_app.services.connections import installation_of, provider_for
from tensorant_app.services.machine_prices import note_price
from tensorant_app.services.machine_steps import TEND, reanchor, take, tell_user
from tensorant_app.services.machines import POLL as POLL

SWEEP = "accounts.sweep"

_SLACK = timedelta(seconds=30)
"""Uptimes are rounded and late: only one that is shorter by more than this is a new start."""
_LAG = timedelta(seconds=5)
"""A container that began so shortly before the last look may not have been shown by it."""
_LATELY = timedelta(minutes=1)
_LONGEST_QUIET = timedelta(hours=1)
_LIVE = frozenset(MachineState) - LIFECYCLE.final


@dataclass(frozen=True, slots=True)
class Known:
    """What a row knows of its machine in the account's list; no more, for ten thousand are compared at a time."""

    id: UUID
    name: str
    state: MachineState
    presence: Presence | None
    provider_status: str
    provider_ids: Sequence[str]
    provider_id: str | None
    rate: HourlyRate | None
    known_at: datetime | None
    container_began_at: datetime | None
    container_uptime: float | None
    absent_looks: int
    ask_sent_at: datetime | None
    release_sent_at: datetime | None


_COLUMNS = tuple(getattr(Machine, name) for name in Known.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class Change:
    """A row that no longer says what the account says."""

    id: UUID
    sighting: Sighting
    is_restarted: bool
    container: tuple[datetime, float] | None
    """When its container began and the uptime that said so, where that is news."""
    wakes: bool
    """Its job has something to do at once."""
    seen_last: datetime | None = None
    """The look before, where it was lately enough to tell when a machine that is missing now was still there."""


@dataclass(frozen=True, slots=True)
class Diff:
    """What one listing means: changed rows, and listed names that no live row bears."""

    changes: Sequence[Change]
    unclaimed: Mapping[str, Sequence[Listed]]


THIS_COMPUTER = UUID(int=0)
"""The account of machines that are processes here."""


@dataclass(frozen=True, slots=True)
class Door:
    """How an account is looked at."""

    organization_id: UUID | None
    provider: Provider
    installation: str


def open_door(session: Session, account_id: UUID) -> Door | None:
    """None where the connection is gone; `AuthFailed` where its key cannot be opened."""
    if account_id == THIS_COMPUTER:
        return Door(None, provider_for(session, account_id), installation_of(session))
    row = session.get(Connection, account_id)
    if row is None or row.kind is not ConnectionKind.RUNPOD_COMPUTE:
        return None
    return Door(row.organization_id, provider_for(session, row.organization_id, RUNPOD), installation_of(session))


def promise_all(session: Session) -> None:
    """What the rows call for, whatever became of the promises: accounts with live machines are looked at."""
    live = select(Machine.connection_id).where(
        col(Machine.state).in_(list(_LIVE)), col(Machine.connection_id).is_not(None)
    )
    ensure(session, POLL, [found for found in session.exec(live.distinct()) if found is not None])
    compute = select(Connection.id).where(Connection.kind == ConnectionKind.RUNPOD_COMPUTE)
    ensure(session, SWEEP, [THIS_COMPUTER, *session.exec(compute)])


def has_machines(session: Session, account_id: UUID) -> bool:
    """Whether any row is live, also one whose create call is still to be made."""
    live = select(Machine.id).where(Machine.connection_id == account_id, col(Machine.state).in_(list(_LIVE)))
    return session.exec(live).first() is not None


def known_machines(session: Session, account_id: UUID) -> list[Known]:
    """The live rows of an account."""
    query = sa.select(*_COLUMNS).where(
        col(Machine.connection_id) == account_id,
        col(Machine.state).in_(list(_LIVE)),
        col(Machine.ask_sent_at).is_not(None),
    )
    return [Known(*row) for row in session.execute(query)]


def last_look(session: Session, account_id: UUID) -> datetime | None:
    """When the account was listed last."""
    account = session.get(Account, account_id)
    return account.looked_at if account else None


def compare(
    known: Iterable[Known], listed: Sequence[Listed], installation: str, at: datetime, last: datetime | None
) -> Diff:
    """Plain comparison; a listing that failed never comes here. Other installations' machines are nobody's business.

    `last` is when the account was listed before.
    """
    ours: defaultdict[str, list[Listed]] = defaultdict(list)
    by_id = {machine.provider_id: machine for machine in listed}
    for machine in listed:
        if machine.installation == installation:
            ours[machine.name].append(machine)
    changes = []
    for row in known:
        found = _with_known(row, ours.pop(row.name, ()), by_id)
        if change := _change(row, found, at, last):
            changes.append(change)
    alive = {name: [m for m in found if m.presence is not Presence.GONE] for name, found in ours.items()}
    return Diff(changes, {name: found for name, found in alive.items() if found})


def note_listing(session: Session, account_id: UUID, diff: Diff) -> None:
    """Write what changed, wake the jobs of those machines, and take back what was believed gone."""
    now = now_of(session)
    _account(session, account_id).looked_at = now
    _clear_problem(session, account_id)
    rows = _rows(session, [change.id for change in diff.changes])
    for change in diff.changes:
        if (row := rows.get(change.id)) is not None:
            reanchor(row, now)
            _write(row, change)
            if change.is_restarted:
                sentence = f"Its container began again; this is start {row.boots} of this machine."
                note(session, row, MachineEvent, verb="restarted", sentence=sentence)
            if change.wakes:
                promise(session, TEND, row.id)
    if diff.unclaimed:
        _take_back(session, account_id, diff.unclaimed, now)


def note_unreachable(session: Session, account_id: UUID, error: ProviderError) -> None:
    """Nothing is proved by it and nothing lost; a key that is refused is the owner's to mend, and everybody sees it."""
    account = session.get(Account, account_id)
    if account is None:
        return
    account.problem_since = account.problem_since or now_of(session)
    account.problem, account.is_refused = error.message, isinstance(error, AuthFailed)
    note_pause(session, account_id, error.retry_after or timedelta(0))


def note_pause(session: Session, account_id: UUID, pause: timedelta) -> None:
    """What one call was told holds for all: looks, the sweep and bills leave the provider alone for so long."""
    account = session.get(Account, account_id)
    if account is not None and (pause or account.quiet_until is not None):
        account.quiet_until = now_of(session) + pause if pause else None


def quiet_until(session: Session, account_id: UUID, now: datetime) -> datetime | None:
    """When the provider may be asked again; None: now. A clock that went back does not prolong it."""
    account = session.get(Account, account_id)
    until = account.quiet_until if account else None
    return until if until is not None and now < until <= now + _LONGEST_QUIET else None


def look_again(session: Session, account_id: UUID) -> None:
    """Something about the account was mended: look at once, and repeat every delete that was refused."""
    promise(session, POLL, account_id)
    stuck = select(Machine).where(
        Machine.connection_id == account_id,
        col(Machine.state).in_([MachineState.RELEASING, MachineState.RELEASE_FAILED]),
    )
    for machine in session.exec(stuck):
        machine.release_sent_at = machine.retry_at = None
        promise(session, TEND, machine.id)


def next_poll(known: Sequence[Known], now: datetime, pause: timedelta) -> datetime:
    """Ten seconds from now; sooner while an answer is looked for, later where the provider asks for it."""
    wanted = watching.POLL
    for row in known:
        if row.state is MachineState.ASKED and row.ask_sent_at is not None:
            wanted = min(wanted, watching.lookup_pause(now - row.ask_sent_at))
    return now + max(wanted, pause)


@dataclass(frozen=True, slots=True)
class AccountView:
    """How the looks at an account go."""

    id: UUID
    looked_at: datetime | None
    problem: str | None
    problem_since: datetime | None
    is_refused: bool
    """The key itself was refused: only an owner can mend that."""


def list_accounts(session: Session, caller: Caller) -> list[AccountView]:
    """The organization's accounts; the operator sees all."""
    caller.require(Permission.SEE)
    query = select(Account)
    if not caller.is_operator:
        query = query.where(Account.organization_id == caller.organization_id)
    return [
        AccountView(row.id, row.looked_at, row.problem, row.problem_since, row.is_refused)
        for row in session.exec(query)
    ]


def open_account(session: Session, account_id: UUID, organization_id: UUID | None) -> None:
    """Its row, before the first look."""
    if session.get(Account, account_id) is None:
        session.add(Account(id=account_id, organization_id=organization_id))


def _with_known(row: Known, found: Sequence[Listed], by_id: Mapping[str, Listed]) -> Sequence[Listed]:
    """What bears its name, and what bears an id that the provider gave it: one that somebody renamed is there.

    An id that only a file on the volume tells counts for nothing here.
    """
    named = {machine.provider_id for machine in found}
    return [*found, *(by_id[one] for one in row.provider_ids if one in by_id and one not in named)]


def _change(row: Known, found: Sequence[Listed], at: datetime, last: datetime | None) -> Change | None:
    sighting = _sighting(row, found, at)
    if sighting.presence is Presence.ABSENT:
        # Before the delete call an absence of a machine to be deleted proves nothing.
        is_going = row.state in {MachineState.RELEASING, MachineState.RELEASE_FAILED}
        if is_going and row.release_sent_at is None:
            return None
        lately = last if last is not None and at - _LATELY <= last <= at else None
        return Change(row.id, sighting, False, None, wakes=row.state is not MachineState.ASKED, seen_last=lately)
    is_restarted = _is_restarted(row, sighting, last)
    is_first = bool(sighting.uptime) and row.container_began_at is None
    is_known = not is_restarted and _says_the_same(row, sighting) and row.state is not MachineState.ASKED
    if is_known and not is_first and row.known_at is not None:
        return None
    news = sighting.uptime if is_first or is_restarted else None
    container = (at - timedelta(seconds=news), news) if news else None
    return Change(row.id, sighting, is_restarted, container, wakes=not is_known)


def _is_restarted(row: Known, seen: Sighting, last: datetime | None) -> bool:
    """Its uptime went backwards. One that only stands still, or lags, is the provider's number, not a new start."""
    if not seen.uptime or row.container_began_at is None or seen.uptime == row.container_uptime:
        return False
    began = seen.at - timedelta(seconds=seen.uptime)
    was_up_then = last is not None and began + _LAG < last
    return began > row.container_began_at + _SLACK and not was_up_then


def _says_the_same(row: Known, seen: Sighting) -> bool:
    if (row.presence, row.provider_status, row.absent_looks) != (seen.presence, seen.provider_status, 0):
        return False
    has_price = seen.rate is not None and seen.rate.per_hour.micros > 0
    return tuple(row.provider_ids) == seen.provider_ids and not (has_price and seen.rate != row.rate)


def _sighting(row: Known, found: Sequence[Listed], at: datetime) -> Sighting:
    """The machine that the row knows by its id, where it is still there; else whatever bears its name."""
    seen = sight_own(found, at)
    if len(found) > 1 and row.state is MachineState.HELD:
        own = [m for m in found if m.provider_id == row.provider_id and m.presence is not Presence.GONE]
        if own:
            twins = rate_of([m for m in found if m not in own and m.presence is not Presence.GONE])
            seen = replace(sight_own(own, at), provider_ids=seen.provider_ids, twins_rate=twins)
    # A word that nobody knows yet: there is a machine, and it is billed.
    return replace(seen, presence=Presence.PRESENT) if seen.presence is Presence.UNKNOWN else seen


def _write(row: Machine, change: Change) -> None:
    seen = change.sighting
    is_new = (row.presence, row.provider_status) != (seen.presence, seen.provider_status) or change.is_restarted
    was, row.presence = row.presence, seen.presence
    if is_new or row.seen_at is None or seen.presence is Presence.ABSENT:
        row.seen_at = seen.at
    is_gone = row.known_at is not None and seen.presence in {Presence.ABSENT, Presence.GONE}
    row.gone_since = (row.gone_since or _gone_at(row, change)) if is_gone else None
    if seen.presence is Presence.ABSENT:
        row.absent_since = row.absent_since or seen.at
        row.absent_looks += 1
        return
    row.absent_since, row.absent_looks = None, 0
    row.known_at = row.known_at or seen.at
    row.provider_status, row.provider_ids = seen.provider_status, list(seen.provider_ids)
    row.billed_ids = sorted({*row.billed_ids, *seen.provider_ids})
    if row.provider_id not in seen.provider_ids and len(seen.provider_ids) == 1:
        row.provider_id = seen.provider_ids[0]
    note_price(row, seen, was)
    if change.container is not None:
        row.container_began_at, row.container_uptime = change.container
    row.boots += change.is_restarted


def _gone_at(row: Machine, change: Change) -> datetime:
    """When it ended, as near as anybody knows: after it was seen last, and after a delete call that it answers to."""
    at = change.sighting.at
    known = [then for then in (change.seen_last, row.release_sent_at) if then is not None and then <= at]
    return max(known) if change.seen_last is not None else at


def _take_back(session: Session, account_id: UUID, unclaimed: Mapping[str, Sequence[Listed]], now: datetime) -> None:
    """A machine that was proved gone, or confirmed absent, is listed again: it is deleted."""
    names = list(unclaimed)
    final = select(Machine).where(col(Machine.name).in_(names), col(Machine.state).in_(list(LIFECYCLE.final)))
    for machine in session.exec(final):
        found = unclaimed[machine.name]
        seen = sight_own(found, now)
        if seen.presence not in LISTED and seen.presence is not Presence.UNKNOWN:
            continue
        _write(machine, Change(machine.id, seen, False, None, wakes=True))
        machine.released_at = None
        sentence = "A machine that was taken for gone is listed again. It is being deleted."
        take(session, machine, Move("reappear", "came_back", sentence))
        promise(session, TEND, machine.id)
        tell_user(session, machine)


def _rows(session: Session, ids: Sequence[UUID]) -> dict[UUID, Machine]:
    found: dict[UUID, Machine] = {}
    for start in range(0, len(ids), 500):
        query = select(Machine).where(col(Machine.id).in_(ids[start : start + 500]))
        found |= {row.id: row for row in session.exec(query)}
    return found


def _account(session: Session, account_id: UUID) -> Account:
    return session.get_one(Account, account_id)


def _clear_problem(session: Session, account_id: UUID) -> None:
    account = _account(session, account_id)
    if account.problem is not None:
        account.problem = account.problem_since = None
        if account.is_refused:
            account.is_refused = False
            look_again(session, account_id)
