"""Several processes of one attempt, one for each GPU: every other one has a folder of its own, and the first answers for all."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trainer.attempt import Attempt, Ending
from trainer.contract import BOOT, RANKS, RESULT, STATUS, Boot, Failure, Outcome, Result, load
from trainer.errors import TrainerError

SILENT = 30.0
"""Seconds without a heartbeat after which another process is taken for lost."""
_DYING = 3.0
"""Seconds: the connections of a killed process are closed before the system calls it dead."""
_COLLATERAL = frozenset({"crashed"})
"""What a process says whose neighbour ended in the middle of their common work."""


def rank_and_size() -> tuple[int, int]:
    """This process among those that `torchrun` started; the first of one without it."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def spread(processes: int, arguments: Sequence[str]) -> None:
    """Become `torchrun` with so many processes; does not return. It ends them all as soon as one of them fails."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "--max-restarts=0"]
    os.execv(sys.executable, [sys.executable, "-W", "ignore", *torchrun, "-m", "trainer", *arguments])


def lost_rank(attempt: Attempt, size: int) -> Failure | None:
    """Why another process of this attempt can no longer take part; None while all are heard.

    Of several, one that was not merely cut off by the end of another.
    """
    found = [failure for rank in range(1, size) if (failure := _why_lost(attempt, rank, size)) is not None]
    return min(found, key=_is_collateral, default=None)


def answer_for_all(attempt: Attempt, ending: Ending, size: int) -> Ending:
    """The first process's own ending, unless it only ended because another one had."""
    is_cut_off = _is_collateral(ending.failure)
    if ending.outcome is not Outcome.STOPPED and not is_cut_off:
        return ending
    failure = lost_rank(attempt, size)
    gives_up_at = time.monotonic() + _DYING
    while is_cut_off and size > 1 and (failure is None or _is_collateral(failure)) and time.monotonic() < gives_up_at:
        time.sleep(0.05)
        failure = lost_rank(attempt, size)
    if failure is None or (is_cut_off and _is_collateral(failure)):
        return ending
    return replace(ending, outcome=Outcome.FAILED, failure=failure)


def _is_collateral(failure: Failure | None) -> bool:
    return failure is not None and failure.code in _COLLATERAL


def _why_lost(attempt: Attempt, rank: int, size: int) -> Failure | None:
    folder = attempt.shared / RANKS / str(rank)
    ended = _result_of(folder / RESULT)
    if ended is not None and ended.failure is not None:
        return replace(ended.failure, message=f"On GPU {rank + 1} of {size}: {ended.failure.message}")
    if ended is None and (_has_died(folder / BOOT) or _silence(folder / STATUS) > SILENT):
        return TrainerError("rank_lost", rank=rank + 1, size=size).failure
    return None


def _result_of(path: Path) -> Result | None:
    try:
        return load(Result, path.read_text())
    except (OSError, ValueError, TypeError):
        return None


def _has_died(path: Path) -> bool:
    """Whether the very process that wrote its boot is no more; all of them are on this machine."""
    try:
        boot = load(Boot, path.read_text())
    except (OSError, ValueError, TypeError):
        return False  # it has not begun yet
    try:
        fields = Path(f"/proc/{boot.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return True
    return fields[0] == "Z" or fields[19] != boot.pid_started


def _silence(path: Path) -> float:
    """Seconds since its last heartbeat; one that has not begun yet is not silent."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
