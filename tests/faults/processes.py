"""Histories in real time: an emulated provider on real ports, real worker processes, and kill -9 whenever the seed says so."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from datetime import timedelta
from multiprocessing.process import BaseProcess
from typing import Any

from sqlmodel import select

from tensorant_app.db import session as session_module
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.promise import Promise
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import TensorantError
from tensorant_app.domain.machines import HOLDS_SLOT, MachineState
from tensorant_app.domain.runs import RunState
from tensorant_app.services import runs
from tests.faults.boundary import Boundary
from tests.faults.campaign import Found, quiet
from tests.faults.console import fast_folder, open_console
from tests.faults.history import History
from tests.faults.invariants import Broken, Watch, require
from tests.faults.site import EVERY, STEPS, Site
from tests.faults.worker import work
from tests.runpod_emulator import Emulator, EmulatorTransport, Fault, RealClock, Script
from tests.runpod_emulator.pods import Pace

_WORKERS = 2
_MOST_SECONDS = 780
"""A machine that was cancelled before its container was up is proved gone ten minutes after its create call."""
_KILLS = (0.3, 4.0)
"""Seconds between two kills."""
_TROUBLE_SECONDS = 30
_LOOK_SECONDS = 2
_LOST_AFTER = timedelta(seconds=90)
"""Longer than any lease: whoever was to make that call is dead."""
_FAULTS = (
    Fault.ANSWER_LOST,
    Fault.ERROR_AFTER,
    Fault.HTML,
    Fault.RATE_LIMITED,
    Fault.DELETE_REFUSED,
    Fault.S3_BAD_GATEWAY,
    Fault.S3_LOST,
    Fault.HIDDEN,
)


class Workers:
    """Worker processes of one installation; one that is killed is started again.

    They are forked from a process that has imported everything and run nothing, so that a kill meets a worker
    at its work rather than at its imports.
    """

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.faults.__main__", "tests.faults.worker"])
        self._alive = [self._start() for _ in range(_WORKERS)]

    def kill_one(self, draw: random.Random) -> None:
        n = draw.randrange(_WORKERS)
        self._alive[n].kill()
        self._alive[n].join()
        self._alive[n] = self._start()

    def end(self) -> None:
        for process in self._alive:
            process.kill()
            process.join()

    def _start(self) -> BaseProcess:
        process = self._context.Process(target=work, args=(dict(os.environ),), daemon=True)
        process.start()
        return process


@contextmanager
def in_real_time(seeds: Sequence[int], side_by_side: int) -> Iterator[Iterator[Found]]:
    """They begin at once; as each ends, what was found. Most of their time they wait."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(side_by_side, context, initializer=quiet) as pool:
        asked = [pool.submit(live, seed) for seed in seeds]
        yield (done.result() for done in as_completed(asked))


def live(seed: int) -> Found:
    """Launch, cancel or let finish, with both workers killed again and again; then everything must be as promised."""
    draw, began = random.Random(seed), time.monotonic()
    promise = words = ""
    log: list[str] = []
    ends: list[str] = []
    with _open(draw) as site:
        history, workers = History(site, draw), Workers()
        try:
            log, watch = history.log, history.watch
            _trouble(history, workers, draw)
            _wait(history, watch)
            watch.everybody_can_act()
            watch.finish(sought=_sought(history))
            ends = [site.console.run(run_id).state.value for run_id in history.runs]
        except Broken as broken:
            promise, _, words = str(broken).partition(": ")
        except Exception as error:
            promise, words = "no_surprise", f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        finally:
            workers.end()
            struck = [fault.name for fault, _, _ in site.account.faults.fired]
    return Found(seed, promise, words, log, time.monotonic() - began, struck, ends)


def _trouble(history: History, workers: Workers, draw: random.Random) -> None:
    """Two runs, some faults, and kills for most of a minute; then the kills end and the faults are healed."""
    site, until = history.site, time.monotonic() + _TROUBLE_SECONDS
    for fault in draw.sample(_FAULTS, 3):
        site.account.faults.arm(fault, skip=draw.randrange(2))
        history.log.append(f"armed {fault.name}")
    for evaluates in (False, draw.random() < 0.5):
        run_id = site.console.draft(hours=2.0)
        history.runs.append(run_id)
        _when_it_may(lambda run_id=run_id, evaluates=evaluates: site.console.launch(run_id, evaluates=evaluates))  # type: ignore[misc]
    cancels_at = draw.uniform(5, 2 * _TROUBLE_SECONDS)
    while time.monotonic() < until:
        time.sleep(draw.uniform(*_KILLS))
        workers.kill_one(draw)
        history.log.append(f"{site.clock():%H:%M:%S} killed a worker")
        _launch_again(history)
        if until - time.monotonic() < cancels_at and draw.random() < 0.2:
            _cancel(history, draw)
    site.account.faults.clear()


def _cancel(history: History, draw: random.Random) -> None:
    run_id = draw.choice(history.runs)
    with suppress(TensorantError), unit_of_work() as session:  # It may have ended.
        runs.cancel_run(session, history.site.console.caller, run_id)
        history.log.append(f"cancelled {run_id}")


def _launch_again(history: History) -> bool:
    """As a person does whose run came back from its checks; whether there was one."""
    drafts = [run_id for run_id in history.runs if history.site.console.run(run_id).state is RunState.DRAFT]
    for run_id in drafts:
        with suppress(TensorantError):  # A connection is still being checked.
            history.site.console.launch(run_id, evaluates=False)
            history.log.append(f"launched {run_id} again")
    return bool(drafts)


def _when_it_may(launch: Any) -> None:
    """The connections are being checked first."""
    give_up_at = time.monotonic() + 60
    while True:
        try:
            launch()
        except TensorantError:
            require(time.monotonic() < give_up_at, "can_act", "a run could not be launched")
            time.sleep(0.5)
        else:
            return


def _wait(history: History, watch: Watch) -> None:
    give_up_at = time.monotonic() + _MOST_SECONDS
    while not _is_over(history) or _launch_again(history):
        require(time.monotonic() < give_up_at, "can_act", f"never came to an end: {_states(history)}")
        watch.look(is_settled=False)
        time.sleep(_LOOK_SECONDS)


def _is_over(history: History) -> bool:
    """Also where a worker died with the create call in its hands: for ten minutes that machine is only looked for."""
    sought = _sought(history)
    held = {row.name for row in history.machines(*HOLDS_SLOT)}
    return history.is_quiet() or bool(sought and held == sought)


def _sought(history: History) -> set[str]:
    """Names that the provider was never asked for, as only it knows."""
    arrived = {asking.name for asking in history.site.account.asked}
    asked = [row for row in history.machines(MachineState.ASKED) if row.ask_sent_at is not None]
    long_ago = history.site.clock() - _LOST_AFTER
    return {row.name for row in asked if row.name not in arrived and row.ask_sent_at < long_ago}


def _states(history: History) -> list[str]:
    with reading() as session:
        rows = [*session.exec(select(Run)), *session.exec(select(Evaluation)), *session.exec(select(Machine))]
        kept = session.exec(select(Promise)).all()
    due = [f"{row.kind} {row.subject_id} due {row.due_at:%H:%M:%S}, {row.reason or 'no trouble'}" for row in kept]
    return [f"{type(row).__name__} {row.id} {row.state} {row.sentence or ''}" for row in rows] + due


@contextmanager
def _open(draw: random.Random) -> Iterator[Site]:
    folder = fast_folder()
    script = Script(prepare=2, steps=STEPS, step=1, checkpoint_every=EVERY, package=1, answer=2)
    pace = Pace(provision=1, pull=2, settle=1)
    emulator = Emulator(folder / "provider", clock=RealClock(), start=script.start, pace=pace)
    try:
        with emulator:
            urls = {
                "TENSORANT_RUNPOD_API_URL": emulator.api_url.removesuffix("/v2"),
                "TENSORANT_RUNPOD_S3_URL": emulator.s3_url,
            }
            # This process asks the provider nothing: its workers do, over the real ports.
            nobody = EmulatorTransport(emulator.world)
            with open_console(folder, RealClock(), nobody, _no_volume, settings=urls) as console:
                site = Site(console, emulator.world, emulator.account, script, Boundary())
                site.save_connections()
                yield site
                session_module.dispose()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _no_volume(*given: str) -> Any:
    raise AssertionError("Only the workers read the volume.")
