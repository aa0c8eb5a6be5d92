"""What time it is, asked only at the edges and handed down from there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import UUID

from tensorant_app.domain.ids import RANDOM_BYTES, make_id

Source = Callable[[], datetime]


def _system_time() -> datetime:
    return datetime.now(UTC)


_source: Source = _system_time


def now() -> datetime:
    """The present time, aware and in UTC."""
    return _source()


def new_id(at: datetime) -> UUID:
    return make_id(at, os.urandom(RANDOM_BYTES))


def set_source(source: Source | None) -> None:
    """Where `now` looks; None for the system's clock."""
    global _source
    _source = source or _system_time


@contextmanager
def reading_from(source: Source) -> Iterator[None]:
    """For tests: `now` answers `source()` inside the block."""
    before = _source
    set_source(source)
    try:
        yield
    finally:
        set_source(before)
