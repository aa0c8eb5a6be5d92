"""What a run's page offers where a run does not simply go on."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlmodel import select

from tensorant_app import routes
from tensorant_app.db import clock
from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import AdapterUpload, Run
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.runs import AdapterUploadState, RunReason, RunState
from tensorant_app.pages.evaluation_machine import EvaluationMachineState
from tensorant_app.pages.recovery import RecoveryState
from tensorant_app.pages.run_limit import LimitState
from tensorant_app.pages.run_state import RunPageState
from tests.factories import ask_machine, make_run, make_scorer
from tests.pages.conftest import visit
from tests.people import Person
from tests.states import call, run
from trainer.contract import Outcome, Result


def address(run_id: UUID) -> str:
    with reading() as session:
        return routes.run(session.get_one(Run, run_id).project_id, run_id)


def rented(
    owner: Person, run_state: RunState, machine_state: MachineState, *, minutes: int = 30, **values: Any
) -> UUID:
    """A run whose machine was asked for so long ago and has not been found since."""
    run_id = make_run(owner.caller, state=run_state, attempt=1, started_at=clock.now() - timedelta(minutes=minutes))
    ask_machine(owner.caller, run_id, clock.now())
    with unit_of_work() as session:
        row, then = session.exec(select(Machine)).one(), now_of(session) - timedelta(minutes=minutes)
        facts = {"ask_sent_at": then, "answer_lost_at": then, "absent_since": then, "absent_looks": 9} | values
        row.state, row.rate, row.gpu_count = machine_state, HourlyRate.dollars("1.72"), 2
        for name, value in facts.items():
            setattr(row, name, value)
    return run_id


def page(person: Person, run_id: UUID) -> Any:
    return visit(RunPageState, person, address(run_id), "enter", "load")


def press(person: Person, run_id: UUID, button: str, *arguments: Any) -> Any:
    state = visit(LimitState if button == "extend" else RecoveryState, person, address(run_id), "enter")
    run(call(state, button, *arguments))
    return state


def test_a_launch_without_a_machine_is_confirmed_absent_and_can_be_tried_again(owner: Person) -> None:
    run_id = rented(owner, RunState.LAUNCHING, MachineState.ASKED)
    seen = page(owner, run_id)
    assert (seen.machine_trouble.kind, seen.ways.confirm_absent) == ("checking", "")
    assert seen.machine.name == f"tune-{run_id}"

    assert press(owner, run_id, "confirm_absent").error == ""

    after = page(owner, run_id)
    assert (after.head.state, after.machine.state) == ("cancelled", "absent")


def test_a_launch_of_just_now_says_how_long_to_wait(owner: Person) -> None:
    run_id = rented(owner, RunState.LAUNCHING, MachineState.ASKED, minutes=3)

    assert "Wait 7 more minutes" in page(owner, run_id).ways.confirm_absent
    assert press(owner, run_id, "confirm_absent").error == page(owner, run_id).ways.confirm_absent


def test_a_machine_whose_trainer_was_heard_is_never_confirmed_absent(owner: Person) -> None:
    run_id = rented(owner, RunState.TRAINING, MachineState.ASKED, started_at=clock.now())

    seen = page(owner, run_id)

    assert seen.machine_trouble.what == "The provider does not list the machine."
    assert "Its trainer was heard" in seen.ways.confirm_absent
    assert press(owner, run_id, "confirm_absent").error == seen.ways.confirm_absent
    assert page(owner, run_id).head.state == "training"


@pytest.mark.parametrize("state", [RunState.PAUSED, RunState.ADAPTER_READY])
def test_a_run_that_no_longer_waits_for_the_machine_stays_as_it_is(owner: Person, state: RunState) -> None:
    run_id = rented(owner, state, MachineState.ASKED, release_wanted_at=clock.now())

    assert press(owner, run_id, "confirm_absent").error == ""

    after = page(owner, run_id)
    assert (after.head.state, after.machine.state) == (state.value, "absent")


def test_several_machines_of_one_name_are_listed(owner: Person) -> None:
    run_id = rented(owner, RunState.LAUNCHING, MachineState.ASKED, provider_ids=["pod1", "pod2"], absent_since=None)

    ways = page(owner, run_id).ways

    assert ways.twins == ("pod1", "pod2")
    assert ways.confirm_absent != ""


def test_the_next_step_of_needs_recovery_follows_what_is_known(owner: Person) -> None:
    run_id = rented(owner, RunState.NEEDS_RECOVERY, MachineState.RELEASED)
    assert page(owner, run_id).ways.next == "verify"

    press(owner, run_id, "verify")
    assert page(owner, run_id).ways.is_verifying
    with unit_of_work() as session:
        session.get_one(Run, run_id).reason = RunReason.NOT_FOUND

    assert page(owner, run_id).ways.next == "extend"


def test_what_lies_on_the_machines_own_disk_is_handed_in(owner: Person) -> None:
    run_id = rented(owner, RunState.NEEDS_RECOVERY, MachineState.STOPPED, options={"storage": "pod"})
    with unit_of_work() as session:
        state, reason = AdapterUploadState.REFUSED, "../x leads out of the archive."
        shared = {"created_at": now_of(session), "organization_id": owner.organization_id}
        session.add(AdapterUpload(id=run_id, run_id=run_id, size=9, state=state, reason=reason, **shared))

    ways = page(owner, run_id).ways

    assert (ways.is_pod_local, ways.was_refused, ways.uploaded) == (True, True, "../x leads out of the archive.")
    assert "own disk" in ways.extend
    assert ("has not said" in ways.hand_in, ways.next) == (True, "cancel")


def test_what_was_fetched_before_the_pod_went_is_handed_in_all_the_same(owner: Person) -> None:
    run_id = rented(owner, RunState.NEEDS_RECOVERY, MachineState.RELEASED, options={"storage": "pod"})

    ways = page(owner, run_id).ways

    assert (ways.is_pod_local, "are gone" in ways.hand_in, ways.next) == (True, True, "cancel")


def test_where_the_pod_said_that_its_adapter_is_finished_handing_it_in_is_the_next_step(owner: Person) -> None:
    run_id = rented(owner, RunState.NEEDS_RECOVERY, MachineState.STOPPED, options={"storage": "pod"})
    with unit_of_work() as session:
        machine = session.exec(select(Machine).where(Machine.subject_id == run_id)).one()
        machine.result = asdict(Result(machine.name, 1, 1, Outcome.DONE, "now", 9.0, 100))

    seen = page(owner, run_id)

    assert ("runpodctl send" in seen.ways.hand_in, seen.ways.next) == (True, "verify")
    assert "own disk" in seen.trouble.lost
    assert "what was not fetched from it is lost" in seen.head.cancel_lead


@pytest.mark.parametrize("typed", ["", "soon", "0", "1000000"])
def test_a_limit_that_is_none_is_refused_with_its_range(owner: Person, typed: str) -> None:
    run_id = rented(owner, RunState.NEEDS_RECOVERY, MachineState.RELEASED)

    state = press(owner, run_id, "extend", {"maximum_runtime_hours": typed})

    assert "Maximum runtime must be above" in state.fields["maximum_runtime_hours"]


def test_a_longer_limit_queues_the_run_again(owner: Person) -> None:
    run_id = rented(owner, RunState.NEEDS_RECOVERY, MachineState.RELEASED)

    assert press(owner, run_id, "extend", {"maximum_runtime_hours": "12,5"}).error == ""

    assert page(owner, run_id).head.state == "queued"


def test_pause_and_resume(owner: Person) -> None:
    run_id = rented(owner, RunState.TRAINING, MachineState.HELD)
    assert page(owner, run_id).ways.pause == ""

    press(owner, run_id, "pause")

    seen = page(owner, run_id)
    assert (seen.head.state, press(owner, run_id, "resume").error) == ("paused", "")
    assert page(owner, run_id).head.state == "queued"


def test_a_viewer_is_refused_each_of_them(owner: Person, viewer: Person) -> None:
    run_id = rented(owner, RunState.NEEDS_RECOVERY, MachineState.RELEASED)

    for button in ("pause", "resume", "verify", "confirm_absent"):
        assert press(viewer, run_id, button).error != ""


def test_the_side_says_what_it_costs_and_which_number_that_is(owner: Person) -> None:
    seen = page(owner, rented(owner, RunState.TRAINING, MachineState.HELD, minutes=60))

    assert seen.cost.amount == "$1.72"
    assert seen.cost.words == "$1.72 estimated · billing pending"
    assert (seen.machine.price, seen.machine.place, seen.cost.cap) == ("$1.72/h", "2 × fake", "$10.32")


def test_an_evaluation_in_doubt_is_confirmed_absent_on_its_own_page(owner: Person, viewer: Person) -> None:
    with reading() as session:
        row = session.get_one(Run, make_run(owner.caller))
    path = routes.scorecard(row.project_id, make_scorer(owner.caller, row.project_id, row.version_id))
    seen = visit(EvaluationMachineState, owner, path, "enter", "load").scorer
    assert (seen.is_checking, seen.confirm_absent, seen.spend) == (True, "", "$0.86 estimated · billing pending")
    assert seen.terms.startswith("fake at $1.72/h, until ")

    assert visit(EvaluationMachineState, viewer, path, "enter", "load", "confirm_absent").error != ""
    done = visit(EvaluationMachineState, owner, path, "enter", "load", "confirm_absent")

    assert (done.error, done.scorer.is_checking) == ("", False)


def test_an_open_page_has_the_rented_machine_looked_at_often(owner: Person) -> None:
    run_id = rented(owner, RunState.TRAINING, MachineState.HELD)
    state = page(owner, run_id)
    found = run(state._see(state._look(**state._seen())))

    run(state._attend(found.run))

    with reading() as session:
        until = session.exec(select(Machine.watched_until)).one()
    assert until is not None
    assert until > clock.now()


def test_a_run_of_this_computer_is_free(owner: Person) -> None:
    assert page(owner, make_run(owner.caller)).cost.words == "Free, on this computer"


def test_a_run_at_work_is_given_more_time_without_a_break(owner: Person) -> None:
    run_id = rented(owner, RunState.TRAINING, MachineState.HELD)
    before = page(owner, run_id)
    assert before.ways.extend == ""

    assert press(owner, run_id, "extend", {"maximum_runtime_hours": "9"}).error == ""

    after = page(owner, run_id)
    assert (after.head.state, after.numbers.maximum, after.cost.cap) == ("training", "9 h", "$15.48")
    assert after.machine.deadline_exact > before.machine.deadline_exact
