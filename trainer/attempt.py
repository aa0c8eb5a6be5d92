"""One attempt on one machine: its folders, the lock that lets only one process in, its boots and its one result."""

from __future__ import annotations

import fcntl
import os
import resource
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainer.contract import (
    BOOT,
    LOCK,
    RANKS,
    RESULT,
    STATUS,
    AttemptKeys,
    Boot,
    Failure,
    Outcome,
    Result,
    dump,
    load,
    write_file,
)
from trainer.events import Journal, now

RESERVE = ".reserve"
"""Room on the disk, given back just before the result is written: a full disk must not keep it from being told."""
RESERVED_BYTES = 64 * 1024
MOST_BOOTS = 2
"""A third start means that the machine kills the process again and again."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How the work ended, before machine, boot and time are added."""

    outcome: Outcome
    failure: Failure | None = None
    step: int = 0
    total_steps: int = 0
    adapter: str | None = None
    answers: str | None = None
    answers_sha256: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Held by the process that owns the lock, until it ends."""

    volume: Path
    keys: AttemptKeys
    machine: str
    number: int
    boot: int
    began: float
    """On the monotonic clock."""
    lock: int
    """The file descriptor whose lock ends with the process."""
    rank: int = 0
    """Its number among the processes that train together; only the first one's files are read by the console."""
    once: threading.Lock = field(default_factory=threading.Lock)

    @property
    def inputs(self) -> Path:
        return self.volume / self.keys.inputs

    @property
    def outputs(self) -> Path:
        return _outputs(self.volume, self.keys, self.rank)

    @property
    def shared(self) -> Path:
        """Where the first process writes: checkpoints lie there for all."""
        return self.volume / self.keys.outputs

    @property
    def journal(self) -> Journal:
        return Journal(self.outputs, self.machine, self.number, self.boot)

    def finish(self, ending: Ending) -> bool:
        """Write the result; False where one is there already, which then stands."""
        with self.once:
            if (self.outputs / RESULT).exists():
                return False
            (self.outputs / RESERVE).unlink(missing_ok=True)
            write_file(self.outputs / RESULT, dump(self._result(ending)))
            return True

    def _result(self, ending: Ending) -> Result:
        return Result(
            machine=self.machine,
            attempt=self.number,
            boot=self.boot,
            outcome=ending.outcome,
            at=now(),
            seconds=round(time.monotonic() - self.began, 3),
            peak_rss_mb=peak_rss_mb(),
            failure=ending.failure,
            step=ending.step,
            total_steps=ending.total_steps,
            adapter=ending.adapter,
            answers=ending.answers,
            answers_sha256=ending.answers_sha256,
            scores=dict(ending.scores),
        )


def take(volume: Path, keys: AttemptKeys, *, machine: str, number: int, rank: int = 0) -> Attempt | None:
    """The attempt, or None where another process holds it or where it has ended already."""
    outputs = _outputs(volume, keys, rank)
    outputs.mkdir(parents=True, exist_ok=True)
    lock = os.open(outputs / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    if (volume / keys.outputs / RESULT).exists():
        os.close(lock)
        return None
    if rank:
        # Of an earlier start on this machine, which the first process goes on from.
        (outputs / RESULT).unlink(missing_ok=True)
        (outputs / STATUS).unlink(missing_ok=True)
    (outputs / RESERVE).write_bytes(os.urandom(RESERVED_BYTES))
    boot = _boots_before(outputs / BOOT) + 1
    _write_boot(outputs / BOOT, Boot(machine, number, boot, os.getpid(), _own_start_time(), _host_boot(), now()))
    return Attempt(volume, keys, machine, number, boot, time.monotonic(), lock, rank)


def _outputs(volume: Path, keys: AttemptKeys, rank: int) -> Path:
    folder = volume / keys.outputs
    return folder / RANKS / str(rank) if rank else folder


def peak_rss_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _boots_before(path: Path) -> int:
    try:
        return load(Boot, path.read_text()).boot
    except (FileNotFoundError, ValueError, TypeError):
        return 0


def _write_boot(path: Path, boot: Boot) -> None:
    write_file(path, dump(boot))


def _own_start_time() -> str:
    """Field 22 of the stat line; the command in field 2 may hold spaces, so fields are counted after its bracket."""
    line = Path(f"/proc/{os.getpid()}/stat").read_text()
    return line.rpartition(")")[2].split()[19]


def _host_boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
