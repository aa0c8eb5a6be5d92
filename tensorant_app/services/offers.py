"""What could be rented: the catalog as a job saw it last, kept fresh while somebody looks, and what the operator allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db.connections import Connection
from tensorant_app.db.offers import OfferList, SwitchedOffGpu
from tensorant_app.db.promise import ensure, promise
from tensorant_app.db.session import now_of
from tensorant_app.domain.connections import RUNPOD, ConnectionKind
from tensorant_app.domain.errors import Conflict, Invalid, NotFound
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.domain.offers import Offer, Stock, SwitchedOff
from tensorant_app.providers.base import Provider
from tensorant_app.services.audit import write_audit
from tensorant_app.services.connections import find_connection, provider_for

REFRESH = "offers.refresh"
COUNTS = range(1, 9)
FRESH = timedelta(seconds=60)
"""While somebody looks, prices are at most about so old."""
_STALE = timedelta(minutes=30)
"""While nobody does."""
_LOOKING = timedelta(minutes=3)
"""So long after the last look somebody still counts as looking."""
_NOTE_LOOKS_EVERY = timedelta(seconds=30)
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Catalog:
    """The offers of one account for one count."""

    offers: Sequence[Offer]
    seen_at: datetime | None
    trouble: str


@dataclass(frozen=True, slots=True)
class RefreshTask:
    """The counts whose lists are due, and the account to ask."""

    connection_id: UUID
    counts: Sequence[int]
    provider: Provider


@dataclass(frozen=True, slots=True)
class SwitchView:
    gpu_type: str
    sentence: str
    contact: str
    switched_at: datetime


def catalog_of(session: Session, organization_id: UUID, count: int) -> Catalog | None:
    """As last seen; None where no account is connected."""
    connection = find_connection(session, organization_id, ConnectionKind.RUNPOD_COMPUTE)
    if connection is None:
        return None
    row = session.get(OfferList, (connection.id, count))
    if row is not None and row.seen_at is not None:
        return Catalog([_read(one) for one in row.offers], row.seen_at, row.trouble)
    single = session.get(OfferList, (connection.id, 1))
    if single is None:
        return Catalog([], None, row.trouble if row else "")
    # Until this count's own list is there: prices are the same for each GPU, stock is not.
    unknown = [replace(_read(one), stock=Stock.UNKNOWN, data_centers={}) for one in single.offers]
    return Catalog(unknown, single.seen_at, single.trouble)


def note_looking(session: Session, caller: Caller, count: int) -> None:
    """Somebody has this count's list before their eyes: keep it fresh. Call it as often as you like."""
    caller.require(Permission.SEE)
    _look(session, caller, count, again=False)


def refresh_offers(session: Session, caller: Caller, count: int) -> None:
    """Ask the provider anew now."""
    caller.require(Permission.PREPARE)
    _look(session, caller, count, again=True)


def ask_anew(session: Session, connection_id: UUID) -> None:
    """The account has another key: whatever is known of it is asked for at once, and for one GPU where nothing is."""
    for row in session.exec(select(OfferList).where(OfferList.connection_id == connection_id)):
        row.wanted_at = now_of(session)
    promise(session, REFRESH, connection_id)


def read_refresh(session: Session, connection_id: UUID) -> RefreshTask | None:
    """None where the account was removed; `AuthFailed` where its key cannot be opened."""
    connection = session.get(Connection, connection_id)
    if connection is None or connection.kind is not ConnectionKind.RUNPOD_COMPUTE:
        return None
    now = now_of(session)
    rows = session.exec(select(OfferList).where(OfferList.connection_id == connection_id)).all()
    due = [row.gpu_count for row in rows if _due_at(row, now) <= now]
    counts = due if any(row.gpu_count == 1 for row in rows) else [1, *due]
    return RefreshTask(connection_id, counts, provider_for(session, connection.organization_id, RUNPOD))


def note_offers(
    session: Session, connection_id: UUID, count: int, offers: Sequence[Offer] | None, trouble: str
) -> None:
    """What the provider answered, or why it did not; an older list is better than none."""
    if session.get(Connection, connection_id) is None:
        return
    row = session.get(OfferList, (connection_id, count)) or OfferList(
        connection_id=connection_id, gpu_count=count, looked_at=now_of(session) - _LOOKING
    )
    if offers is not None:
        row.offers, row.seen_at = [_write(one) for one in offers], now_of(session)
    row.trouble, row.wanted_at = trouble, None
    session.add(row)


def next_refresh(session: Session, connection_id: UUID) -> datetime | None:
    """When some list is due again; None where the account is gone."""
    if session.get(Connection, connection_id) is None:
        return None
    now = now_of(session)
    rows = session.exec(select(OfferList).where(OfferList.connection_id == connection_id))
    return min((max(_due_at(row, now), now) for row in rows), default=now)


def promise_all(session: Session) -> None:
    """What the rows call for, whatever became of the promises."""
    compute = select(Connection.id).where(Connection.kind == ConnectionKind.RUNPOD_COMPUTE)
    ensure(session, REFRESH, session.exec(compute))


def switched_off(session: Session) -> dict[str, SwitchedOff]:
    return {row.gpu_type: SwitchedOff(row.sentence, row.contact) for row in session.exec(select(SwitchedOffGpu))}


def switch_off(session: Session, caller: Caller, gpu_type: str, sentence: str, contact: str) -> None:
    """Nobody of this installation rents this type from now on; machines that are there live on."""
    caller.require(Permission.OPERATE)
    told = {"sentence": sentence.strip(), "contact": contact.strip()}
    wrong = {
        name: f"The {name} has at most {_LONGEST} characters." for name, text in told.items() if len(text) > _LONGEST
    }
    if not gpu_type.strip():
        wrong["gpu_type"] = "Name the machine type as the provider does, such as NVIDIA L40S."
    if not told["sentence"]:
        wrong["sentence"] = "Say why: people read it in place of the button."
    if wrong:
        raise Invalid(wrong)
    row = session.get(SwitchedOffGpu, gpu_type.strip()) or SwitchedOffGpu(
        gpu_type=gpu_type.strip(), sentence="", contact="", switched_at=now_of(session)
    )
    row.sentence, row.contact, row.switched_at = told["sentence"], told["contact"], now_of(session)
    session.add(row)
    write_audit(session, caller, "gpus.off", gpu_type=row.gpu_type, sentence=row.sentence, contact=row.contact)


def switch_on(session: Session, caller: Caller, gpu_type: str) -> None:
    caller.require(Permission.OPERATE)
    row = session.get(SwitchedOffGpu, gpu_type.strip())
    if row is None:
        raise NotFound(f"{gpu_type} is not switched off.")
    session.delete(row)
    write_audit(session, caller, "gpus.on", gpu_type=row.gpu_type)


def list_switched_off(session: Session, caller: Caller) -> list[SwitchView]:
    caller.require(Permission.OPERATE)
    rows = session.exec(select(SwitchedOffGpu).order_by(col(SwitchedOffGpu.gpu_type)))
    return [SwitchView(row.gpu_type, row.sentence, row.contact, row.switched_at) for row in rows]


def _look(session: Session, caller: Caller, count: int, *, again: bool) -> None:
    if count not in COUNTS:
        raise Invalid({"gpu_count": "A machine has 1 to 8 GPUs."})
    if caller.organization_id is None:
        raise NotFound("Offers are those of an organization's account; act as one of its members.")
    connection = find_connection(session, caller.organization_id, ConnectionKind.RUNPOD_COMPUTE)
    if connection is None:
        if again:
            raise Conflict("RunPod is not connected. The owner connects it under Connections.")
        return
    now, row = now_of(session), session.get(OfferList, (connection.id, count))
    if row is None:
        row = OfferList(connection_id=connection.id, gpu_count=count, looked_at=now)
    elif not again and now - row.looked_at < _NOTE_LOOKS_EVERY and row.seen_at is not None:
        return
    row.looked_at = now
    row.wanted_at = now if again else row.wanted_at
    session.add(row)
    promise(session, REFRESH, connection.id, max(_due_at(row, now), now))


def _due_at(row: OfferList, now: datetime) -> datetime:
    if row.seen_at is None or row.wanted_at is not None:
        return now
    if now - row.looked_at < _LOOKING:
        return row.seen_at + FRESH
    return row.seen_at + _STALE if row.gpu_count == 1 else now + _STALE


def _write(offer: Offer) -> dict[str, Any]:
    return {
        **asdict(offer),
        "rate": offer.rate.per_hour.micros,
        "stock": offer.stock.value,
        "data_centers": {name: stock.value for name, stock in offer.data_centers.items()},
        "cuda_versions": list(offer.cuda_versions),
    }


def _read(stored: dict[str, Any]) -> Offer:
    return Offer(
        **{
            **stored,
            "rate": HourlyRate(Money(stored["rate"])),
            "stock": Stock(stored["stock"]),
            "data_centers": {name: Stock(stock) for name, stock in stored["data_centers"].items()},
            "cuda_versions": tuple(stored["cuda_versions"]),
        }
    )
