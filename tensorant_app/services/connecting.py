"""Connecting outside accounts: the owner saves, replaces and removes credentials; a job checks them; everybody sees how they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from sqlmodel import Session, col, delete, select

from tensorant_app.db import clock
from tensorant_app.db.connections import Connection
from tensorant_app.db.machines import Machine
from tensorant_app.db.offers import OfferList
from tensorant_app.db.promise import ensure, promise
from tensorant_app.db.session import now_of
from tensorant_app.domain.connections import (
    LAST_FOUR_OF,
    RUNPOD,
    ConnectionKind,
    ConnectionState,
    read_credentials,
    split_credentials,
)
from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.machines import HOLDS_SLOT
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.providers.base import FileStore, Provider
from tensorant_app.services import accounts, offers
from tensorant_app.services.audit import write_audit
from tensorant_app.services.connections import find_connection, provider_for, volume_for
from tensorant_app.services.lookup import own_row
from tensorant_app.services.sealing import seal

CHECK = "connections.check"
_UNCHECKED = "It is being checked."


@dataclass(frozen=True, slots=True)
class VolumeFacts:
    """The network volume as the provider told of it last."""

    name: str
    size_gb: int
    data_center: str
    type: str


@dataclass(frozen=True, slots=True)
class ConnectionView:
    """A connection without its secrets."""

    id: UUID
    kind: ConnectionKind
    state: ConnectionState
    sentence: str
    last_four: str
    shown: Mapping[str, str]
    changed_at: datetime
    checked_at: datetime | None
    volume: VolumeFacts | None
    used_by: Sequence[str]
    """Names of the machines that hold it."""


@dataclass(frozen=True, slots=True)
class CheckTask:
    """One connection to be looked at, with what is needed to look."""

    id: UUID
    revision: int
    kind: ConnectionKind
    shown: Mapping[str, str]
    provider: Provider | None
    """None for a storage whose compute account is not connected."""
    volume: FileStore | None


@dataclass(frozen=True, slots=True)
class CheckResult:
    state: ConnectionState
    sentence: str
    volume: VolumeFacts | None = None


def list_connections(session: Session, caller: Caller) -> list[ConnectionView]:
    """Those that are connected, in the order of their kinds."""
    caller.require(Permission.SEE)
    own = select(Connection).where(Connection.organization_id == caller.organization_id)
    rows = {row.kind: row for row in session.exec(own)}
    return [_view(session, rows[kind]) for kind in ConnectionKind if kind in rows]


def save_connection(session: Session, caller: Caller, kind: ConnectionKind, typed: Mapping[str, str]) -> UUID:
    """Connect the account, or put other credentials in the place of those that are there; a job checks them."""
    caller.require(Permission.OWN)
    if caller.organization_id is None:
        raise Invalid({"organization": "A connection belongs to an organization; act as its owner."})
    shown, secrets = split_credentials(kind, read_credentials(kind, typed))
    row, at = find_connection(session, caller.organization_id, kind), now_of(session)
    action = "connections.save" if row is None else "connections.replace"
    if row is None:
        row = Connection(
            id=clock.new_id(at),
            created_at=at,
            organization_id=caller.organization_id,
            kind=kind,
            sealed="",
            last_four="",
            shown=shown,
            changed_at=at,
        )
    elif row.shown != shown:
        _require_unused(session, row, "point to another volume")
    row.sealed = seal(session, row.id, kind, secrets)
    row.last_four = secrets[LAST_FOUR_OF[kind]][-4:]
    row.shown, row.changed_at, row.revision, row.facts = shown, at, row.revision + 1, {}
    _ask_check(session, row)
    if kind is ConnectionKind.RUNPOD_COMPUTE:
        # What the key before was not allowed to delete is asked for at once, not at the end of a pause.
        accounts.look_again(session, row.id)
        offers.ask_anew(session, row.id)
    write_audit(
        session, caller, action, row.id, kind=kind.value, last_four=row.last_four, volume=shown.get("volume_id")
    )
    return row.id


def recheck_connection(session: Session, caller: Caller, connection_id: UUID) -> None:
    """Look again now."""
    caller.require(Permission.OWN)
    _ask_check(session, own_row(session, caller, Connection, connection_id, "connection"))


def remove_connection(session: Session, caller: Caller, connection_id: UUID) -> None:
    """Forget the credentials; refused while a machine of theirs may still be paid for."""
    caller.require(Permission.OWN)
    row = own_row(session, caller, Connection, connection_id, "connection")
    _require_unused(session, row, "be removed")
    session.exec(delete(OfferList).where(col(OfferList.connection_id) == row.id))
    session.delete(row)
    write_audit(session, caller, "connections.remove", row.id, kind=row.kind.value, last_four=row.last_four)


def read_check(session: Session, connection_id: UUID) -> CheckTask | None:
    """What the job needs, unsealed; None where it was removed meanwhile. `AuthFailed` where it cannot be opened."""
    row = session.get(Connection, connection_id)
    if row is None:
        return None
    is_storage = row.kind is ConnectionKind.RUNPOD_STORAGE
    has_compute = find_connection(session, row.organization_id, ConnectionKind.RUNPOD_COMPUTE) is not None
    return CheckTask(
        row.id,
        row.revision,
        row.kind,
        row.shown,
        provider_for(session, row.organization_id, RUNPOD) if has_compute else None,
        volume_for(session, row.organization_id, RUNPOD) if is_storage else None,
    )


def note_check(session: Session, connection_id: UUID, revision: int | None, result: CheckResult) -> bool:
    """Whether it was written: what was found about replaced credentials is thrown away. None: of the present ones."""
    row = session.get(Connection, connection_id)
    if row is None or revision not in (None, row.revision):
        return False
    was_bad = row.state is not ConnectionState.OK
    row.state, row.sentence, row.checked_at = result.state, result.sentence, now_of(session)
    row.facts = asdict(result.volume) if result.volume else {}
    if row.kind is ConnectionKind.RUNPOD_COMPUTE:
        _look_at_storage_too(session, row)
        if was_bad and row.state is ConnectionState.OK:
            accounts.look_again(session, row.id)
    return True


def note_broken(session: Session, organization_id: UUID, kind: ConnectionKind, sentence: str) -> None:
    """Whoever meets a refused key in the middle of its work says so here, and the job looks again."""
    row = find_connection(session, organization_id, kind)
    if row is not None:
        row.state, row.sentence, row.checked_at = ConnectionState.FAILED, sentence, now_of(session)
        promise(session, CHECK, row.id)


def promise_all(session: Session) -> None:
    """What the rows call for, whatever became of the promises."""
    ensure(session, CHECK, session.exec(select(Connection.id)))


def _ask_check(session: Session, row: Connection) -> None:
    row.state, row.sentence = ConnectionState.UNCHECKED, _UNCHECKED
    session.add(row)
    session.flush()
    promise(session, CHECK, row.id)


def _look_at_storage_too(session: Session, compute: Connection) -> None:
    """The volume's size and place are known through the compute key alone."""
    storage = find_connection(session, compute.organization_id, ConnectionKind.RUNPOD_STORAGE)
    if storage is not None and compute.state is ConnectionState.OK and not storage.facts:
        promise(session, CHECK, storage.id)


def _require_unused(session: Session, row: Connection, verb: str) -> None:
    if names := _used_by(session, row.organization_id):
        raise Conflict(
            f"{row.kind.label} cannot {verb} while {_say(names)} may still be paid for. "
            "Cancel what they work for and wait until they are proved released."
        )


def _used_by(session: Session, organization_id: UUID) -> list[str]:
    held = select(Machine.name).where(
        Machine.organization_id == organization_id,
        Machine.provider == RUNPOD,
        col(Machine.state).in_(list(HOLDS_SLOT)),
    )
    return list(session.exec(held.order_by(col(Machine.created_at))))


def _say(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"the machine {shown}" if len(names) == 1 else f"the machines {shown}"


def _view(session: Session, row: Connection) -> ConnectionView:
    return ConnectionView(
        row.id,
        row.kind,
        row.state,
        row.sentence,
        row.last_four,
        row.shown,
        row.changed_at,
        row.checked_at,
        VolumeFacts(**row.facts) if row.facts else None,
        _used_by(session, row.organization_id),
    )
