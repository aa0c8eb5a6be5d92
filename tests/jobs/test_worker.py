"""The real process: it works, drains, and refuses a database it does not know."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from tensorant_app.db import migrate
from tensorant_app.db.promise import Promise, promise
from tensorant_app.db.session import reading, unit_of_work
from tests.jobs.conftest import wait_for

Start = Callable[[str | None], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(data_dir: Path) -> Iterator[Start]:
    """Start a worker with a broker's URL, or None for a queue inside it."""
    processes: list[subprocess.Popen[bytes]] = []

    def run(url: str | None) -> subprocess.Popen[bytes]:
        migrate.upgrade()
        env = {**os.environ, "PYTHONPATH": os.getcwd(), **({"TENSORANT_REDIS_URL": url} if url else {})}
        with (data_dir / "said").open("w") as said:
            processes.append(subprocess.Popen([sys.executable, "-m", "tests.jobs.acting"], env=env, stderr=said))
        return processes[-1]

    yield run
    for process in processes:
        process.kill()
        process.wait()


def notes(data_dir: Path) -> list[str]:
    path = data_dir / "notes"
    return path.read_text().splitlines() if path.exists() else []


def ask(kind: str) -> None:
    with unit_of_work() as session:
        promise(session, kind, uuid4())


def test_it_finds_promises_that_nobody_hinted_at(start: Start, data_dir: Path, broker_url: str | None) -> None:
    process = start(broker_url)
    for _ in range(3):
        ask("test.note")

    wait_for(lambda: len(notes(data_dir)) == 3)

    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert "same type twice" not in (data_dir / "said").read_text(), (
        "its two queues have a worker each, and that is meant"
    )


def test_on_sigterm_a_running_job_ends_and_no_other_begins(start: Start, data_dir: Path) -> None:
    process = start(None)
    ask("test.sleep")
    wait_for(lambda: notes(data_dir) == ["began"])

    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0

    assert notes(data_dir) == ["began", "ended"]
    with reading() as session:
        left = session.scalars(sa.select(Promise.kind)).all()
    assert "test.sleep" not in left


def test_it_does_not_start_on_a_database_of_another_version(start: Start, data_dir: Path, tmp_path: Path) -> None:
    process = start(None)
    process.kill()
    with unit_of_work() as session:
        session.execute(sa.text("UPDATE alembic_version SET version_num = 'elsewhere'"))

    again = subprocess.run(
        [sys.executable, "-m", "tests.jobs.acting"], env={**os.environ, "PYTHONPATH": os.getcwd()}, capture_output=True
    )

    assert again.returncode != 0
    assert b"is at version elsewhere" in again.stderr
