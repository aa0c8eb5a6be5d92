"""A Pod's program as a process of this computer: the image's own boot and the real trainer, on the folder of the volume."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import psutil

from tests.runpod_emulator.clock import Clock, RealClock
from tests.runpod_emulator.workers import Container, Exit

ROOT = Path(__file__).resolve().parents[2]
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
_TERM_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class RealTrainer:
    """`Emulator(…, clock=RealClock(), start=RealTrainer(python).start)`."""

    python: Path
    threads: int | None = None
    clock: Clock = field(default_factory=RealClock)
    bases: Path | None = None
    """Base models that the image holds, as `<name>/<revision>`."""

    def start(self, container: Container, at: datetime) -> ProcessTrainer:
        return ProcessTrainer(self, container, at)


class ProcessTrainer:
    """The container's first process and all that it starts. Its output is the container's log; it ends with the Pod."""

    def __init__(self, trainer: RealTrainer, container: Container, at: datetime) -> None:
        self._trainer, self._container = trainer, container
        shutil.rmtree(container.disk, ignore_errors=True)
        self._home = container.volume or container.disk
        for folder in (self._home, container.disk / "bin"):
            folder.mkdir(parents=True, exist_ok=True)
        self._install_nvidia_smi()
        self._process = subprocess.Popen(
            [str(trainer.python), "-m", "trainer.boot", *self._arguments()],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            cwd=str(self._home),
        )
        self._reader = threading.Thread(target=self._read, name=f"log of {container.pod_id}", daemon=True)
        self._reader.start()

    def advance(self, to: datetime) -> Exit | None:
        code = self._process.poll()
        if code is None:
            return None
        self._reader.join(timeout=1)
        return Exit(to, code)

    def kill(self) -> None:
        """Asked to end at once, and ended after some seconds, as the provider ends a whole container.

        Not a daemon: the interpreter waits for it, so that nothing of a Pod outlives the emulator.
        """
        with contextlib.suppress(psutil.NoSuchProcess):
            first = psutil.Process(self._process.pid)
            group = [first, *first.children(recursive=True)]
            first.terminate()
            threading.Thread(target=self._end, args=(group,), name=f"end of {self._container.pod_id}").start()

    def _end(self, group: list[psutil.Process]) -> None:
        _, alive = psutil.wait_procs(group, timeout=_TERM_SECONDS)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._container.say(self._trainer.clock(), line.rstrip("\n"))

    def _arguments(self) -> list[str]:
        """What follows the image's entry point, with paths of the mount as they are here."""
        words = list(self._container.command)
        entry = len(words) and words[0].startswith("/")
        return [self._container.here(word) for word in words[1 if entry else 0 :]]

    def _install_nvidia_smi(self) -> None:
        """A driver that answers as the Pod's GPUs would; the work itself is done by this computer's processor."""
        line = f"{self._container.gpu}, {self._container.capability}"
        program = self._container.disk / "bin" / "nvidia-smi"
        program.write_text("#!/bin/sh\n" + f"echo {shlex.quote(line)}\n" * self._container.gpus)
        program.chmod(0o755)

    def _environment(self) -> Mapping[str, str]:
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        asked = {name: self._container.here(text) for name, text in self._container.env.items()}
        threads = {"OMP_NUM_THREADS": str(self._trainer.threads)} if self._trainer.threads else {}
        path = f"{self._container.disk / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        place = {"PATH": path, "TENSORANT_MOUNT": str(self._home)}
        baked = {"TENSORANT_BASES": str(self._trainer.bases)} if self._trainer.bases else {}
        return {**kept, **asked, **threads, **baked, **place, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
