"""The emulator as tests use it: one world, one account, and two ports while it is open."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from types import TracebackType

import httpx

from tests.runpod_emulator.account import Account
from tests.runpod_emulator.catalog import Catalog
from tests.runpod_emulator.clock import Clock
from tests.runpod_emulator.faults import Faults
from tests.runpod_emulator.pods import Pace, Pod
from tests.runpod_emulator.server import Server
from tests.runpod_emulator.things import Volume
from tests.runpod_emulator.transport import EmulatorTransport
from tests.runpod_emulator.workers import Idle, Start
from tests.runpod_emulator.world import World, volume_of


class Emulator:
    """`with Emulator(tmp_path) as e:` serves on 127.0.0.1; without `with`, `e.transport()` needs no socket."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        start: Start = Idle,
        pace: Pace | None = None,
        catalog: Catalog | None = None,
        ports: tuple[int, int] = (0, 0),
    ) -> None:
        self.world = World(folder, clock=clock, start=start, pace=pace, catalog=catalog)
        self.account: Account = self.world.add_account()
        self._ports = ports
        self._server: Server | None = None

    def __enter__(self) -> Emulator:
        self._server = Server(self.world, api_port=self._ports[0], s3_port=self._ports[1])
        for account in self.world.accounts.values():
            account.api_url = self._server.api_url
        self.world.api_url = self._server.api_url
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.world.close()
        if self._server:
            self._server.close()

    @property
    def api_url(self) -> str:
        return self.world.api_url

    @property
    def s3_url(self) -> str:
        return self._server.s3_url if self._server else "https://s3.emulator.invalid"

    @property
    def key(self) -> str:
        """An API key that may do everything."""
        return next(iter(self.account.keys))

    @property
    def s3_keys(self) -> tuple[str, str]:
        """Access key and secret."""
        return next(iter(self.account.s3_keys.items()))

    @property
    def clock(self) -> Clock:
        return self.world.clock

    @property
    def faults(self) -> Faults:
        return self.account.faults

    @property
    def pods(self) -> dict[str, Pod]:
        """Every Pod there ever was, by id."""
        return self.account.pods

    @property
    def volume(self) -> Volume:
        return volume_of(self.account)

    def bill(self, pod: Pod | str | None = None) -> Decimal:
        return self.account.bill(pod)

    def transport(self) -> EmulatorTransport:
        return EmulatorTransport(self.world)

    def client(self) -> httpx.Client:
        """In process, signed with the account's key."""
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.api_url, transport=self.transport(), headers=headers)
