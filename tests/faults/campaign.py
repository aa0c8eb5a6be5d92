"""Many histories, side by side in processes of their own: which promises were broken, by which seeds, and how long it took."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import random
import time
import traceback
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.faults.console import time_zone
from tests.faults.history import History
from tests.faults.invariants import Broken
from tests.faults.mutants import planted
from tests.faults.site import Site, open_site
from tests.runpod_emulator.clock import START
from trainer.errors import TrainerError

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
    faults: Sequence[str]
    """Those that struck."""
    ends: Sequence[str] = ()
    """The states in which the runs ended."""


@dataclass(frozen=True, slots=True)
class Scene:
    """When and where a history happens, and what its trainers are like."""

    at: datetime
    time_zone: str | None
    script: Mapping[str, Any]
    has_volume: bool

    @classmethod
    def drawn(cls, draw: random.Random) -> Scene:
        at, zone = draw.choice([(START, None), (START, None), (_NIGHT_OF_CLOCKS, "Europe/Berlin")])
        script = draw.choices(list(_TRAINERS), list(_TRAINERS.values()))[0].values
        return cls(at, zone, script, draw.random() < _WITH_VOLUME)

    def __str__(self) -> str:
        when = f"{self.at:%Y-%m-%d %H:%M} in {self.time_zone or 'UTC'}, trainers: {dict(self.script) or 'good ones'}"
        return when if self.has_volume else f"{when}, no network volume"


@dataclass(frozen=True, slots=True)
class _Trainers:
    name: str
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)


_WITH_VOLUME = 0.85
_NIGHT_OF_CLOCKS = datetime(2026, 10, 25, 0, 20, tzinfo=UTC)
"""Forty minutes before the clocks of Berlin go back."""
_TRAINERS = {
    _Trainers("good"): 6,
    # A container whose program ends, and is started again: what is finished must stay so.
    _Trainers("end with their work", {"exits": True}): 1.5,
    _Trainers("delete themselves", {"self_release": 90.0}): 1,
    _Trainers("hear nothing", {"is_deaf": True}): 0.7,
    # Its checkpoints were larger than the volume.
    _Trainers("find the disk full", {"failure": TrainerError("disk_full", path="checkpoint-4").failure}): 0.7,
}


def _open(scene: Scene) -> AbstractContextManager[Site]:
    return open_site(at=scene.at, has_volume=scene.has_volume, **scene.script)


def live(seed: int, mutant: str | None = None) -> Found:
    """One history."""
    draw, began = random.Random(seed), time.process_time()
    scene = Scene.drawn(random.Random(f"scene of {seed}"))
    promise = words = ""
    log: list[str] = []
    struck: list[str] = []
    ends: list[str] = []
    with planted(mutant), time_zone(scene.time_zone), _open(scene) as site:
        history = History(site, draw)
        log = history.log
        log.append(str(scene))
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
            struck = [fault.name for fault, _, _ in site.account.faults.fired]
            ends = [site.console.run(run_id).state.value for run_id in history.runs]
    return Found(seed, promise, words, log, time.process_time() - began, struck, ends)


def campaign(
    seeds: Sequence[int], workers: int, mutant: str | None = None, *, gives_way: bool = False
) -> Generator[Found, None, None]:
    """In `workers` processes, which give way to others where others wait for real time."""
    if workers == 1:
        yield from (live(seed, mutant) for seed in seeds)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, _begin, (gives_way,), maxtasksperchild=500) as pool:
        yield from pool.imap_unordered(_live_one, [(seed, mutant) for seed in seeds], chunksize=1)


def quiet() -> None:
    """A history is full of failures: what matters is what they lead to."""
    logging.getLogger().addHandler(logging.NullHandler())
    logging.lastResort = None


def _begin(gives_way: bool) -> None:
    quiet()
    gc.freeze()  # What was imported stays, and need not be looked through again and again.
    if gives_way:
        os.nice(3)


def _live_one(given: tuple[int, str | None]) -> Found:
    return live(*given)
