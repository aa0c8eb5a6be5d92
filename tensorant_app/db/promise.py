"""Promises: "look at this then". Outbox, schedule and lease in one row per thing to look at.

A promise is level-triggered. One that comes in before a look begins is kept by that look; one that
comes in while an actor holds the lease is kept aside (`again_at`) and outlives whatever the actor
decides, because the actor may have read its rows before they changed.
"""

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, col, select

from tensorant_app.db import clock, promise_rows
from tensorant_app.db.promise_rows import HIDE as HIDE
from tensorant_app.db.promise_rows import LEASE as LEASE
from tensorant_app.db.promise_rows import Prepared
from tensorant_app.db.promise_rows import Promise as Promise
from tensorant_app.db.session import before_commit, now_of, promises_of, reading, unit_of_work
from tensorant_app.settings import get_settings

KEEP_EVERY = LEASE / 3
FIRST_BACKOFF = timedelta(seconds=1)
LONGEST_BACKOFF = timedelta(minutes=5)

_log = logging.getLogger(__name__)


class LeaseLost(Exception):
    """Another worker took over; whatever was found must not be written."""


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """A promise that is due, to be sent to a worker."""

    kind: str
    subject_id: UUID


def promise(session: Session, kind: str, subject_id: UUID, at: datetime | None = None) -> None:
    """Look at it at `at` (now, if not given), or earlier if that was promised already.

    Written when the unit of work commits, or not at all.
    """
    asked = promises_of(session)
    wanted = at or now_of(session)
    asked[kind, subject_id] = min(wanted, asked.get((kind, subject_id), wanted))
    before_commit(session, _settle)


def ensure(session: Session, kind: str, subject_ids: Iterable[UUID]) -> None:
    """Promise a look at those of which no promise is left; what is promised for later stays so."""
    now = now_of(session)
    is_postgres = session.get_bind().dialect.name == "postgresql"
    for subject_id in sorted(subject_ids):
        insert = postgresql.insert(Promise) if is_postgres else sqlite.insert(Promise)
        row = insert.values(kind=kind, subject_id=subject_id, due_at=now, written_at=now, tries=0)
        session.execute(row.on_conflict_do_nothing(index_elements=["kind", "subject_id"]))


def claim_due(limit: int = 200, *, now: datetime | None = None) -> list[Claim]:
    """The promises that are due, hidden from the next claim for a while; commits by itself."""
    now = now or clock.now()
    with reading(now) as session:
        # Four times a second nothing is due: don't take SQLite's one writer's place for that.
        if not promise_rows.ANY_DUE.run(session, now).scalar_one():
            return []
    with unit_of_work(now) as session:
        return [Claim(row.kind, row.subject_id) for row in promise_rows.CLAIM.run(session, now, most=limit)]


def put_back(claims: Sequence[Claim]) -> None:
    """Let the next claim find them again: they could not be sent."""
    keys = [(claim.kind, claim.subject_id) for claim in claims]
    shown = (
        sa.update(Promise)
        .where(sa.tuple_(col(Promise.kind), col(Promise.subject_id)).in_(keys))
        .values(hidden_until=None)
    )
    with unit_of_work() as session:
        _rows(session, shown)


def _settle(session: Session) -> None:
    """Touch all rows of promises in one order, so that no two units of work block each other."""
    lease: Lease | None = session.info.get("lease")
    asked = promises_of(session)
    for key in sorted({*asked, *([lease.key] if lease else [])}):
        if lease and key == lease.key:
            lease.settle(session)
        if key in asked:
            _upsert(session, *key, asked[key])


def _upsert(session: Session, kind: str, subject_id: UUID, at: datetime) -> None:
    prepared = promise_rows.UPSERT[session.get_bind().dialect.name]
    prepared.run(session, now_of(session), the_kind=kind, the_subject=subject_id, wanted=at)


def take_lease(kind: str, subject_id: UUID, now: datetime) -> "Lease | None":
    """The right to look at it and to write what was found; None where there is nothing to do.

    A message that arrives twice finds the promise kept, held, or due later, and does nothing.
    """
    token = uuid4()
    who = {"the_kind": kind, "the_subject": subject_id, "the_token": token, "holder": get_settings().worker}
    with unit_of_work(now) as session:
        tries = promise_rows.TAKE.run(session, now, **who).scalar_one_or_none()
    return None if tries is None else Lease(kind, subject_id, token, tries)


def is_leased(session: Session, subject_id: UUID, now: datetime) -> bool:
    """Whether some job, of whichever kind, holds it now."""
    held = select(Promise.kind).where(Promise.subject_id == subject_id, col(Promise.lease_until) > now)
    return session.exec(held).first() is not None


def free_held_by(worker: str) -> None:
    """Give up every lease of a worker that is known to be dead, so that nobody waits for them to run out."""
    held = (
        sa.update(Promise)
        .where(col(Promise.lease_holder) == worker)
        .values(lease_token=None, lease_until=None, lease_holder=None, hidden_until=None)
        .execution_options(synchronize_session=False)
    )
    with unit_of_work() as session:
        session.execute(held)


@dataclass(slots=True)
class Lease:
    """Proof that this job, and no other, may write its findings.

    A write that says neither `again` nor `done` keeps the lease.
    """

    kind: str
    subject_id: UUID
    token: UUID
    tries: int = 0
    """Looks before this one that ended in an unexpected error."""
    is_open: bool = True
    _next_at: datetime | None = None
    _is_closing: bool = False

    @property
    def key(self) -> tuple[str, UUID]:
        return self.kind, self.subject_id

    def renew(self, now: datetime | None = None) -> None:
        """Hold it for another while; raises `LeaseLost` where somebody else has it by now."""
        with unit_of_work(now) as session:
            self._hold(session)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Renewed by a thread of its own inside the block, however long one step of the work takes."""
        stopping = threading.Event()
        keeper = threading.Thread(target=self._keep, args=(stopping,), name="keeper", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            stopping.set()
            keeper.join()

    @contextmanager
    def write(self, now: datetime | None = None) -> Iterator[Session]:
        """A unit of work that is rolled back with `LeaseLost` where the lease is not ours."""
        self._next_at, self._is_closing = None, False
        with unit_of_work(now) as session:
            if not promise_rows.IS_OURS.run(session, now_of(session), **self._who()).scalar_one():
                raise self._lost()
            session.info["lease"] = self
            before_commit(session, _settle)
            yield session
        self.is_open = not self._is_closing

    def again(self, session: Session, at: datetime) -> None:
        """Look again at `at`, or earlier if somebody asked meanwhile."""
        self._require_write(session)
        self._next_at, self._is_closing = at, True

    def done(self, session: Session) -> None:
        """Nothing is left to look at, unless somebody asked meanwhile."""
        self._require_write(session)
        self._next_at, self._is_closing = None, True

    def release_after_error(self, error: BaseException, now: datetime | None = None) -> None:
        """Look again after a pause that grows with every failed look; keeps the reason."""
        tries, reason = self.tries + 1, f"{type(error).__name__}: {error}"[:500]
        with unit_of_work(now) as session:
            at = now_of(session) + backoff(tries)
            if not self._free(session, at, tries=tries, reason=reason):
                _log.info("The lease on %s %s was lost already.", self.kind, self.subject_id)
        self.is_open = False

    def settle(self, session: Session) -> None:
        """What `write` does to the promise's row, after the caller's rows."""
        if not self._is_closing:
            self._hold(session)
        elif self._next_at is None and self._delete(session):
            return
        elif not self._free(session, self._next_at, tries=0, reason=None):
            raise self._lost()

    def _keep(self, stopping: threading.Event) -> None:
        while not stopping.wait(KEEP_EVERY.total_seconds()):
            try:
                self.renew()
            except LeaseLost:
                return  # The next write says so where it matters.
            except SQLAlchemyError:
                _log.warning("The lease on %s %s could not be renewed.", self.kind, self.subject_id, exc_info=True)

    def _require_write(self, session: Session) -> None:
        if session.info.get("lease") is not self:
            raise RuntimeError("Say `again` or `done` with the session of this lease's `write`.")

    def _hold(self, session: Session) -> None:
        if not self._changes_one(session, promise_rows.HOLD):
            raise self._lost()

    def _free(self, session: Session, at: datetime | None, *, tries: int, reason: str | None) -> bool:
        """Due at `at`, or when somebody asked meanwhile; `at` None: they did."""
        told = {"tried": tries, "why": reason}
        if at is None:
            return self._changes_one(session, promise_rows.FREE_AS_ASKED, **told)
        return self._changes_one(session, promise_rows.FREE, wanted=at, **told)

    def _delete(self, session: Session) -> bool:
        return self._changes_one(session, promise_rows.DELETE)

    def _changes_one(self, session: Session, prepared: Prepared, **values: Any) -> bool:
        return prepared.run(session, now_of(session), **self._who(), **values).rowcount == 1

    def _who(self) -> dict[str, Any]:
        return {"the_kind": self.kind, "the_subject": self.subject_id, "the_token": self.token}

    def _lost(self) -> LeaseLost:
        return LeaseLost(f"Another worker took over {self.kind} {self.subject_id}.")


def backoff(tries: int) -> timedelta:
    """1 s, 2 s, 4 s … up to five minutes."""
    doublings = min(max(tries - 1, 0), 20)
    return min(FIRST_BACKOFF * (1 << doublings), LONGEST_BACKOFF)


def _rows(session: Session, statement: Any) -> int:
    result = session.execute(statement.execution_options(synchronize_session=False))
    assert isinstance(result, sa.CursorResult)
    return result.rowcount
