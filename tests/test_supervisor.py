"""One tree of real processes: it mends itself, drains, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import psutil
import pytest

from tensorant_app.db.promise import promise
from tensorant_app.db.session import unit_of_work
from tensorant_app.domain.errors import Conflict
from tensorant_app.settings import get_settings
from tensorant_app.supervisor import Child, Supervisor, find_redis, stop_running
from tests.jobs.conftest import wait_for as wait_briefly

WORKER = Child("worker", (sys.executable, "-m", "tests.jobs.acting"))
MAIN = """
import sys
from tensorant_app.log import set_up_logging
from tensorant_app.supervisor import Child, Supervisor
set_up_logging("supervisor")
Supervisor([Child("worker", (sys.executable, "-m", "tests.jobs.acting"))]).run_forever()
"""

WAIT = 30.0
"""Seconds for processes to start on a busy computer."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_redis() is None, reason="There is no Redis on this computer."),
]


@pytest.fixture(autouse=True)
def _path(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.getcwd())


@pytest.fixture
def up(data_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`tensorant up` in a process of its own, its worker at work."""
    process = subprocess.Popen([sys.executable, "-c", MAIN])
    wait_for(lambda: get_settings().redis_socket.exists())
    ask("test.note")
    wait_for(lambda: len(notes()) == 1)
    yield process
    if process.poll() is None:
        process.kill()
    process.wait()


def wait_for(is_true: object, seconds: float = WAIT) -> None:
    wait_briefly(is_true, seconds)


def notes() -> list[str]:
    path = get_settings().data_dir / "notes"
    return path.read_text().splitlines() if path.exists() else []


def ask(kind: str) -> UUID:
    subject_id = uuid4()
    with unit_of_work() as session:
        promise(session, kind, subject_id)
    return subject_id


def descendants(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def are_gone(processes: list[psutil.Process]) -> bool:
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def test_a_killed_worker_and_a_killed_redis_come_back(data_dir: Path) -> None:
    with Supervisor.running([WORKER]) as supervisor:
        ask("test.note")
        wait_for(lambda: len(notes()) == 1)
        for name in ("worker", "redis"):
            before = supervisor.pids()
            os.kill(before[name], signal.SIGKILL)
            wait_for(lambda name=name, before=before: supervisor.pids().get(name) not in (None, before[name]))

            asked = ask("test.note")

            # By name, not by number: a job whose worker was killed before it was done is done again.
            wait_for(lambda asked=asked: any(str(asked) in note for note in notes()))
        children = [psutil.Process(pid) for pid in supervisor.pids().values()]

    assert len(children) == 2
    assert are_gone(children)
    assert "Working; hints go through Redis." in (data_dir / "logs" / "worker.log").read_text()


def test_nothing_survives_a_killed_supervisor(up: subprocess.Popen[bytes]) -> None:
    children = descendants(up)
    assert {"redis-server"} < {child.name() for child in children}

    up.kill()
    up.wait()

    wait_for(lambda: are_gone(children), seconds=2)


def test_sigterm_lets_the_running_job_end(up: subprocess.Popen[bytes]) -> None:
    children = descendants(up)
    ask("test.sleep")
    wait_for(lambda: "began" in notes())

    up.terminate()

    assert up.wait(15) == 0
    assert "ended" in notes()
    assert are_gone(children)
    assert not get_settings().redis_socket.exists()


def test_redis_is_only_ours(up: subprocess.Popen[bytes]) -> None:
    settings = get_settings()

    assert stat.S_IMODE(settings.redis_socket.stat().st_mode) == 0o700
    assert stat.S_IMODE(settings.redis_dir.stat().st_mode) == 0o700
    (redis,) = [child for child in descendants(up) if child.name() == "redis-server"]
    assert [c for c in redis.net_connections() if c.status == psutil.CONN_LISTEN] == []


def test_a_second_supervisor_is_refused_and_the_first_can_be_stopped(
    up: subprocess.Popen[bytes], data_dir: Path
) -> None:
    with pytest.raises(Conflict, match=f"{data_dir} already \\(process {up.pid}\\)"), Supervisor.running([WORKER]):
        pass
    assert up.poll() is None

    assert stop_running(data_dir)

    assert up.wait(15) == 0
    assert not stop_running(data_dir)


def test_a_folder_too_deep_for_a_socket_gets_a_short_private_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORANT_DATA_DIR", str(tmp_path / ("deep/" * 30)))
    get_settings.cache_clear()

    with Supervisor.running([]) as supervisor:
        folder = get_settings().redis_dir
        assert list(supervisor.pids()) == ["redis"]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(str(folder)) < 50

    get_settings().ensure_data_dir()
    assert get_settings().redis_dir == folder
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_without_a_redis_the_worker_works_alone(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorant_app.supervisor.find_redis", lambda: None)

    with Supervisor.running([WORKER]) as supervisor:
        ask("test.note")
        wait_for(lambda: len(notes()) == 1)

        assert list(supervisor.pids()) == ["worker"]
    assert "hints go through this process alone" in (data_dir / "logs" / "worker.log").read_text()


def test_a_child_that_keeps_dying_is_started_ever_later(data_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    monkeyed = Child("flaky", (sys.executable, "-c", "print('token=hf_0123456789abcdef'); raise SystemExit(3)"))
    log = data_dir / "logs" / "flaky.log"

    with Supervisor.running([monkeyed]):
        wait_for(lambda: log.exists() and len(log.read_text().splitlines()) == 3)

    assert "hf_" not in log.read_text()
    assert "flaky  | token=[hidden]" in capfd.readouterr().err


def test_a_child_that_is_restarted_on_purpose_comes_back_at_once(data_dir: Path) -> None:
    with Supervisor.running([WORKER]) as tree:
        for _ in range(3):
            before = tree.pids()["worker"]
            tree.restart("worker")
            wait_for(lambda before=before: tree.pids().get("worker", before) != before, 5)
