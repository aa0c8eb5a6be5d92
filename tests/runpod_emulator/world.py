"""The provider whole: accounts, their keys and volumes, one clock. No socket, no thread: whoever has it may call it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tests.runpod_emulator.account import Account
from tests.runpod_emulator.catalog import Catalog
from tests.runpod_emulator.clock import Clock, VirtualClock
from tests.runpod_emulator.keys import Key
from tests.runpod_emulator.pods import Pace
from tests.runpod_emulator.rates import RateLimit
from tests.runpod_emulator.things import Volume
from tests.runpod_emulator.wire import ApiError
from tests.runpod_emulator.workers import Container, Idle, Start, Worker

HOME = "EU-RO-1"
"""Where an account's first volume lies."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request that arrived, in the order of arrival."""

    at: datetime
    account: str
    operation: str
    name: str | None
    """The Pod's name, or the key of a file."""
    status: int
    """As it was carried out; a fault may have answered otherwise."""
    request_id: str


class World:
    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        start: Start = Idle,
        pace: Pace | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        self.clock: Clock = clock or VirtualClock()
        self.folder = folder
        self.start = start
        self.pace = pace or Pace()
        self.catalog = catalog or Catalog()
        self.rates = RateLimit()
        self.accounts: dict[str, Account] = {}
        self.calls: list[Call] = []
        self.api_url = "https://api.runpod.io/v2"
        self.lock = threading.RLock()
        self.checks_answers = True
        """Hold every answer against our shapes; a benchmark may do without."""
        self.wait: Callable[[], bool] = lambda: False
        """Waits a moment for news of a log stream; False when none can come any more."""

    def add_account(self, *, volume_gb: int | None = 100, dc: str = HOME) -> Account:
        """A new account with a key for everything, an S3 key and (unless None) a volume."""
        number = len(self.accounts) + 1
        account = Account(
            id=f"user_{number}",
            clock=self.clock,
            catalog=self.catalog,
            pace=self.pace,
            folder=self.folder / f"account-{number}",
            start=self._start_worker,
            api_url=self.api_url,
            lock=self.lock,
        )
        self.accounts[account.id] = account
        self.add_key(account, Key(f"rpa_emulator_{number}"))
        account.s3_keys[f"user_emulator_{number}"] = f"rps_emulator_{number}"
        if volume_gb is not None:
            account.things.add_volume({"name": "training", "size": volume_gb, "dataCenter": dc}, f"volume{number}")
        return account

    def add_key(self, account: Account, key: Key) -> Key:
        account.keys[key.token] = key
        return key

    def tick(self) -> None:
        """Bring everything to the present. Requests do it by themselves; call it after moving the clock."""
        with self.lock:
            for account in self.accounts.values():
                account.tick()

    def log_in(self, token: str) -> tuple[Account, Key]:
        account = next((account for account in self.accounts.values() if token in account.keys), None)
        if account is None or account.is_locked_out():
            raise ApiError(401, "invalid bearer token")
        return account, account.keys[token]

    def owner_of(self, access_key: str) -> Account | None:
        return next((account for account in self.accounts.values() if access_key in account.s3_keys), None)

    def close(self) -> None:
        """End every container's program."""
        with self.lock:
            for account in self.accounts.values():
                for pod in account.alive():
                    pod.vanish(self.clock())

    def _start_worker(self, container: Container, at: datetime) -> Worker:
        """Looked up late, so that a test may change what Pods run."""
        return self.start(container, at)


def volume_of(account: Account) -> Volume:
    """The account's first volume."""
    return account.things.volumes()[0]


def minutes(clock: Clock, count: float, each: float = 10) -> Iterator[datetime]:
    """Move a virtual clock on, a few seconds at a time."""
    until = clock() + timedelta(minutes=count)
    while clock() < until:
        clock.sleep(each)
        yield clock()
