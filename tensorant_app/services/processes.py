"""Parts of one work done by several processes: answers in order, and only a few parts under way at a time; and what one may take."""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import resource
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tensorant_app.domain.file_kinds import MEMORY_LIMIT

Done = TypeVar("Done")

WORKERS = min(2, os.cpu_count() or 1)
_WAITING = 3 * WORKERS
"""Parts under way: so many that no worker waits, so few that memory stays bounded."""
_LOOK_SECONDS = 1.0


def in_processes(calls: Iterable[Callable[[], Done]]) -> Iterator[Done]:
    """Each call's answer. What a call needs is handed over with it, or known to this process by now.

    A worker that dies, mostly for want of memory, is a `MemoryError`.
    """
    waiting: deque[Future[Done]] = deque()
    with ProcessPoolExecutor(
        WORKERS, multiprocessing.get_context("fork"), initializer=_begin, initargs=(os.getpid(),)
    ) as pool:
        try:
            for call in calls:
                waiting.append(pool.submit(call))
                while len(waiting) > _WAITING:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise MemoryError from error
        finally:
            pool.shutdown(cancel_futures=True)


def limit_memory() -> None:
    """Beyond it, the reading ends with a refusal instead of a computer without memory."""
    _limit_to(MEMORY_LIMIT)


@contextmanager
def limited_memory() -> Iterator[None]:
    """The same for a while, and on top of what this process has by now."""
    before = resource.getrlimit(resource.RLIMIT_DATA)[0]
    _limit_to(MEMORY_LIMIT + _data_held())
    try:
        yield
    finally:
        _limit_to(before)


def _data_held() -> int:
    """Bytes, as the limit counts them; 0 where the system does not say, and sets no such limit either."""
    told = Path("/proc/self/status")
    found = re.search(r"^VmData:\s+(\d+) kB$", told.read_text(), re.MULTILINE) if told.exists() else None
    return int(found[1]) * 1024 if found else 0


def _limit_to(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (size, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _begin(parent: int) -> None:
    """A worker's first act. Killed parents close no pipe that both workers hold, so each looks for itself."""
    gc.disable()  # what the collector looks for, the reading never makes
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)
