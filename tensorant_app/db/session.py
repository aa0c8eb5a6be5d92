"""One transaction per event or job: the only place that begins and commits."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, cast
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlmodel import Session

from tensorant_app.db import clock
from tensorant_app.settings import get_settings

HintSender = Callable[[str, UUID], None]

BUSY_SECONDS = 30
"""How long a SQLite writer waits for the one before it."""

_log = logging.getLogger(__name__)
_making = threading.Lock()
_open = threading.local()
_hint_sender: HintSender | None = None


@dataclass(frozen=True, slots=True)
class Engines:
    """Two doors to one database."""

    write: Engine
    read: Engine


def set_hint_sender(sender: HintSender | None) -> None:
    """Who is told of promises that are due at once; only the composition roots call this."""
    global _hint_sender
    _hint_sender = sender


def engines() -> Engines:
    """The engines of this process; `dispose()` forgets them."""
    # A cache alone would let two first threads make two.
    with _making:
        return _engines()


@lru_cache(maxsize=1)
def _engines() -> Engines:
    return make_engines(get_settings().database_url)


def dispose() -> None:
    """Close every connection; the next unit of work reads the settings again."""
    with _making:
        if _engines.cache_info().currsize:
            _engines().write.dispose()
            _engines().read.dispose()
            _engines.cache_clear()


def make_engines(url: str) -> Engines:
    if url.startswith("sqlite"):
        return Engines(make_sqlite_engine(url, "IMMEDIATE"), make_sqlite_engine(url, "DEFERRED"))
    write = sa.create_engine(url, pool_pre_ping=True, pool_size=10, max_overflow=20)
    return Engines(write, write.execution_options(postgresql_readonly=True))


def make_sqlite_engine(url: str, mode: str, *, foreign_keys: bool = True) -> Engine:
    """IMMEDIATE takes the one writer's place at BEGIN; DEFERRED never writes.

    A deferred transaction that turns into a writer fails at once with "database is locked"
    whenever another wrote in between: busy_timeout does not help it.
    """
    engine = sa.create_engine(
        url,
        connect_args={"isolation_level": None, "timeout": BUSY_SECONDS, "check_same_thread": False},
        pool_size=10,
        max_overflow=20,
    )

    def set_up(connection: sqlite3.Connection, _: Any) -> None:
        _set_pragmas(connection, foreign_keys=foreign_keys, read_only=mode == "DEFERRED")

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(f"BEGIN {mode}")

    sa.event.listen(engine, "connect", set_up)
    sa.event.listen(engine, "begin", begin)
    return engine


def _set_pragmas(connection: sqlite3.Connection, *, foreign_keys: bool, read_only: bool) -> None:
    connection.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(f"PRAGMA foreign_keys={'ON' if foreign_keys else 'OFF'}")
    if read_only:
        connection.execute("PRAGMA query_only=ON")


@contextmanager
def unit_of_work(now: datetime | None = None) -> Iterator[Session]:
    """One transaction: committed at the end of the block, rolled back on any error.

    Promises made in it are written last, in one fixed order, so that two units of work that
    promise the same things cannot wait for each other. After the commit they are hinted at.
    """
    if getattr(_open, "yes", False):
        raise RuntimeError("A unit of work is open in this thread already: pass its session on.")
    started_at = now or clock.now()
    asked: dict[tuple[str, UUID], datetime] = {}
    info = {"now": started_at, "promises": asked, "before_commit": []}
    _open.yes = True
    try:
        with Session(engines().write, expire_on_commit=False, info=info) as session, session.begin():
            yield session
            session.flush()
            for step in _steps(session):
                step(session)
    finally:
        _open.yes = False
    _hint([key for key, at in asked.items() if at <= started_at])


@contextmanager
def reading(now: datetime | None = None) -> Iterator[Session]:
    """A transaction that sees one moment of the database and cannot write."""
    info = {"now": now or clock.now()}
    with Session(engines().read, expire_on_commit=False, info=info) as session, session.begin():
        yield session


def now_of(session: Session) -> datetime:
    """The time of the session's transaction: the same for every row it writes."""
    return cast(datetime, session.info["now"])


def promises_of(session: Session) -> dict[tuple[str, UUID], datetime]:
    """What this unit of work promised so far; `promise.promise` adds to it."""
    try:
        return cast("dict[tuple[str, UUID], datetime]", session.info["promises"])
    except KeyError:
        raise RuntimeError("Only the session of a unit of work can make promises.") from None


def before_commit(session: Session, step: Callable[[Session], None]) -> None:
    """Run `step` as the last thing of the unit of work, once; `promise` writes its rows so."""
    if step not in _steps(session):
        _steps(session).append(step)


def _steps(session: Session) -> list[Callable[[Session], None]]:
    return cast("list[Callable[[Session], None]]", session.info["before_commit"])


def _hint(keys: list[tuple[str, UUID]]) -> None:
    for kind, subject_id in keys:
        if _hint_sender is None:
            return
        try:
            _hint_sender(kind, subject_id)
        except Exception:
            # A hint saves a quarter of a second; the row is committed and tick will find it.
            _log.debug("No hint for %s %s.", kind, subject_id, exc_info=True)
            return
