"""What this installation is made of and whether each part works, as lines for a person."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

import sqlalchemy as sa

from tensorant_app.db import clock, migrate
from tensorant_app.db.session import engines, reading
from tensorant_app.domain.errors import TensorantError
from tensorant_app.domain.readiness import Verdict, gib
from tensorant_app.providers.local import available_memory
from tensorant_app.services import leftovers
from tensorant_app.services.readiness import check_trainer
from tensorant_app.settings import get_settings

_PACKAGES = ("tensorant", "sqlmodel", "sqlalchemy", "alembic", "dramatiq", "redis", "pyarrow", "reflex")


@dataclass(frozen=True, slots=True)
class Line:
    part: str
    is_well: bool
    sentence: str


def examine(find_redis: Callable[[], str | None]) -> list[Line]:
    """Every part; `find_redis` is the supervisor's, which this layer may not import."""
    return [*examine_quickly(), _redis(find_redis), _trainer(), _leftovers()]


def examine_quickly() -> list[Line]:
    """What can be seen at every call of the health page."""
    settings = get_settings()
    free = shutil.disk_usage(settings.data_dir).free
    return [
        Line("versions", True, ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)),
        Line("data folder", True, f"{settings.data_dir}, {gib(free)} free"),
        _database(),
        Line("provider", True, f"this computer, {gib(available_memory())} of memory free"),
    ]


def _database() -> Line:
    url = sa.make_url(get_settings().database_url)
    try:
        migrate.require_current()
        with engines().read.connect() as connection:
            version = connection.dialect.server_version_info
    except TensorantError as error:
        return Line("database", False, error.message)
    except sa.exc.SQLAlchemyError as error:
        return Line("database", False, f"{url.render_as_string()} does not answer: {error.__class__.__name__}.")
    number = sqlite3.sqlite_version if url.get_backend_name() == "sqlite" else ".".join(map(str, version or ()))
    return Line("database", True, f"{url.get_backend_name()} {number}, tables up to date")


def _redis(find_redis: Callable[[], str | None]) -> Line:
    settings = get_settings()
    if settings.redis_url:
        return Line("redis", True, "the one named by TENSORANT_REDIS_URL")
    program = find_redis()
    return Line("redis", True, program or "none found: hints stay inside the worker, which is a bit slower")


def _leftovers() -> Line:
    """What the daily sweep would take away; a look changes nothing."""
    now = clock.now()
    try:
        with reading(now) as session:
            found = leftovers.find_leftovers(session, now)
    except sa.exc.SQLAlchemyError as error:
        return Line("leftovers", False, f"the database could not be asked: {error.__class__.__name__}.")
    if not found:
        return Line("leftovers", True, "no file that nobody owns")
    named = "; ".join(f"{one.path.name}, {one.why}" for one in found[:3])
    size = gib(sum(one.bytes for one in found))
    return Line("leftovers", True, f"{len(found)} files or folders, {size}, go with the next daily sweep: {named}")


def _trainer() -> Line:
    finding = check_trainer(clock.now())
    return Line("trainer", finding.verdict is not Verdict.REFUSE, finding.sentence)
