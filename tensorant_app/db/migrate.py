"""Brings the database to the tables this version knows: `python -m tensorant_app.db.migrate`."""

from __future__ import annotations

import argparse
import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection, Engine

from alembic import command
from tensorant_app.db.session import make_engines, make_sqlite_engine
from tensorant_app.domain.errors import Conflict
from tensorant_app.settings import get_settings

_POSTGRES_LOCK = 0x74656E736F72  # "tensor"


def scripts_dir() -> Path:
    """Beside the package in a checkout, inside it in the wheel."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "_alembic"
    return shipped if shipped.is_dir() else package.parent / "alembic"


def has_versions() -> bool:
    return any(scripts_dir().glob("versions/*.py"))


def upgrade() -> None:
    """Migrate to this version; starters that come at the same time wait for the first."""
    url = get_settings().database_url
    with _one_at_a_time(url), _engine(url) as engine:
        upgrade_engine(engine)


def upgrade_engine(engine: Engine) -> None:
    """All steps in one transaction: the database is at the new version or at the old one."""
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_POSTGRES_LOCK)))
        command.upgrade(_config(connection), "head")
        if engine.dialect.name == "sqlite":
            _require_whole(connection)


def require_current() -> None:
    """Raise `Conflict` unless the database answers and is at the version this program was made for."""
    url = get_settings().database_url
    wanted = ScriptDirectory.from_config(_config()).get_current_head()
    try:
        with _engine(url) as engine, engine.connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
    except sa.exc.DBAPIError as error:
        shown, what = sa.make_url(url).render_as_string(), str(error.orig).splitlines()[0].rstrip(".")
        raise Conflict(
            f"The database {shown} does not answer: {what}. Start it, or correct TENSORANT_DATABASE_URL."
        ) from error
    if found != wanted:
        raise Conflict(
            f"The database is at version {found or 'nothing'}, this program needs {wanted}. "
            "Stop Tensorant everywhere and run `tensorant up` of the newest version once."
        )


def check() -> None:
    """Fail where the tables in code differ from what all migrations make."""
    with _temporary_engine() as engine:
        upgrade_engine(engine)
        with engine.begin() as connection:
            command.check(_config(connection))


def revise(message: str) -> None:
    """Write the next migration: the difference between the tables in code and all before it."""
    (scripts_dir() / "versions").mkdir(exist_ok=True)
    with _temporary_engine() as engine:
        upgrade_engine(engine)
        with engine.begin() as connection:
            script = ScriptDirectory.from_config(_config(connection))
            number = f"{len(list(script.walk_revisions())) + 1:04d}"
            command.revision(_config(connection), message, autogenerate=True, rev_id=number)


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(scripts_dir()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


@contextmanager
def _one_at_a_time(url: str) -> Iterator[None]:
    """SQLite has no advisory lock. (PostgreSQL has: see `upgrade_engine`.)"""
    if not url.startswith("sqlite"):
        yield
        return
    with (get_settings().data_dir / "migrate.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _engine(url: str) -> Iterator[Engine]:
    """Foreign keys are off on SQLite: batch steps drop tables, and that would delete children."""
    if url.startswith("sqlite"):
        engine = make_sqlite_engine(url, "IMMEDIATE", foreign_keys=False)
    else:
        engine = make_engines(url).write
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _temporary_engine() -> Iterator[Engine]:
    with tempfile.TemporaryDirectory() as folder, _engine(f"sqlite:///{folder}/check.db") as engine:
        yield engine


def _require_whole(connection: Connection) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise RuntimeError(f"The migration would leave rows without their parents: {broken[:5]}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tensorant_app.db.migrate")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("upgrade", help=upgrade.__doc__)
    commands.add_parser("check", help=check.__doc__)
    commands.add_parser("revision", help=revise.__doc__).add_argument("-m", "--message", required=True)
    chosen = parser.parse_args()
    match chosen.command:
        case "upgrade":
            upgrade()
        case "check":
            check()
        case "revision":
            revise(chosen.message)


if __name__ == "__main__":
    main()
