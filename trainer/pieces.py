"""Work on many rows in a process for each core: results in order, and only a few pieces under way at a time."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import TypeVar

Piece = TypeVar("Piece")
Done = TypeVar("Done")

WORTH_A_PROCESS = 2_000
"""Below this many rows a second process costs more than it gives."""


def in_processes(work: Callable[[Piece], Done], pieces: Iterable[Piece], *, rows: int) -> Iterator[Done]:
    """`work` is a function of a module; what the module holds by now, such as a tokenizer, its processes inherit."""
    workers = len(os.sched_getaffinity(0))
    if workers == 1 or rows < WORTH_A_PROCESS:
        yield from map(work, pieces)
        return
    waiting: deque[Future[Done]] = deque()
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
        try:
            for piece in pieces:
                waiting.append(pool.submit(work, piece))
                while len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
