"""Parts of one work done by several processes: answers in order, and only a few parts under way at a time."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

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


def _begin(parent: int) -> None:
    """A worker's first act. Killed parents close no pipe that both workers hold, so each looks for itself."""
    gc.disable()  # what the collector looks for, the reading never makes
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)
