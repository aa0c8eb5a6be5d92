"""Every special path of a run: pause, loss, overrun, verification, capacity, slots and confirmation, over a fake account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlmodel import select

from jobs import broker
from tensorant_app.db.machines import Machine
from tensorant_app.db.organizations import Organization
from tensorant_app.db.promise import claim_due
from tensorant_app.db.runs import Adapter, Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, DenialReason, Denied, Invalid, Unknown
from tensorant_app.domain.machines import RENTED, MachineReason, MachineState
from tensorant_app.domain.members import Caller
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.readiness import Check, passed, refused
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.steps import Cause, Move
from tensorant_app.providers.base import MachineRequest
from tensorant_app.services import drafts, evaluations, machine_actions, machines, recoveries, runs
from tests import factories
from tests.conftest import EACH_DATABASE
from tests.jobs.test_runs import World, caller, launch, load, run_id, world
from trainer.contract import CONSOLE, Ask, Outcome, Phase, Words
from trainer.contract import load as read

__all__ = ["caller", "run_id", "world"]


@pytest.fixture
def training(world: World, run_id: UUID) -> UUID:
    """At work, and its machine was heard."""
    world.settle()
    world.says(Phase.TRAINING)
    world.settle(4)
    assert load(run_id).state is RunState.TRAINING
    return run_id


def act(use_case: Callable[..., Any], *given: Any) -> Any:
    with unit_of_work() as session:
        return use_case(session, *given)


def words(world: World, run_id: UUID, attempt: int = 1) -> Words:
    return read(Words, (world.volume / f"runs/{run_id}/in/{attempt}/{CONSOLE}").read_text())


@EACH_DATABASE
class TestPausing:
    def test_the_trainer_is_asked_and_the_machine_goes_once_it_has_saved(
        self, world: World, training: UUID, caller: Caller
    ) -> None:
        act(recoveries.pause_run, caller, training)
        world.settle(3)
        assert words(world, training).ask is Ask.PAUSE
        assert load(training).state is RunState.TRAINING, "its checkpoint is not written yet"

        world.ends(Outcome.PAUSED)
        world.settle()

        assert load(training).state is RunState.PAUSED
        assert world.provider.machines == {}
        assert load(training).pause_wanted_at is None

    def test_resumed_it_is_checked_again_and_goes_on_as_the_next_attempt(
        self, world: World, training: UUID, caller: Caller
    ) -> None:
        act(recoveries.pause_run, caller, training)
        world.ends(Outcome.PAUSED)
        world.settle()
        world.findings = [refused(Check.SPACE, "The disk is full.")]
        act(recoveries.resume_run, caller, training)
        world.settle()
        assert (load(training).state, load(training).sentence) == (RunState.PAUSED, "The disk is full.")

        world.findings = [passed(Check.SPACE, "There is room.")]
        act(recoveries.resume_run, caller, training)
        world.settle()

        assert world.provider.asked == [f"tune-{training}", f"tune-{training}-2"]
        assert load(training).losses == 0, "a pause is no loss"

    def test_before_anything_was_heard_it_is_paused_at_once(self, world: World, run_id: UUID, caller: Caller) -> None:
        world.settle()

        act(recoveries.pause_run, caller, run_id)

        assert load(run_id).state is RunState.PAUSED
        world.settle()
        assert world.provider.machines == {}

    def test_a_loss_while_a_pause_is_wanted_pauses(self, world: World, training: UUID, caller: Caller) -> None:
        act(recoveries.pause_run, caller, training)
        world.vanishes()
        world.settle()

        assert load(training).state is RunState.PAUSED
        assert world.provider.asked == [f"tune-{training}"]

    def test_a_trainer_that_does_not_answer_is_paused_at_its_last_checkpoint(
        self, world: World, training: UUID, caller: Caller
    ) -> None:
        act(recoveries.pause_run, caller, training)
        world.settle(3)
        world.clock.advance(minutes=16)
        world.settle()

        assert load(training).state is RunState.PAUSED

    def test_twice_is_once_and_packaging_is_not_interrupted(self, world: World, training: UUID, caller: Caller) -> None:
        act(recoveries.pause_run, caller, training)
        with pytest.raises(Conflict, match="being paused already"):
            act(recoveries.pause_run, caller, training)
        world.says(Phase.PACKAGING)
        world.settle(4)
        with pytest.raises(Conflict, match="being packaged"):
            act(recoveries.pause_run, caller, training)


@EACH_DATABASE
class TestOverrunning:
    @pytest.fixture
    def overrun(self, world: World, training: UUID) -> UUID:
        world.ends(Outcome.OVERRUN)
        world.settle()
        assert load(training).state is RunState.NEEDS_RECOVERY
        return training

    def test_a_longer_limit_goes_on_with_what_is_left(self, world: World, overrun: UUID, caller: Caller) -> None:
        with pytest.raises(Invalid, match="above 6 h and at most 72 h"):
            act(recoveries.extend_run, caller, overrun, 6.0)

        act(recoveries.extend_run, caller, overrun, 8.0)
        world.settle()

        machine = world.machines()[-1]
        assert machine.attempt == 2
        used = timedelta(seconds=load(overrun).seconds_used)
        assert timedelta(hours=8) - used - timedelta(minutes=1) < machine.deadline - machine.created_at
        assert machine.deadline - machine.created_at <= timedelta(hours=8) - used

    def test_a_run_at_work_is_told_of_a_longer_limit(self, world: World, training: UUID, caller: Caller) -> None:
        before = world.machines()[-1].deadline

        act(recoveries.extend_run, caller, training, 9.0)
        world.settle(3)

        assert words(world, training).deadline == (before + timedelta(hours=3)).isoformat()
        assert words(world, training).seq == 2

    def test_a_finished_adapter_on_the_volume_is_taken_without_a_machine(
        self, world: World, overrun: UUID, caller: Caller
    ) -> None:
        world.ends_with_adapter()
        act(recoveries.verify_run, caller, overrun)
        world.settle(2)

        assert load(overrun).state in {RunState.ADAPTER_READY, RunState.EVALUATING}
        assert world.provider.asked[0] == f"tune-{overrun}"
        assert not any(name.startswith("tune") for name in world.provider.asked[1:])
        with reading() as session:
            assert session.exec(select(Adapter)).one().attempt == 1

    @pytest.mark.parametrize("torn", [True, False])
    def test_where_none_is_whole_a_person_decides(
        self, world: World, overrun: UUID, caller: Caller, torn: bool
    ) -> None:
        if torn:
            world.ends_with_adapter(torn=True)
        act(recoveries.verify_run, caller, overrun)
        world.settle(2)

        run = load(overrun)
        assert (run.state, run.verify_wanted_at) == (RunState.NEEDS_RECOVERY, None)
        assert run.sentence == "No finished adapter lies on the volume. Resume with a longer limit, or cancel the run."
        act(runs.cancel_run, caller, overrun)
        assert load(overrun).state is RunState.CANCELLED

    def test_at_its_deadline_the_trainer_has_time_for_its_last_checkpoint(self, world: World, training: UUID) -> None:
        world.clock.at = world.machines()[-1].deadline
        world.settle(4)
        assert load(training).state is RunState.TRAINING

        world.settle(24)

        assert load(training).state is RunState.NEEDS_RECOVERY
        assert world.clock() - world.machines()[-1].deadline < timedelta(minutes=1)


class TestCapacity:
    def deny(self, world: World, *, times: int, reason: DenialReason = DenialReason.CAPACITY) -> None:
        left = [times]

        def refuse(request: MachineRequest) -> None:
            if left[0]:
                left[0] -= 1
                raise Denied("There is none left in EU-RO-1.", reason)

        world.provider.before_create = refuse

    def place(self, run_id: UUID, **values: Any) -> None:
        with unit_of_work() as session:
            session.get_one(Run, run_id).placement = Placement(**values).as_values()

    def test_without_waiting_a_refusal_ends_it_and_costs_nothing(self, world: World, run_id: UUID) -> None:
        self.deny(world, times=9)
        world.settle(30)

        run = load(run_id)
        assert (run.state, run.sentence, run.seconds_used) == (RunState.FAILED, "There is none left in EU-RO-1.", 0.0)
        assert len(world.machines()) == 1

    def test_waiting_it_asks_for_one_new_machine_after_each_certain_refusal(self, world: World, run_id: UUID) -> None:
        self.place(run_id, wait=timedelta(hours=2))
        self.deny(world, times=2)
        world.settle(10)
        assert load(run_id).state is RunState.QUEUED
        assert (load(run_id).losses, load(run_id).refusals) == (0, 1)

        world.settle(100)

        assert world.provider.asked == [f"tune-{run_id}-3"]
        assert [machine.state for machine in world.machines()][:2] == [MachineState.ABSENT] * 2
        assert load(run_id).state is RunState.LAUNCHING

    def test_the_further_choices_have_their_turn_before_a_pause(self, world: World, run_id: UUID) -> None:
        self.place(run_id, wait=timedelta(hours=2), gpu_types=("fake", "other"))
        (first,) = world.provider.offers()
        world.provider.types = [first, replace(first, gpu_type="other")]
        self.deny(world, times=1)
        world.settle(12)

        assert [machine.gpu_type for machine in world.machines()] == ["fake", "other"]
        assert load(run_id).state is RunState.LAUNCHING

    def test_when_its_time_is_over_it_fails(self, world: World, run_id: UUID) -> None:
        self.place(run_id, wait=timedelta(minutes=2))
        self.deny(world, times=99)
        world.settle(100)

        assert load(run_id).state is RunState.FAILED

    def test_a_busy_provider_is_asked_a_few_times_and_no_more(self, world: World, run_id: UUID) -> None:
        self.deny(world, times=99, reason=DenialReason.UNREACHABLE)
        world.settle(100)

        assert load(run_id).state is RunState.FAILED
        assert len(world.machines()) == 4

    def test_not_before_its_time_nothing_is_asked(self, world: World, caller: Caller) -> None:
        later = factories.make_run(caller)
        self.place(later, not_before=world.clock() + timedelta(hours=1))
        launch(caller, later)
        world.settle(10)
        assert world.provider.asked == []

        world.clock.advance(hours=1)
        world.settle()

        assert world.provider.asked == [f"tune-{later}"]


@EACH_DATABASE
class TestQueueing:
    @pytest.fixture(autouse=True)
    def one_slot(self, world: World, caller: Caller) -> None:
        with unit_of_work() as session:
            session.get_one(Organization, caller.organization_id).run_slots = 1

    def test_one_after_the_other_in_their_order(self, world: World, caller: Caller) -> None:
        ids = []
        for _ in range(3):
            ids.append(factories.make_run(caller))
            launch(caller, ids[-1])
            world.settle(1)
        for turn in ids:
            world.settle()
            assert world.provider.asked[-1] == f"tune-{turn}"
            act(runs.cancel_run, caller, turn)

    def test_one_that_lost_its_machine_goes_before_all_others(
        self, world: World, training: UUID, caller: Caller
    ) -> None:
        other = factories.make_run(caller)
        launch(caller, other)
        world.vanishes()
        world.settle()

        assert world.provider.asked == [f"tune-{training}", f"tune-{training}-2"]
        assert load(other).state is RunState.QUEUED

    def test_evaluations_need_a_slot_as_well(self, world: World, training: UUID, caller: Caller) -> None:
        with unit_of_work() as session:
            version_id = session.get_one(Run, training).version_id
            evaluation_id = evaluations.create_baseline(session, caller, version_id)
        world.settle()
        assert world.provider.asked == [f"tune-{training}"]

        act(runs.cancel_run, caller, training)
        world.settle()

        assert world.provider.asked == [f"tune-{training}", f"eval-{evaluation_id}"]

    def test_one_that_waits_for_capacity_lets_the_others_pass(self, world: World, run_id: UUID, caller: Caller) -> None:
        with unit_of_work() as session:
            session.get_one(Run, run_id).placement = Placement(wait=timedelta(hours=2)).as_values()

        def refuse(request: MachineRequest) -> None:
            if str(run_id) in request.name:
                raise Denied("There is none left.", DenialReason.CAPACITY)

        world.provider.before_create = refuse
        world.settle(6)
        other = factories.make_run(caller)
        launch(caller, other)
        world.settle()

        assert world.provider.asked == [f"tune-{other}"]


@EACH_DATABASE
class TestConfirming:
    @pytest.fixture
    def checking(self, world: World, run_id: UUID) -> UUID:
        """Its answer was lost, and it was looked for in vain for more than ten minutes."""

        def lose(request: MachineRequest) -> None:
            raise Unknown("The connection broke.")

        world.provider.before_create = lose
        world.provider.rules = RENTED
        world.settle()
        return run_id

    def not_listed(self, world: World) -> None:
        """As the looks at its account wrote it down."""
        with unit_of_work() as session:
            row = session.exec(select(Machine)).one()
            row.connection_id = factories.ACCOUNT
            row.absent_since, row.absent_looks = world.clock() - timedelta(minutes=9), 50

    def test_not_before_ten_minutes(self, world: World, checking: UUID, caller: Caller) -> None:
        self.not_listed(world)

        with pytest.raises(Conflict, match="Wait 10 more minutes"):
            act(machine_actions.confirm_run_absent, caller, checking)
        with reading() as session:
            shown = recoveries.show_recovery(session, caller, checking)
        assert shown.checking
        assert shown.confirm_absent is not None

    def test_then_the_run_is_cancelled_its_slot_is_free_and_it_can_be_retried(
        self, world: World, checking: UUID, caller: Caller
    ) -> None:
        world.clock.advance(minutes=11)
        self.not_listed(world)

        act(machine_actions.confirm_run_absent, caller, checking)

        run = load(checking)
        assert (run.state, run.reason) == (RunState.CANCELLED, "no_launch")
        assert world.machines()[-1].state is MachineState.ABSENT
        assert act(drafts.create_retry_draft, caller, checking).id != checking
        assert world.provider.asked == []

    def test_a_run_that_was_cancelled_meanwhile_keeps_its_slot_until_it_is_settled(
        self, world: World, checking: UUID, caller: Caller
    ) -> None:
        act(runs.cancel_run, caller, checking)
        world.settle()
        assert world.machines()[-1].state is MachineState.ASKED
        with pytest.raises(Conflict, match="not proved released"):
            act(drafts.create_retry_draft, caller, checking)
        world.clock.advance(minutes=11)
        self.not_listed(world)

        act(machine_actions.confirm_run_absent, caller, checking)

        assert load(checking).state is RunState.CANCELLED
        assert act(drafts.create_retry_draft, caller, checking)

    def test_a_run_that_was_paused_meanwhile_stays_paused(self, world: World, checking: UUID, caller: Caller) -> None:
        act(recoveries.pause_run, caller, checking)
        world.clock.advance(minutes=11)
        self.not_listed(world)

        act(machine_actions.confirm_run_absent, caller, checking)

        assert load(checking).state is RunState.PAUSED
        assert world.machines()[-1].state is MachineState.ABSENT

    def test_a_run_that_goes_on_asks_for_no_other_machine_before_the_first_is_settled(
        self, world: World, checking: UUID, caller: Caller
    ) -> None:
        act(recoveries.pause_run, caller, checking)
        act(recoveries.resume_run, caller, checking)
        world.clock.advance(minutes=30)
        world.settle()
        assert len(world.machines()) == 1
        assert load(checking).state is RunState.QUEUED
        self.not_listed(world)
        world.provider.before_create = lambda request: None

        act(machine_actions.confirm_run_absent, caller, checking)
        world.settle()

        assert load(checking).state is RunState.LAUNCHING
        assert world.provider.asked == [f"tune-{checking}-2"]


def test_a_machine_that_never_started_fails_the_run_in_the_providers_words(world: World, run_id: UUID) -> None:
    world.settle()
    sentence = "error pulling image: no basic auth credentials"
    with unit_of_work() as session:
        machine = session.exec(select(Machine)).one()
        machines.take_step(session, machine, Move("release", MachineReason.NOT_STARTED, sentence), Cause.WORKER)
    world.settle()

    run = load(run_id)
    assert (run.state, run.reason) == (RunState.FAILED, "machine_failed")
    assert run.sentence == "error pulling image: no basic auth credentials"
    assert len(world.provider.asked) == 1, "another attempt would meet the same, and cost again"


def test_a_cancel_at_every_instant_leaves_nothing_behind(world: World, caller: Caller) -> None:
    """Before the ask, after it, in each phase, and again after the end."""
    for rounds in range(9):
        one = factories.make_run(caller)
        launch(caller, one)
        for _ in range(rounds):
            world.clock.advance(seconds=2)
            for claim in claim_due():
                broker.perform(claim.kind, str(claim.subject_id))
        act(runs.cancel_run, caller, one)
        world.settle()

        assert load(one).state is RunState.CANCELLED
        assert world.provider.machines == {}
