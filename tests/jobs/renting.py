"""A rented account over a fake provider: due jobs run as time passes, and a trainer speaks when a test lets it."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

import pytest
from sqlmodel import select

from jobs import broker
from tensorant_app.db.accounts import Account, StrayMachine
from tensorant_app.db.machines import Machine, MachineEvent
from tensorant_app.db.promise import claim_due, promise
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.members import Caller
from tensorant_app.providers.base import FileStore
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services import accounts, machines
from tensorant_app.services.accounts import Door
from tensorant_app.settings import get_settings
from tests import factories
from tests.conftest import Clock
from tests.fakes import INSTALLATION, FakeProvider
from trainer.contract import RESULT, STATUS, Outcome, Phase, Result, Status, dump

STOPS = frozenset({accounts.POLL, accounts.SWEEP, machines.TEND})


class Rented:
    """One organization's account and the machines that are rented from it."""

    def __init__(self, caller: Caller, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        broker.load_actors()
        self.caller, self.clock = caller, clock
        self.provider = FakeProvider()
        self.volume: FileStore = FolderStore(get_settings().volume_dir)
        self.kinds: Collection[str] = STOPS
        """Jobs that run; a test switches the others off."""
        door = Door(caller.organization_id, self.provider, INSTALLATION)
        doors = {factories.ACCOUNT: door}
        monkeypatch.setattr("jobs.machines.provider_for", lambda *given: self.provider)
        monkeypatch.setattr("jobs.machines.volume_for", lambda *given: self.volume)
        monkeypatch.setattr("jobs.accounts.accounts.open_door", lambda session, account_id: doors.get(account_id))

    def ask(self, *, attempt: int = 1, run_id: UUID | None = None) -> UUID:
        """A machine for a run; its create call is made."""
        run_id = run_id or factories.make_run(self.caller)
        machine_id = factories.ask_machine(self.caller, run_id, self.clock(), attempt=attempt)
        self.after(seconds=1)
        return machine_id

    def after(self, *, seconds: float = 0, minutes: float = 0, step: float = 2) -> None:
        """Let time pass in small steps, with every due job run at each."""
        end = self.clock().timestamp() + seconds + 60 * minutes
        while self.clock().timestamp() < end:
            self.clock.advance(seconds=min(step, end - self.clock().timestamp()))
            for claim in claim_due():
                if claim.kind in self.kinds:
                    broker.perform(claim.kind, str(claim.subject_id))

    def rederive(self) -> None:
        with unit_of_work() as session:
            accounts.promise_all(session)
            machines.promise_all(session)
            # The fake account has no connection of its own that would call for it.
            promise(session, accounts.SWEEP, factories.ACCOUNT)

    def row(self, machine_id: UUID) -> Machine:
        with reading() as session:
            return session.get_one(Machine, machine_id)

    def verbs(self, machine_id: UUID) -> list[str]:
        with reading() as session:
            events = session.exec(select(MachineEvent).where(MachineEvent.subject_id == machine_id))
            return [event.verb for event in events]

    def account(self) -> Account:
        with reading() as session:
            return session.get_one(Account, factories.ACCOUNT)

    def strays(self) -> list[StrayMachine]:
        with reading() as session:
            return list(session.exec(select(StrayMachine)))

    def beats(
        self, machine_id: UUID, phase: Phase = Phase.TRAINING, *, step: int = 3, boot: int = 1, pod: str = ""
    ) -> None:
        machine = self.row(machine_id)
        beat = Status(
            machine.name, machine.attempt, boot, phase, "now", step=step, total_steps=90, elapsed=10.0, provider_id=pod
        )
        self.volume.put(f"{machine.outputs_key}/{STATUS}", dump(beat).encode())

    def ends(self, machine_id: UUID, outcome: Outcome = Outcome.DONE) -> None:
        machine = self.row(machine_id)
        result = Result(machine.name, machine.attempt, 1, outcome, "now", 9.0, 100)
        self.volume.put(f"{machine.outputs_key}/{RESULT}", dump(result).encode())
