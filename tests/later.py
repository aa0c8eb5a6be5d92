"""A console whose clock runs ahead of the computer's, by as many seconds as a file says: ten minutes pass in one write.

`python -m tests.later up` is `tensorant up` on that clock; the file is named by the variable `AHEAD`.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from sqlmodel import col, select

from tensorant_app.db import clock
from tensorant_app.db.promise import Promise
from tensorant_app.db.session import reading
from tensorant_app.supervisor import Child

AHEAD = "AHEAD"


@dataclass(frozen=True)
class Later:
    """One clock of several processes; the emulator's as well."""

    path: Path

    def __call__(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=float(self.path.read_text() or 0))

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def advance(self, seconds: float) -> None:
        """Whole or not at all: the others are reading it."""
        aside = self.path.with_suffix(".new")
        aside.write_text(str(float(self.path.read_text() or 0) + seconds))
        aside.replace(self.path)


def rest_of(clock: Later) -> timedelta:
    """How long the console has nothing to do from now on; zero or less while it works."""
    at = clock()
    sent = sa.and_(col(Promise.hidden_until) > at, col(Promise.due_at) <= at)
    with reading() as session:
        is_busy = session.exec(select(Promise.kind).where(sa.or_(col(Promise.lease_until) > at, sent))).first()
        due = session.exec(select(sa.func.min(Promise.due_at))).one()
    return timedelta(0) if is_busy or due is None else due - at


def main() -> None:
    module = sys.argv[1]
    if module == "up":
        _up()
    else:
        clock.set_source(Later(Path(os.environ[AHEAD])))
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def _up() -> None:
    # Imported here: a child must find its own module fresh.
    from tensorant_app import web
    from tensorant_app.settings import get_settings
    from tensorant_app.supervisor import WORKER, Supervisor, web_child

    children = (on_its_clock(WORKER), on_its_clock(web_child(get_settings())))
    Supervisor(children, check=web.require_startable).run_forever()


def on_its_clock(child: Child) -> Child:
    """The same program, with the clock whose file `AHEAD` names in the environment."""
    return replace(child, argv=(sys.executable, "-m", "tests.later", child.argv[-1]))


if __name__ == "__main__":
    main()
