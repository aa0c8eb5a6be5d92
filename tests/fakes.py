"""Fakes, one per protocol, with hooks to misbehave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from tensorant_app.domain.machines import RENTED, Presence, ProofRules, Sighting
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.providers.base import MachineRequest, Offer, Rented


def nothing(request: MachineRequest) -> None:
    pass


class FakeProvider:
    """Machines in a dictionary. `before_create` and `after_create` may raise: the call or its answer is lost."""

    free = False

    def __init__(self, rules: ProofRules = RENTED) -> None:
        self.rules = rules
        self.asked: list[str] = []
        """Every create call that reached the provider."""
        self.deleted: list[str] = []
        self.machines: dict[str, Presence] = {}
        self.before_create: Callable[[MachineRequest], None] = nothing
        self.after_create: Callable[[MachineRequest], None] = nothing
        self.on_release: Callable[[str], None] = lambda name: None

    def offers(self) -> Sequence[Offer]:
        return [Offer("fake", 80 * 1024**3, HourlyRate(Money.dollars("1.50")), None)]

    def create(self, request: MachineRequest) -> Rented:
        self.before_create(request)
        self.asked.append(request.name)
        self.machines[request.name] = Presence.PRESENT
        self.after_create(request)
        return Rented(f"id-{request.name}", "RUNNING")

    def look(self, name: str, outputs: str, at: datetime) -> Sighting:
        presence = self.machines.get(name, Presence.ABSENT)
        ids = () if presence is Presence.ABSENT else (f"id-{name}",)
        return Sighting(at, presence, ids, presence.value)

    def release(self, name: str, outputs: str) -> None:
        self.on_release(name)
        self.deleted.append(name)
        self.machines.pop(name, None)
