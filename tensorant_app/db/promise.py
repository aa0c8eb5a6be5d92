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
from sqlmodel import Field, Session, SQLModel, UTCDateTime, col

# Sets the naming convention before the first table is made.
from tensorant_app.db import clock, types  # noqa: F401
from tensorant_app.db.session import before_commit, now_of, promises_of, reading, unit_of_work
from tensorant_app.settings import get_settings

LEASE = timedelta(seconds=75)
"""Longer than the time limit of the fast queue; a slow job is `kept`."""
KEEP_EVERY = LEASE / 3
HIDE = timedelta(seconds=60)
"""How long a promise that was sent waits before it is taken for lost and sent again."""
CLOCK_SLACK = timedelta(seconds=60)
"""A row written further ahead of us than this was written before the clock went back."""
FIRST_BACKOFF = timedelta(seconds=1)
LONGEST_BACKOFF = timedelta(minutes=5)

_log = logging.getLogger(__name__)


class LeaseLost(Exception):
    """Another worker took over; whatever was found must not be written."""


class Promise(SQLModel, table=True):
    """Look at `subject_id` in the way of `kind`, at `due_at` or soon after."""

    kind: str = Field(primary_key=True, max_length=40)
    subject_id: UUID = Field(primary_key=True)
    due_at: datetime = Field(index=True)
    written_at: datetime
    """When `due_at` (under a lease: `again_at`) was written, by the writer's clock."""
    hidden_until: datetime | None = None
    """Sent to a worker: don't send again before this."""
    lease_token: UUID | None = None
    lease_until: datetime | None = None
    lease_holder: str | None = None
    """The worker that took it: `Settings.worker`."""
    again_at: datetime | None = None
    """The earliest time asked for while the lease was held."""
    tries: int = 0
    """Looks in a row that ended in an unexpected error."""
    reason: str | None = None
    """The last of those errors."""


_kind, _subject_id, _due_at = col(Promise.kind), col(Promise.subject_id), col(Promise.due_at)
_token, _until, _hidden = col(Promise.lease_token), col(Promise.lease_until), col(Promise.hidden_until)
_again_at, _written_at = col(Promise.again_at), col(Promise.written_at)


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
        if not session.execute(sa.select(sa.exists().where(_is_due(now)))).scalar_one():
            return []
    due = sa.select(_kind, _subject_id).where(_is_due(now)).order_by(_due_at).limit(limit)
    hide = (
        sa.update(Promise)
        .where(sa.tuple_(_kind, _subject_id).in_(due.with_for_update(skip_locked=True)))
        .values(hidden_until=now + HIDE)
        .returning(_kind, _subject_id)
        .execution_options(synchronize_session=False)
    )
    with unit_of_work(now) as session:
        return [Claim(kind, subject_id) for kind, subject_id in session.execute(hide)]


def put_back(claims: Sequence[Claim]) -> None:
    """Let the next claim find them again: they could not be sent."""
    keys = [(claim.kind, claim.subject_id) for claim in claims]
    shown = sa.update(Promise).where(sa.tuple_(_kind, _subject_id).in_(keys)).values(hidden_until=None)
    with unit_of_work() as session:
        _rows(session, shown)


def _is_due(now: datetime) -> sa.ColumnElement[bool]:
    is_time = sa.or_(_due_at <= now, _is_of_fast_clock(now))
    is_shown = sa.or_(_hidden.is_(None), _hidden <= now, _hidden > now + 4 * HIDE)
    return sa.and_(is_time, is_shown, _is_free(now))


def _is_free(now: datetime) -> sa.ColumnElement[bool]:
    """Nobody holds it: no lease, a lease that ended, or one from a clock that was ahead."""
    return sa.or_(_token.is_(None), _until <= now, _until > now + 4 * LEASE)


def _is_of_fast_clock(now: datetime) -> sa.ColumnElement[bool]:
    return _written_at > now + CLOCK_SLACK


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
    now = now_of(session)
    is_postgres = session.get_bind().dialect.name == "postgresql"
    insert = postgresql.insert(Promise) if is_postgres else sqlite.insert(Promise)
    insert = insert.values(kind=kind, subject_id=subject_id, due_at=at, written_at=now, tries=0)
    is_held = _token.is_not(None)
    before = sa.case((is_held, _again_at), (_is_of_fast_clock(now), _time(now)), else_=_due_at)
    is_first = sa.or_(before.is_(None), insert.excluded.due_at < before)
    earliest = sa.case((is_first, insert.excluded.due_at), else_=before)
    changed = {
        # A lease holder that dies leaves it due, also where it read a clock that was ahead.
        "due_at": sa.case((sa.and_(is_held, _due_at > _time(now)), _time(now)), (is_held, _due_at), else_=earliest),
        "again_at": sa.case((is_held, earliest), else_=None),
        "written_at": sa.case((sa.or_(is_first, _is_of_fast_clock(now)), _time(now)), else_=_written_at),
        "hidden_until": sa.case((insert.excluded.due_at <= _time(now), None), else_=_hidden),
    }
    session.execute(insert.on_conflict_do_update(index_elements=["kind", "subject_id"], set_=changed))


def take_lease(kind: str, subject_id: UUID, now: datetime) -> "Lease | None":
    """The right to look at it and to write what was found; None where there is nothing to do.

    A message that arrives twice finds the promise kept, held, or due later, and does nothing.
    """
    token = uuid4()
    was_sent = sa.and_(_hidden.is_not(None), _hidden > now)
    is_wanted = sa.or_(_due_at <= now, _is_of_fast_clock(now), was_sent)
    values = {
        "lease_token": token,
        "lease_until": now + LEASE,
        "lease_holder": get_settings().worker,
        "due_at": now,
        "written_at": now,
        "hidden_until": None,
        "again_at": None,
    }
    take = (
        sa.update(Promise)
        .where(_kind == kind, _subject_id == subject_id, is_wanted, _is_free(now))
        .values(values)
        .returning(col(Promise.tries))
        .execution_options(synchronize_session=False)
    )
    with unit_of_work(now) as session:
        tries = session.execute(take).scalar_one_or_none()
    return None if tries is None else Lease(kind, subject_id, token, tries)


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
            held = sa.select(sa.exists().where(*self._is_ours()))
            if not session.execute(held).scalar_one():
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
        if not self._update(session, lease_until=now_of(session) + LEASE):
            raise self._lost()

    def _free(self, session: Session, at: datetime | None, **values: Any) -> bool:
        """Due at `at`, or when somebody asked meanwhile; `at` None: they did."""
        now = now_of(session)
        asked = sa.case((_is_of_fast_clock(now), _time(now)), else_=_again_at)
        if at is None:
            due = asked
        else:
            was_asked = sa.and_(_again_at.is_not(None), asked < _time(at))
            due = sa.case((was_asked, asked), else_=_time(at))
        return self._update(
            session,
            due_at=due,
            written_at=now,
            hidden_until=None,
            lease_token=None,
            lease_until=None,
            lease_holder=None,
            again_at=None,
            **values,
        )

    def _delete(self, session: Session) -> bool:
        return _rows(session, sa.delete(Promise).where(*self._is_ours(), _again_at.is_(None))) == 1

    def _update(self, session: Session, **values: Any) -> bool:
        return _rows(session, sa.update(Promise).where(*self._is_ours()).values(**values)) == 1

    def _is_ours(self) -> tuple[sa.ColumnElement[bool], ...]:
        return _kind == self.kind, _subject_id == self.subject_id, _token == self.token

    def _lost(self) -> LeaseLost:
        return LeaseLost(f"Another worker took over {self.kind} {self.subject_id}.")


def backoff(tries: int) -> timedelta:
    """1 s, 2 s, 4 s … up to five minutes."""
    doublings = min(max(tries - 1, 0), 20)
    return min(FIRST_BACKOFF * (1 << doublings), LONGEST_BACKOFF)


def _time(at: datetime) -> sa.ColumnElement[datetime]:
    return sa.literal(at, UTCDateTime())


def _rows(session: Session, statement: Any) -> int:
    result = session.execute(statement.execution_options(synchronize_session=False))
    assert isinstance(result, sa.CursorResult)
    return result.rowcount
