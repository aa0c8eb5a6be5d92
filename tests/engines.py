"""Engines that outlive a test: what they compiled once serves every database after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

import sqlalchemy as sa

from tensorant_app.db import session
from tensorant_app.settings import get_settings

_make = session.make_engines


@contextmanager
def kept_engines() -> Iterator[None]:
    """Inside the block the process has one pair of engines for each kind of database.

    They connect to whichever database is the settings' own at that moment; `session.dispose()`
    closes what is open and the next unit of work connects anew.
    """
    with mock.patch.object(session, "make_engines", lambda url: _kept(sa.make_url(url).get_backend_name())):
        yield


@cache
def _kept(kind: str) -> session.Engines:
    made = _make(get_settings().database_url)

    def point(dialect: sa.Dialect, record: Any, given: list[Any], named: dict[str, Any]) -> None:
        given[:], more = dialect.create_connect_args(sa.make_url(get_settings().database_url))
        named.update(more)

    for engine in {made.write.pool: made.write, made.read.pool: made.read}.values():
        sa.event.listen(engine, "do_connect", point)
    return made
