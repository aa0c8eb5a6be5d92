"""A disk that counts how often it is touched, and at the n-th touch ends the process or is full from then on."""

from __future__ import annotations

import errno
import os
import pathlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import safetensors.torch

CALLS = ("mkdir", "open", "fsync", "rename", "replace", "unlink", "rmdir")
"""Of `os`; each is a stage: the process may end before it."""
WRITES = ("half", "begin", "mkdir", "fsync")
"""What a full disk refuses."""
KILLED = -signal.SIGKILL
FULL = 50
"""Exit code of work that told a full disk."""
PASSED = 0


class Disk:
    """Stage `fatal`, from 1, is where it happens; `stages` are those that came, in their order."""

    def __init__(self, fatal: int, *, full: bool) -> None:
        self.fatal, self.full = fatal, full
        self.stages: list[str] = []

    def touch(self, what: str, name: object) -> None:
        self.stages.append(f"{what} {pathlib.PurePath(str(name)).name}")
        if len(self.stages) < self.fatal:
            return
        if not self.full:
            os.kill(os.getpid(), signal.SIGKILL)
        if what in WRITES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(name))

    def patch(self) -> None:
        """For good: only for a process that is thrown away."""
        for name in CALLS:
            setattr(os, name, self._watched(getattr(os, name), name))
        self._tear_texts()
        self._tear_tensors()

    def _watched(self, real: Any, name: str) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            self.touch(name, arguments[0])
            return real(*arguments, **more)

        return call

    def _tear_texts(self) -> None:
        real, disk = Path.open, self

        def open_(path: Path, mode: str = "r", *arguments: Any, **more: Any) -> Any:
            file = real(path, mode, *arguments, **more)
            return _InHalves(file, path, disk) if mode[0] in "wa" else file

        Path.open = open_  # type: ignore[method-assign, assignment]

    def _tear_tensors(self) -> None:
        """The library writes them by itself; half of a file on the disk is the same to whoever reads it."""
        real = safetensors.torch.save_file

        def save_file(tensors: Any, path: Path, metadata: Any = None) -> None:
            self.touch("begin", path)
            real(tensors, path, metadata)
            whole = path.read_bytes()
            os.truncate(path, len(whole) // 2)
            self.touch("half", path)
            real(tensors, path, metadata)

        safetensors.torch.save_file = save_file


class _InHalves:
    """An open file whose every write comes in two halves."""

    def __init__(self, file: Any, path: Path, disk: Disk) -> None:
        self._file, self._path, self._disk = file, path, disk

    def write(self, content: Any) -> None:
        half = len(content) // 2
        self._file.write(content[:half])
        self._file.flush()
        self._disk.touch("half", self._path)
        self._file.write(content[half:])

    def __enter__(self) -> _InHalves:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def every_stage(work: Callable[[], object], *, full: bool) -> Iterator[tuple[int, int]]:
    """(stage, how its process ended) for each stage of the work, each in a fork of its own, till one has passed.

    What the disk holds must be made anew by the caller before the next one is asked for.
    """
    stage, ended = 1, None
    while ended != PASSED:
        ended = _in_a_fork(work, Disk(stage, full=full))
        yield stage, ended
        stage += 1


def _in_a_fork(work: Callable[[], object], disk: Disk) -> int:
    child = os.fork()
    if child == 0:
        disk.patch()
        os._exit(_told(work))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _told(work: Callable[[], object]) -> int:
    from trainer.errors import exit_code_of, failure_of

    try:
        work()
    except BaseException as error:  # whatever it is, its exit code is the answer
        return exit_code_of(failure_of(error).code)
    return PASSED
