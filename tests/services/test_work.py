"""Work in a process of its own: its answer, its last words, and the end of its whole group."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from time import monotonic, sleep
from uuid import uuid4

import psutil
import pytest

from tensorant_app.domain.errors import Refused
from tensorant_app.services import import_work, work
from tensorant_app.services.work import percent_of, run_process, run_work, work_folder
from tensorant_app.settings import get_settings
from tests import data
from trainer.contract import JOB, PROGRESS, RESULT

SPAWN = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {child!r}])
open({path!r}, "w").write(str(child.pid))
time.sleep(600)
"""
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


class Enough(Exception):
    pass


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_BEAT_SECONDS", 0.05)
    monkeypatch.setattr(work, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(work, "_GRACE_SECONDS", 1.0)


def nothing() -> None:
    pass


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_how_far_the_work_is_can_be_seen_while_it_goes_on(data_dir: Path) -> None:
    import_id = uuid4()
    get_settings().store_dir.mkdir(parents=True, exist_ok=True)

    with work_folder(import_id) as folder:
        assert percent_of(import_id) is None
        (folder / PROGRESS).write_text('{"done": 25, "total": 40}')
        assert percent_of(import_id) == 62
        assert percent_of(uuid4()) is None

    assert percent_of(import_id) is None


def test_a_file_that_is_read_says_how_far(tmp_path: Path) -> None:
    source = data.write_lines(tmp_path / "tickets.jsonl", data.chats(20))

    import_work.read_file(source, tmp_path)

    told = json.loads((tmp_path / PROGRESS).read_text())
    assert told["total"] == 100
    assert 0 < told["done"] <= 100


def test_a_module_reads_its_job_and_its_result_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "adding.py").write_text(
        "import json, pathlib, sys\n"
        "job = pathlib.Path(sys.argv[1])\n"
        f"(job.parent / {RESULT!r}).write_text(json.dumps({{'sum': sum(json.loads(job.read_text())['numbers'])}}))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    result = run_work("adding", {"numbers": [1, 2, 3]}, tmp_path / "work", nothing)

    assert result == {"sum": 6}
    assert (tmp_path / "work" / JOB).is_file()


def test_the_beat_is_heard_while_it_works() -> None:
    beats: list[float] = []

    run_process([sys.executable, "-c", "import time; time.sleep(0.6)"], lambda: beats.append(monotonic()))

    assert len(beats) >= 3


def test_a_flood_of_errors_does_not_block_it() -> None:
    with pytest.raises(Refused, match=r"the last line\. Mend that"):
        run_process(
            [sys.executable, "-c", "import sys; sys.stderr.write('x' * 300_000 + '\\nthe last line'); sys.exit(1)"],
            nothing,
        )


@pytest.mark.parametrize("child", ["import time; time.sleep(600)", STUBBORN], ids=["gentle", "stubborn"])
def test_a_beat_that_raises_ends_the_whole_group(tmp_path: Path, child: str) -> None:
    path = tmp_path / "pid"

    def stop_when_started() -> None:
        if path.exists() and path.read_text():
            raise Enough

    with pytest.raises(Enough):
        run_process([sys.executable, "-c", SPAWN.format(child=child, path=str(path))], stop_when_started)

    pid = int(path.read_text())
    give_up_at = monotonic() + 5
    while is_running(pid):
        assert monotonic() < give_up_at, "The child of the child lives on."
        sleep(0.02)


def test_one_that_ignores_the_signal_is_killed() -> None:
    began = monotonic()

    with pytest.raises(Enough):
        run_process([sys.executable, "-c", STUBBORN], _raise)

    assert monotonic() - began < 10


def test_it_is_a_group_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "session"

    run_process([sys.executable, "-c", f"import os; open({str(path)!r}, 'w').write(str(os.getsid(0)))"], nothing)

    assert int(path.read_text()) != os.getsid(0)


def _raise() -> None:
    raise Enough
