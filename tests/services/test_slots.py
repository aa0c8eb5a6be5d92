"""Whose turn it is: a machine holds its slot until it is proved gone, whoever asks."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from tensorant_app.db.machines import Machine
from tensorant_app.db.organizations import Organization
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Forbidden, Invalid
from tensorant_app.domain.machines import HOLDS_SLOT, MachineState
from tensorant_app.domain.members import Caller, Role
from tensorant_app.domain.runs import RunState
from tensorant_app.services import slots
from tests import factories
from tests.conftest import EACH_DATABASE, Clock

pytestmark = EACH_DATABASE


@pytest.fixture
def caller(chosen_database: str, clock: Clock) -> Caller:
    return factories.make_caller()


def give_slots(caller: Caller, count: int) -> None:
    with unit_of_work() as session:
        session.get_one(Organization, caller.organization_id).run_slots = count


def queued(caller: Caller, clock: Clock, *, losses: int = 0) -> UUID:
    run_id = factories.make_run(caller, state=RunState.QUEUED)
    with unit_of_work() as session:
        run = session.get_one(Run, run_id)
        run.losses, run.queued_at = losses, clock.advance(seconds=1)
    return run_id


def rent(caller: Caller, clock: Clock, run_id: UUID, state: MachineState) -> UUID:
    machine_id = factories.ask_machine(caller, run_id, clock())
    with unit_of_work() as session:
        machine = session.get_one(Machine, machine_id)
        machine.state, machine.release_wanted_at = state, clock() - timedelta(minutes=30)
    return machine_id


def has_turn(caller: Caller, run_id: UUID) -> bool:
    assert caller.organization_id is not None
    with unit_of_work() as session:
        asked = slots.has_turn(session, caller.organization_id, run_id)
        assert asked == slots.has_turn(session, caller.organization_id, run_id, is_last_word=True)
    return asked


@pytest.mark.parametrize("state", MachineState)
def test_a_machine_holds_a_slot_in_every_state_but_the_final_ones(
    caller: Caller, clock: Clock, state: MachineState
) -> None:
    give_slots(caller, 1)
    other, waiting = queued(caller, clock), queued(caller, clock)
    with unit_of_work() as session:
        session.get_one(Run, other).state = RunState.CANCELLED
    rent(caller, clock, other, state)

    assert has_turn(caller, waiting) is (state not in HOLDS_SLOT)


@pytest.mark.parametrize("state", [MachineState.ASKED, MachineState.RELEASING, MachineState.RELEASE_FAILED])
def test_the_next_attempt_of_a_run_needs_a_slot_beside_its_own_lost_machine(
    caller: Caller, clock: Clock, state: MachineState
) -> None:
    """A delete that is never confirmed may be a machine that is billed: it counts, long after the fence."""
    give_slots(caller, 1)
    run_id = queued(caller, clock, losses=1)
    rent(caller, clock, run_id, state)
    assert not has_turn(caller, run_id)

    give_slots(caller, 2)

    assert has_turn(caller, run_id)


def test_one_whose_lost_machine_is_still_going_stands_in_nobodys_way(caller: Caller, clock: Clock) -> None:
    lost = queued(caller, clock, losses=1)
    rent(caller, clock, lost, MachineState.RELEASING)
    other = queued(caller, clock)

    assert has_turn(caller, other)


def test_those_that_lost_a_machine_come_first_and_then_who_came_first(caller: Caller, clock: Clock) -> None:
    give_slots(caller, 2)
    first, second, lost = queued(caller, clock), queued(caller, clock), queued(caller, clock, losses=1)

    assert [has_turn(caller, run_id) for run_id in (first, second, lost)] == [True, False, True]


def test_another_organizations_machines_and_queue_do_not_count(caller: Caller, clock: Clock) -> None:
    give_slots(caller, 1)
    stranger = factories.make_caller(name="Other")
    rent(stranger, clock, queued(stranger, clock), MachineState.HELD)
    queued(stranger, clock)

    assert has_turn(caller, queued(caller, clock))


def test_what_holds_the_slots_is_shown_the_oldest_first(caller: Caller, clock: Clock) -> None:
    runs = [queued(caller, clock) for _ in range(3)]
    for run_id in runs[:2]:
        rent(caller, clock, run_id, MachineState.HELD)
        clock.advance(seconds=1)

    with reading() as session:
        shown = slots.show_slots(session, caller)

    assert shown.held_by == tuple(f"tune-{run_id}" for run_id in runs[:2])
    assert (shown.slots, shown.waiting) == (2, 3)


@pytest.mark.parametrize("typed", ["", "0", "101", "two", "1.5", "-1"])
def test_slots_are_a_number_that_an_administrator_sets(caller: Caller, typed: str) -> None:
    with pytest.raises(Invalid, match="between 1 and 100"), unit_of_work() as session:
        slots.set_slots(session, caller, typed)
    member = factories.make_caller(Role.MEMBER, organization_id=caller.organization_id)
    with pytest.raises(Forbidden), unit_of_work() as session:
        slots.set_slots(session, member, "3")
    with unit_of_work() as session:
        slots.set_slots(session, caller, "3")
        assert slots.show_slots(session, caller).slots == 3
