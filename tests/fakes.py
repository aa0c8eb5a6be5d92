"""Fakes, one per protocol, with hooks to misbehave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tensorant_app.domain.machines import RENTED, Presence, ProofRules, Sighting
from tensorant_app.domain.money import HourlyRate
from tensorant_app.providers.base import (
    BillLine,
    Listed,
    LogLine,
    MachineRequest,
    NetworkVolume,
    Offer,
    Rented,
    Stock,
    sight,
)

INSTALLATION = "fake-installation"
RATE = HourlyRate.dollars("1.50")
GIB = 1024**3


def nothing(request: MachineRequest) -> None:
    pass


@dataclass
class FakeProvider:
    """Machines in a dictionary. `before_create` and `after_create` may raise: the call or its answer is lost."""

    rules: ProofRules = RENTED
    free: bool = False
    pause: timedelta = timedelta(0)
    asked: list[str] = field(default_factory=list)
    """Every create call that reached the provider."""
    requests: list[MachineRequest] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    """Names and ids, each time that a delete was asked for."""
    machines: dict[str, Presence] = field(default_factory=dict)
    twins: list[Listed] = field(default_factory=list)
    """Further machines of the account: of the same name, or a stranger's."""
    rate: HourlyRate = RATE
    """What a machine of it really costs."""
    stock: Stock = Stock.HIGH
    troubles: list[str] = field(default_factory=list)
    disks: list[NetworkVolume] = field(default_factory=list)
    types: list[Offer] = field(default_factory=list)
    """What it offers; one fake type where nothing is put in."""
    lines: list[LogLine] = field(default_factory=list)
    logs_read: int = 0
    bills: dict[str, list[BillLine]] = field(default_factory=dict)
    before_create: Callable[[MachineRequest], None] = nothing
    after_create: Callable[[MachineRequest], None] = nothing
    before_listing: Callable[[], None] = lambda: None
    """May raise: the account cannot be listed."""
    uptimes: dict[str, int] = field(default_factory=dict)
    """Seconds since the container of a machine began; not up where it is missing."""
    statuses: dict[str, str] = field(default_factory=dict)
    """The provider's own word, where it is not the presence's."""
    holds_on: bool = False
    """Delete calls are taken, and nothing happens."""
    on_release: Callable[[str], None] = lambda name: None

    def check(self) -> Sequence[str]:
        return list(self.troubles)

    def offers(self, count: int = 1) -> Sequence[Offer]:
        return self.types or [Offer("fake", "Fake 80", 80 * GIB, RATE, max_count=8, stock=self.stock, capability="9.0")]

    def volumes(self) -> Sequence[NetworkVolume]:
        return list(self.disks)

    def create(self, request: MachineRequest) -> Rented:
        self.before_create(request)
        self.asked.append(request.name)
        self.requests.append(request)
        self.machines[request.name] = Presence.PRESENT
        self.after_create(request)
        return Rented(f"id-{request.name}", "RUNNING", self.rate)

    def listing(self) -> Sequence[Listed]:
        self.before_listing()
        present = [
            Listed(
                name,
                f"id-{name}",
                self.statuses.get(name, presence.value),
                presence,
                rate=self.rate,
                installation=INSTALLATION,
                uptime_s=self.uptimes.get(name),
                gpu_count=1,
            )
            for name, presence in self.machines.items()
            if presence is not Presence.ABSENT
        ]
        return [*present, *self.twins]

    def find(self, provider_id: str) -> Listed | None:
        return next((machine for machine in self.listing() if machine.provider_id == provider_id), None)

    def look(self, name: str, outputs: str, at: datetime) -> Sighting:
        return sight(self.listing(), name, INSTALLATION, at)

    def stop(self, name: str) -> None:
        self.machines[name] = Presence.STOPPED

    def release(self, name: str, outputs: str, known: Sequence[str] = ()) -> bool:
        self.on_release(name)
        self.deleted.append(name)
        was_there = name in self.machines
        if self.holds_on:
            return was_there
        self.machines.pop(name, None)
        self.twins = [twin for twin in self.twins if twin.name != name and twin.provider_id not in known]
        return was_there

    def terminate(self, provider_id: str) -> bool:
        self.on_release(provider_id)
        self.deleted.append(provider_id)
        was_there = self.machines.pop(provider_id.removeprefix("id-"), None) is not None
        self.twins = [twin for twin in self.twins if twin.provider_id != provider_id]
        return was_there

    def logs(self, provider_id: str, after: str | None = None) -> Iterator[LogLine]:
        self.logs_read += 1
        return iter(self.lines[int(after or 0) :])

    def bill(self, provider_id: str, since: datetime, until: datetime) -> Sequence[BillLine]:
        return [line for line in self.bills.get(provider_id, []) if line.start < until and line.end > since]
