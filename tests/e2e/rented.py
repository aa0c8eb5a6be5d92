"""A whole console beside an emulated RunPod on one clock that a test moves on: real processes, real requests, real files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from tensorant_app import routes
from tensorant_app.db.session import dispose, reading, unit_of_work
from tensorant_app.domain.connections import ConnectionState
from tensorant_app.domain.runs import RunState
from tensorant_app.services import connecting, offers
from tensorant_app.settings import get_settings
from tests.e2e.conftest import Stack
from tests.factories import BASE, REVISION
from tests.faults.console import Console, fast_folder, open_console
from tests.faults.site import ACCESS_KEY, API_KEY, DATA_CENTER, SECRET_KEY, VOLUME
from tests.later import AHEAD, Later, rest_of
from tests.people import sign_in
from tests.plain_base import make_plain_base, weights
from tests.ports import free_port
from tests.runpod_emulator import Emulator, EmulatorTransport, Script
from tests.runpod_emulator.demo import passing_time
from tests.runpod_emulator.pods import Pace

LAYER = "model.layers.0.self_attn.q_proj"
"""The base's one linear layer, of 64 x 64."""
_LONGEST_LEAP = timedelta(seconds=15)
_REAL_SECONDS = 90


@dataclass(frozen=True)
class Site:
    """What a journey is walked on."""

    console: Console
    emulator: Emulator
    clock: Later
    stack: Stack
    cookie: tuple[str, str]

    def train_like(self, **script: Any) -> None:
        """How every Pod that is rented from now on goes about its work; in half a minute unless told otherwise."""
        quick = {"prepare": 5, "steps": 3, "step": 5, "checkpoint_every": 1, "package": 5, "answer": 5}
        book = Script(**(quick | script))
        self.emulator.world.start = book.start

    def path(self, run_id: UUID) -> str:
        return routes.run(self.console.run(run_id).project_id, run_id)

    def pass_time(self, *, seconds: float = 0, minutes: float = 0) -> None:
        """The clocks of console and provider, in one leap."""
        self.clock.advance(seconds + 60 * minutes)
        self.emulator.world.tick()

    def live_until(self, is_so: Callable[[], bool]) -> None:
        """Time flies whenever the console only waits, and stands while it works."""
        give_up_at = time.monotonic() + _REAL_SECONDS
        while not is_so():
            assert time.monotonic() < give_up_at, "It did not come true in time."
            rest = rest_of(self.clock)
            if rest > timedelta(0):
                self.pass_time(seconds=min(rest, _LONGEST_LEAP).total_seconds())
            time.sleep(0.1)

    def live_until_state(self, run_id: UUID, *states: RunState) -> None:
        self.live_until(lambda: self.console.run(run_id).state in states)


@contextmanager
def open_site() -> Iterator[Site]:
    """Connected, with a catalog, and its owner signed in."""
    folder = fast_folder()
    clock = Later(folder / "ahead")
    clock.path.write_text("0")
    pace = Pace(provision=2, pull=4, settle=1, linger=0, billing_lag=600)
    emulator = Emulator(folder / "provider", clock=clock, pace=pace)
    try:
        with emulator, passing_time(emulator), _console(folder, clock, emulator) as console:
            stack = _start(folder, clock)
            try:
                stack.wait_until_open()
                console.save_key(API_KEY)
                console.save_volume(ACCESS_KEY, SECRET_KEY, DATA_CENTER, VOLUME)
                with unit_of_work() as session:
                    offers.refresh_offers(session, console.caller, 1)
                name, _, token = sign_in(console.caller.name).partition("=")
                site = Site(console, emulator, clock, stack, (name, token))
                site.train_like()
                site.live_until(lambda: _is_connected(console))
                yield site
            finally:
                stack.process.terminate()
                stack.process.wait(60)
                dispose()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _console(folder: Path, clock: Later, emulator: Emulator) -> Iterator[Console]:
    """The rows that a run needs, written by this process; everything else is done by the console's own."""
    settings = {
        "TENSORANT_RUNPOD_API_URL": emulator.api_url.removesuffix("/v2"),
        "TENSORANT_RUNPOD_S3_URL": emulator.s3_url,
        "TENSORANT_PORT": str(free_port()),
        # What its image holds, for Pods without a network volume.
        "TENSORANT_TRAINER_BASES": f"{BASE}@{REVISION}",
    }
    with open_console(folder, clock, EmulatorTransport(emulator.world), _no_volume, settings=settings) as console:
        known = {"model.safetensors": weights({f"{LAYER}.weight": [64, 64], "lm_head.weight": [100, 64]})}
        make_plain_base(get_settings().bases_dir / "tiny", extra=known)
        yield console


def _start(folder: Path, clock: Later) -> Stack:
    settings = get_settings()
    with (folder / "stack.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.later", "up"],
            env={**os.environ, AHEAD: str(clock.path)},
            stdout=log,
            stderr=log,
            text=True,
        )
    return Stack(process, settings.data_dir, settings.port, {})


def _is_connected(console: Console) -> bool:
    with reading() as session:
        views = connecting.list_connections(session, console.caller)
        assert console.caller.organization_id is not None
        catalog = offers.catalog_of(session, console.caller.organization_id, 1)
    return bool(catalog and catalog.offers) and all(view.state is ConnectionState.OK for view in views)


def _no_volume(*given: str) -> Any:
    raise AssertionError("Only the console's own processes read the volume.")
