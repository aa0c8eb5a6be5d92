"""A Pod's program as a process of this computer: the real trainer, on the folder that is the volume."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tests.runpod_emulator.clock import Clock, RealClock
from tests.runpod_emulator.workers import Container, Exit

ROOT = Path(__file__).resolve().parents[2]
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
_TERM_SECONDS = 10.0
_SUBCOMMANDS = ("train", "evaluate", "check")


@dataclass(frozen=True, slots=True)
class RealTrainer:
    """`Emulator(…, clock=RealClock(), start=RealTrainer(python).start)`."""

    python: Path
    threads: int | None = None
    holds: bool = True
    """The container stays up when the trainer has ended, as the image's boot does; else the Pod is EXITED."""
    clock: Clock = field(default_factory=RealClock)

    def start(self, container: Container, at: datetime) -> ProcessTrainer:
        return ProcessTrainer(self, container, at)


class ProcessTrainer:
    """One process group. Its output is the container's log; it ends with the Pod."""

    def __init__(self, trainer: RealTrainer, container: Container, at: datetime) -> None:
        self._trainer, self._container = trainer, container
        shutil.rmtree(container.disk, ignore_errors=True)
        container.disk.mkdir(parents=True)
        arguments = self._arguments()
        container.say(at, f"python -m trainer {' '.join(arguments)}")
        self._process = subprocess.Popen(
            [str(trainer.python), "-m", "trainer", *arguments],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            cwd=str(container.volume or container.disk),
        )
        self._reader = threading.Thread(target=self._read, name=f"log of {container.pod_id}", daemon=True)
        self._reader.start()
        self._is_over = False

    def advance(self, to: datetime) -> Exit | None:
        code = self._process.poll()
        if code is None or self._is_over:
            return None
        self._is_over = True
        self._reader.join(timeout=1)
        self._container.say(to, f"the trainer ended with code {code}")
        return None if self._trainer.holds else Exit(to, code)

    def kill(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_TERM_SECONDS)
                break
        self._reader.join(timeout=1)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._container.say(self._trainer.clock(), line.rstrip("\n"))

    def _arguments(self) -> list[str]:
        """The trainer's own part of the command, with paths of the mount as they are here."""
        words = list(self._container.command)
        first = next((i for i, word in enumerate(words) if word in _SUBCOMMANDS), 0)
        arguments = [self._container.here(word) for word in words[first:]]
        if (key := self._container.value_of("--job")) is not None:
            arguments[arguments.index("--job") + 1] = self._job_as_seen_here(key)
        return arguments

    def _job_as_seen_here(self, key: str) -> str:
        """A container sees the volume under its mount; a process here needs a job file whose paths say where it is."""
        mount, volume = self._container.mount, self._container.volume
        if mount is None or volume is None or not (volume / key).exists():
            return key
        text = (volume / key).read_text()
        seen = text.replace(f'"{mount}/', f'"{volume}/').replace(f'"{mount}"', f'"{volume}"')
        if seen == text:
            return key
        job = self._container.disk / "job.json"
        job.write_text(seen)
        return str(job)

    def _environment(self) -> Mapping[str, str]:
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        asked = {name: self._container.here(text) for name, text in self._container.env.items()}
        threads = {"OMP_NUM_THREADS": str(self._trainer.threads)} if self._trainer.threads else {}
        return {**kept, **asked, **threads, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
