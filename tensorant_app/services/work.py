"""Long CPU work in a process of its own: started with a job file, watched, and ended with its whole group."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from tensorant_app.domain.errors import Refused
from tensorant_app.settings import get_settings
from trainer.contract import JOB, PROGRESS, RESULT

FILES = "files"
"""Below the work's folder: what is renamed into its place when all of it is there."""
_LOOK_SECONDS = 0.1
_BEAT_SECONDS = 5.0
_GRACE_SECONDS = 5.0
_ERROR_NAME = re.compile(r"^[\w.]+(?:Error|Exception): ")


@contextmanager
def work_folder(subject_id: UUID) -> Iterator[Path]:
    """A folder of the store for the time of the work on an import or a version; `percent_of` finds it by its name."""
    with tempfile.TemporaryDirectory(dir=get_settings().store_dir, prefix=f".work-{subject_id}-") as name:
        yield Path(name)


def percent_of(subject_id: UUID) -> int | None:
    """How far the process that works on it says to be; None before it says anything."""
    told = progress_of(subject_id)
    return told[0] if told else None


def progress_of(subject_id: UUID) -> tuple[int, str] | None:
    """The same with the step that goes on."""
    folders = sorted(get_settings().store_dir.glob(f".work-{subject_id}-*"), key=lambda folder: folder.stat().st_ctime)
    for path in (path for folder in folders[-1:] for path in (folder / PROGRESS, folder / FILES / PROGRESS)):
        try:
            told = json.loads(path.read_text())
            percent = min(100 * int(told["done"]) // max(int(told["total"]), 1), 100)
            return percent, str(told.get("step", ""))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def run_work(module: str, job: Mapping[str, Any], folder: Path, beat: Callable[[], None]) -> dict[str, Any]:
    """Run `python -m module <folder>/job.json`; answers its `result.json`. `beat` may raise to end it."""
    write_job(folder, job)
    run_process([sys.executable, "-m", module, str(folder / JOB)], beat)
    result: dict[str, Any] = json.loads((folder / RESULT).read_text())
    return result


def write_job(folder: Path, job: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / JOB).write_text(json.dumps(job))


def run_process(command: Sequence[str], beat: Callable[[], None]) -> None:
    """Wait for the process, calling `beat` meanwhile; its last line of errors is the reason where it fails."""
    with subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            errors = _wait(process, beat)
        except BaseException:
            _end_group(process)
            raise
    if process.returncode != 0:
        raise Refused("The work on the data stopped half-way:", [_reason(process.returncode, errors)])


def _wait(process: subprocess.Popen[bytes], beat: Callable[[], None]) -> bytes:
    last_beat = time.monotonic()
    while True:
        try:
            return process.communicate(timeout=_LOOK_SECONDS)[1]
        except subprocess.TimeoutExpired:
            if time.monotonic() - last_beat >= _BEAT_SECONDS:
                beat()
                last_beat = time.monotonic()


def _reason(code: int, errors: bytes) -> str:
    """Why it stopped and what to do; the last line of a traceback without the error's name."""
    if code < 0:
        return f"It was killed by signal {-code}; if this computer is short of memory, close other programs. Try again."
    lines = errors.decode(errors="replace").strip().splitlines()
    said = _ERROR_NAME.sub("", lines[-1]).rstrip(".") if lines else f"It ended with code {code}"
    is_full = "No space left on device" in said
    return f"{said}. {'Free some space, then try again.' if is_full else 'Mend that, then try again.'}"


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(_GRACE_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
