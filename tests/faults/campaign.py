"""Many histories, side by side in processes of their own: which promises were broken, by which seeds, and how long it took."""

from __future__ import annotations

import logging
import multiprocessing
import random
import time
import traceback
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from tests.faults.history import History
from tests.faults.invariants import Broken
from tests.faults.mutants import planted
from tests.faults.site import open_site

LENGTHS = (6, 10, 16)
"""Things that happen in one history."""


@dataclass(frozen=True, slots=True)
class Found:
    seed: int
    promise: str
    """Empty where every promise was kept."""
    words: str
    log: Sequence[str]
    seconds: float
    faults: int
    """That struck."""
    ends: Sequence[str] = ()
    """The states in which the runs ended."""


def live(seed: int, mutant: str | None = None) -> Found:
    """One history."""
    draw, began = random.Random(seed), time.process_time()
    promise = words = ""
    log: list[str] = []
    struck, ends = 0, []
    with planted(mutant), open_site() as site:
        history = History(site, draw)
        log = history.log
        jobs_log = logging.getLogger("jobs")
        jobs_log.addHandler(history.watch.surprises)
        try:
            history.live(draw.choice(LENGTHS))
        except Broken as broken:
            promise, _, words = str(broken).partition(": ")
        except Exception as error:
            promise, words = "no_surprise", f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        finally:
            jobs_log.removeHandler(history.watch.surprises)
            struck = len(site.account.faults.fired)
            ends = [site.console.run(run_id).state.value for run_id in history.runs]
    return Found(seed, promise, words, log, time.process_time() - began, struck, ends)


def campaign(seeds: Sequence[int], workers: int, mutant: str | None = None) -> Generator[Found, None, None]:
    if workers == 1:
        yield from (live(seed, mutant) for seed in seeds)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, initializer=quiet, maxtasksperchild=200) as pool:
        yield from pool.imap_unordered(_live_one, [(seed, mutant) for seed in seeds], chunksize=1)


def quiet() -> None:
    """A history is full of failures: what matters is what they lead to."""
    logging.getLogger().addHandler(logging.NullHandler())
    logging.lastResort = None


def _live_one(given: tuple[int, str | None]) -> Found:
    return live(*given)
