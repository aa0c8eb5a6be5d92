"""Console and provider on one virtual clock: what a history happens to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tensorant_app.db import session as session_module
from tensorant_app.providers.base import FileStore
from tensorant_app.providers.s3 import make_client
from tensorant_app.providers.storage_s3 import S3Store
from tensorant_app.settings import get_settings
from tests import factories
from tests.faults.boundary import Boundary
from tests.faults.console import Console, fast_folder, open_console
from tests.runpod_emulator import Account, EmulatorTransport, Script, VirtualClock, World, attach_s3
from tests.runpod_emulator.clock import START
from tests.runpod_emulator.world import volume_of

STEPS, EVERY = 6, 2
API_KEY, ACCESS_KEY, SECRET_KEY = "rpa_emulator_1", "user_emulator_1", "rps_emulator_1"
DATA_CENTER, VOLUME = "EU-RO-1", "volume1"


class Site:
    """One installation, one account, and everything that is known only to the provider."""

    def __init__(self, console: Console, world: World, account: Account, script: Script, boundary: Boundary) -> None:
        self.console, self.world, self.account, self.script, self.boundary = console, world, account, script, boundary
        self.has_volume = True
        """Without one each machine keeps its files on a disk of its own."""
        self.skew = timedelta(0)
        """How far the console's clock is ahead of the provider's."""

    @property
    def clock(self) -> VirtualClock:
        return cast(VirtualClock, self.world.clock)

    @property
    def volume(self) -> Path:
        return volume_of(self.account).folder

    def now(self) -> datetime:
        return self.clock() + self.skew

    def save_connections(self) -> None:
        self.console.save_key(API_KEY)
        if self.has_volume:
            self.console.save_volume(ACCESS_KEY, SECRET_KEY, DATA_CENTER, VOLUME)

    def connect(self) -> None:
        self.save_connections()
        self.console.restart()
        self.pass_time(2)

    def pass_time(self, seconds: float) -> None:
        """The worker was away for so long, and now does what is due."""
        self.clock.advance(seconds=seconds)
        self.world.tick()
        self.console.work()

    def reopen_database(self) -> None:
        """The database was restarted: every connection is new."""
        session_module.dispose()


@contextmanager
def open_site(*, at: datetime = START, has_volume: bool = True, **script: Any) -> Iterator[Site]:
    """A site in a folder of its own, connected and with a catalog, at that time; the folder is gone after."""
    folder = fast_folder()
    boundary = Boundary()
    book = Script(**({"prepare": 20, "steps": STEPS, "checkpoint_every": EVERY, "package": 10, "answer": 20} | script))
    world = World(folder / "provider", clock=VirtualClock(at), start=book.start)
    account = world.add_account()
    _here.world, _here.boundary = world, boundary
    transport = boundary.over(EmulatorTransport(world))
    found: list[Site] = []
    # Without a volume the base model is in the image.
    settings = {} if has_volume else {"TENSORANT_TRAINER_BASES": f"{factories.BASE}@{factories.REVISION}"}
    try:
        now = lambda: found[0].now() if found else world.clock()  # noqa: E731
        opened = open_console(folder, now, transport, _open_volume, settings=settings)
        with opened as console, boundary.watching_commits():
            found.append(Site(console, world, account, book, boundary))
            found[0].has_volume = has_volume
            found[0].connect()
            yield found[0]
    finally:
        world.close()
        shutil.rmtree(folder, ignore_errors=True)


_here: Any = SimpleNamespace(world=None, boundary=None)
"""The world and boundary of the site that is open now: one S3 client serves them all, for making one takes 50 ms."""


class _Present:
    """Stands for whichever world is open."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_here.world, name)


def _open_volume(access_key: str, secret_key: str, data_center: str, volume_id: str) -> FileStore:
    client = _client(access_key, secret_key, data_center)
    cache = get_settings().data_dir / "cache" / volume_id
    return S3Store(volume_id, client, cache, wait=lambda seconds: _here.world.clock.sleep(seconds))


@lru_cache(maxsize=4)
def _client(access_key: str, secret_key: str, data_center: str) -> Any:
    import botocore.endpoint  # type: ignore[import-untyped]

    url = f"https://s3api-{data_center.lower()}.runpod.io"
    # Not the shared one: its hook belongs here alone. Waiting between its own tries moves the virtual clock.
    client = make_client.__wrapped__(url, data_center, access_key, secret_key, is_patient=False)
    botocore.endpoint.time = SimpleNamespace(sleep=lambda seconds: _here.world.clock.sleep(seconds))
    attach_s3(client, cast(World, _Present()))
    client.meta.events.register_first("before-send.s3", _cross)
    return client


def _cross(**_: Any) -> None:
    _here.boundary.cross()
