"""A whole installation that is made once, and copied for each test that asks for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

import sqlalchemy as sa
from sqlmodel import SQLModel

from tensorant_app.db.session import dispose, engines

T = TypeVar("T")


@dataclass(slots=True)
class Kept(Generic[T]):
    """What `make` answered, and the data folder as it was then; each test may change its own copy."""

    folder: Path
    made: T | None = None

    def put_into(self, data_dir: Path, make: Callable[[], T]) -> T:
        if self.made is None:
            self.made = make()
            dispose()
            shutil.copytree(data_dir, self.folder)
        else:
            dispose()
            shutil.copytree(self.folder, data_dir, dirs_exist_ok=True)
        return self.made


def rows() -> dict[str, list[str]]:
    """Everything in every table, but when a session was last seen."""
    with engines().read.connect() as connection:
        return {name: sorted(map(repr, connection.exec_driver_sql(asked))) for name, asked in _questions().items()}


@cache
def _questions() -> dict[str, str]:
    """Table → what asks for its steady columns; written out once, because a walk asks for all before and after each call."""
    return {
        table.name: str(sa.select(*(column for column in table.columns if column.name != "last_seen_at")))
        for table in SQLModel.metadata.sorted_tables
    }
