"""The paid call is made at most once, and a machine is followed until it is proved gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from jobs import broker
from tensorant_app.db.machines import Machine
from tensorant_app.db.promise import promise, take_lease
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import DenialReason, Denied, Transient, Unknown
from tensorant_app.domain.machines import THIS_COMPUTER, MachineState, Presence, Use
from tensorant_app.domain.members import Caller
from tensorant_app.providers.base import MachineRequest
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services import accounts, machines
from tensorant_app.services.accounts import Door
from tensorant_app.services.connections import volume_for
from tensorant_app.settings import get_settings
from tests import factories
from tests.conftest import Clock
from tests.fakes import INSTALLATION, FakeProvider
from trainer.contract import RESULT, STATUS, Outcome, Phase, Result, Status, dump


@pytest.fixture
def caller(database: str, clock: Clock) -> Caller:
    return factories.make_caller()


@pytest.fixture
def provider(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> FakeProvider:
    broker.load_actors()
    fake = FakeProvider()
    door = Door(caller.organization_id, fake, INSTALLATION)
    monkeypatch.setattr("jobs.machines.provider_for", lambda *given: fake)
    monkeypatch.setattr("jobs.machines.volume_for", lambda *given: FolderStore(get_settings().volume_dir))
    monkeypatch.setattr("jobs.accounts.accounts.open_door", lambda session, account_id: door)
    return fake


@pytest.fixture
def run_id(caller: Caller) -> UUID:
    return factories.make_run(caller)


@pytest.fixture
def machine_id(caller: Caller, run_id: UUID, clock: Clock) -> UUID:
    return factories.ask_machine(caller, run_id, clock())


@pytest.mark.parametrize(("subcommand", "spread"), [("train", True), ("trial", True), ("evaluate", False)])
def test_what_trains_is_one_process_for_each_gpu(
    caller: Caller, run_id: UUID, clock: Clock, subcommand: str, spread: bool
) -> None:
    assert caller.organization_id is not None
    order = replace(factories.make_order(caller.organization_id, run_id, clock()), gpu_count=2)

    with unit_of_work() as session:
        machines.ask_machine(session, order, subcommand)
        machine = machines.machine_of(session, Use.RUN, run_id, 1)

    assert machine is not None
    assert (machine.command[-2:] == ["--processes", "2"]) is spread


def tend(machine_id: UUID, clock: Clock, *, times: int = 1, pause: float = 2) -> None:
    """Look as the worker does, each time a little later: at the account, then at what it says of this machine."""
    for _ in range(times):
        clock.advance(seconds=pause)
        with unit_of_work() as session:
            promise(session, accounts.POLL, factories.ACCOUNT)
        broker.perform(accounts.POLL, str(factories.ACCOUNT))
        broker.perform(machines.TEND, str(machine_id))


def row(machine_id: UUID) -> Machine:
    with reading() as session:
        return session.get_one(Machine, machine_id)


def lose_answer(request: MachineRequest) -> None:
    raise Unknown("The connection broke.")


class TestAsking:
    def test_the_same_hint_twice_asks_once(self, provider: FakeProvider, machine_id: UUID, clock: Clock) -> None:
        broker.perform(machines.TEND, str(machine_id))
        broker.perform(machines.TEND, str(machine_id))

        assert provider.asked == [row(machine_id).name]
        assert row(machine_id).state is MachineState.HELD

    def test_a_lost_answer_is_looked_for_and_never_asked_again(
        self, provider: FakeProvider, machine_id: UUID, clock: Clock
    ) -> None:
        provider.after_create = lose_answer

        tend(machine_id, clock)
        assert row(machine_id).state is MachineState.ASKED
        tend(machine_id, clock)

        assert row(machine_id).state is MachineState.HELD
        assert provider.asked == [row(machine_id).name]

    def test_a_call_that_never_arrived_is_never_repeated(
        self, provider: FakeProvider, machine_id: UUID, clock: Clock
    ) -> None:
        provider.before_create = lose_answer

        tend(machine_id, clock, times=40, pause=60)

        assert provider.asked == []
        assert row(machine_id).state is MachineState.ASKED

    def test_a_crash_between_intent_and_call_leaves_a_machine_to_look_for(
        self, provider: FakeProvider, machine_id: UUID, clock: Clock
    ) -> None:
        with unit_of_work() as session:
            assert machines.take_ask(session, machine_id, may_ask_again=False)

        tend(machine_id, clock, times=5)

        assert provider.asked == []
        assert row(machine_id).state is MachineState.ASKED

    def test_on_this_computer_the_same_crash_is_asked_again(
        self, provider: FakeProvider, machine_id: UUID, clock: Clock
    ) -> None:
        provider.rules = THIS_COMPUTER
        with unit_of_work() as session:
            assert machines.take_ask(session, machine_id, may_ask_again=False)

        tend(machine_id, clock)

        assert provider.asked == [row(machine_id).name]
        assert row(machine_id).state is MachineState.HELD

    @pytest.mark.parametrize(
        ("why", "reason"), [(DenialReason.CAPACITY, "no_capacity"), (DenialReason.INVALID, "denied")]
    )
    def test_a_definite_refusal_ends_it(
        self, provider: FakeProvider, machine_id: UUID, clock: Clock, why: DenialReason, reason: str
    ) -> None:
        def deny(request: MachineRequest) -> None:
            raise Denied("No such GPU is free.", why)

        provider.before_create = deny

        tend(machine_id, clock)

        found = row(machine_id)
        assert (found.state, found.reason, found.sentence) == (MachineState.ABSENT, reason, "No such GPU is free.")

    def test_a_worker_that_lost_its_lease_during_the_call_writes_nothing(
        self, provider: FakeProvider, machine_id: UUID, clock: Clock
    ) -> None:
        def freeze(request: MachineRequest) -> None:
            clock.advance(minutes=3)
            assert take_lease(machines.TEND, machine_id, clock()) is not None

        provider.after_create = freeze

        broker.perform(machines.TEND, str(machine_id))
        assert row(machine_id).state is MachineState.ASKED
        tend(machine_id, clock, pause=120)

        assert row(machine_id).state is MachineState.HELD
        assert provider.asked == [row(machine_id).name]

    def test_a_machine_whose_release_is_wanted_before_the_call_is_never_asked(
        self, provider: FakeProvider, machine_id: UUID, run_id: UUID, clock: Clock
    ) -> None:
        with unit_of_work() as session:
            machines.want_release(session, Use.RUN, run_id)

        tend(machine_id, clock)

        assert provider.asked == []
        assert row(machine_id).state is MachineState.ABSENT

    def test_a_machine_whose_answer_was_lost_is_caught_when_its_release_is_wanted(
        self, provider: FakeProvider, machine_id: UUID, run_id: UUID, clock: Clock
    ) -> None:
        provider.after_create = lose_answer
        tend(machine_id, clock)
        with unit_of_work() as session:
            machines.want_release(session, Use.RUN, run_id)

        tend(machine_id, clock, times=3)

        assert provider.machines == {}
        assert row(machine_id).state is MachineState.RELEASING
        tend(machine_id, clock, times=3, pause=400)
        assert row(machine_id).state is MachineState.RELEASED


class TestReleasing:
    @pytest.fixture(autouse=True)
    def held(self, provider: FakeProvider, machine_id: UUID, run_id: UUID, clock: Clock) -> None:
        tend(machine_id, clock, times=2)
        assert row(machine_id).state is MachineState.HELD
        with unit_of_work() as session:
            machines.want_release(session, Use.RUN, run_id)

    def test_gone_from_the_list_is_believed_after_a_minute_of_looks(
        self, provider: FakeProvider, machine_id: UUID, clock: Clock
    ) -> None:
        clock.advance(minutes=10)

        tend(machine_id, clock, times=3, pause=10)
        assert row(machine_id).state is MachineState.RELEASING
        tend(machine_id, clock, times=5, pause=10)

        assert row(machine_id).state is MachineState.RELEASED
        assert row(machine_id).released_at is not None

    def test_a_delete_that_fails_is_tried_for_ever_and_said_aloud(
        self, provider: FakeProvider, machine_id: UUID, clock: Clock
    ) -> None:
        def refuse(name: str) -> None:
            raise Transient("The provider is busy.")

        provider.on_release = refuse
        tend(machine_id, clock, times=3)
        assert (row(machine_id).state, row(machine_id).release_problem) == (
            MachineState.RELEASE_FAILED,
            "The provider is busy.",
        )

        tend(machine_id, clock, times=10, pause=600)
        assert row(machine_id).state is MachineState.RELEASE_FAILED
        provider.on_release = lambda name: None
        tend(machine_id, clock, times=4, pause=600)

        assert row(machine_id).state is MachineState.RELEASED

    def test_a_machine_that_is_released_and_listed_is_never_taken_for_gone(
        self, provider: FakeProvider, machine_id: UUID, clock: Clock
    ) -> None:
        name = row(machine_id).name
        provider.release = lambda name, outputs: None  # type: ignore[method-assign]
        provider.machines[name] = Presence.PRESENT

        tend(machine_id, clock, times=20, pause=600)

        assert row(machine_id).state is MachineState.RELEASING


class TestReports:
    def put(self, machine: Machine, name: str, value: object) -> None:
        with reading() as session:
            volume = volume_for(session, machine.organization_id)
        volume.put(f"{machine.outputs_key}/{name}", dump(value).encode())

    def status(self, machine: Machine, **values: object) -> Status:
        shared = {"machine": machine.name, "attempt": 1, "boot": 1, "phase": Phase.TRAINING, "at": "now"}
        return Status(**{**shared, **values})  # type: ignore[arg-type]

    def test_a_heartbeat_is_kept_and_its_phase_wakes_the_run(
        self, provider: FakeProvider, machine_id: UUID, run_id: UUID, clock: Clock
    ) -> None:
        tend(machine_id, clock)
        self.put(row(machine_id), STATUS, self.status(row(machine_id), step=7))

        tend(machine_id, clock)

        found = row(machine_id).status
        assert found is not None
        assert (found["step"], found["phase"]) == (7, "training")
        assert take_lease("runs.react", run_id, clock()) is not None

    def test_another_attempts_files_are_not_its_word(
        self, provider: FakeProvider, machine_id: UUID, clock: Clock
    ) -> None:
        tend(machine_id, clock)
        machine = row(machine_id)
        self.put(machine, STATUS, self.status(machine, attempt=2))
        self.put(machine, RESULT, Result(f"{machine.name}-9", 1, 1, Outcome.DONE, "now", 1.0, 1))

        tend(machine_id, clock)

        assert (row(machine_id).status, row(machine_id).result) == (None, None)

    def test_a_process_that_ended_with_a_result_is_not_lost(
        self, provider: FakeProvider, machine_id: UUID, clock: Clock
    ) -> None:
        tend(machine_id, clock)
        machine = row(machine_id)
        self.put(machine, RESULT, Result(machine.name, 1, 1, Outcome.DONE, "now", 1.0, 1))
        provider.machines[machine.name] = Presence.EXITED

        tend(machine_id, clock)

        assert row(machine_id).state is MachineState.HELD
        assert row(machine_id).result is not None

    def test_a_process_that_ended_without_one_is_lost_and_deleted_all_the_same(
        self, provider: FakeProvider, machine_id: UUID, clock: Clock
    ) -> None:
        tend(machine_id, clock)
        provider.machines[row(machine_id).name] = Presence.EXITED

        tend(machine_id, clock, times=2)

        assert (row(machine_id).state, row(machine_id).reason) == (MachineState.RELEASING, "lost")
        assert provider.deleted == [row(machine_id).name]

    def test_a_machine_long_past_its_deadline_is_released_whatever_it_says(
        self, provider: FakeProvider, machine_id: UUID, clock: Clock
    ) -> None:
        tend(machine_id, clock)
        self.put(row(machine_id), STATUS, self.status(row(machine_id), step=7))
        tend(machine_id, clock)
        clock.at = row(machine_id).deadline + machines.LATE - timedelta(minutes=1)
        tend(machine_id, clock)
        assert row(machine_id).state is MachineState.HELD

        clock.advance(minutes=1)
        tend(machine_id, clock)

        assert row(machine_id).state is MachineState.RELEASING


def test_the_rows_alone_bring_every_look_back(provider: FakeProvider, machine_id: UUID, clock: Clock) -> None:
    with unit_of_work() as session:
        session.connection().exec_driver_sql("DELETE FROM promise")

    broker.perform(machines.TEND, str(machine_id))
    assert provider.asked == []
    with unit_of_work() as session:
        machines.promise_all(session)
    broker.perform(machines.TEND, str(machine_id))

    assert provider.asked == [row(machine_id).name]
