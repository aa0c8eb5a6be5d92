"""Forms that are not saved yet, and drafts made of them and of other runs."""

from __future__ import annotations

from uuid import UUID

import pytest

from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Forbidden, Invalid, NotFound
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.members import Caller, Role
from tensorant_app.domain.runs import RunState
from tensorant_app.services import drafts
from tests.conftest import NOON, Clock
from tests.factories import ask_machine, make_caller, make_run


@pytest.fixture
def run_id(caller: Caller) -> UUID:
    return make_run(caller)


@pytest.fixture
def run(run_id: UUID) -> Run:
    with reading() as session:
        return session.get_one(Run, run_id)


def test_a_form_begins_with_the_newest_version_its_baseline_and_a_name(caller: Caller, run: Run) -> None:
    with reading() as session:
        form = drafts.show_form(session, caller, run.project_id)

    assert (form.typed["version"], form.typed["baseline"]) == (str(run.version_id), str(run.baseline_id))
    assert form.typed["name"] == "tickets-v1-r2"
    assert form.kept_at is None
    assert form.baselines[0].label == "tiny-llama on v1, 10.0 % exact"


def test_what_is_typed_is_kept_right_or_wrong_for_this_member_alone(caller: Caller, run: Run, clock: Clock) -> None:
    other = make_caller(Role.MEMBER, organization_id=caller.organization_id)
    with unit_of_work() as session:
        drafts.keep_form(session, caller, run.project_id, {"epochs": "many", "unknown": "x", "name": "y" * 900})
    clock.advance(minutes=1)
    with unit_of_work() as session:
        at = drafts.keep_form(session, caller, run.project_id, {"epochs": "4 hundred"})

    with reading() as session:
        mine = drafts.show_form(session, caller, run.project_id)
        theirs = drafts.show_form(session, other, run.project_id)

    assert (mine.typed["epochs"], theirs.typed["epochs"]) == ("4 hundred", "3")
    assert mine.kept_at == at == clock.at
    assert "unknown" not in mine.typed


def test_saving_makes_a_draft_of_it_and_forgets_the_form(caller: Caller, run: Run) -> None:
    with unit_of_work() as session:
        typed = {**drafts.show_form(session, caller, run.project_id).typed, "epochs": "5"}
        drafts.keep_form(session, caller, run.project_id, typed)
        made = drafts.save_form(session, caller, run.project_id, typed)

    with reading() as session:
        saved, form = session.get_one(Run, made), drafts.show_form(session, caller, run.project_id)
    assert (saved.state, saved.settings["epochs"], saved.version_id) == (RunState.DRAFT, 5, run.version_id)
    assert (form.typed["epochs"], form.kept_at) == ("3", None)


def test_every_field_that_cannot_be_used_is_named(caller: Caller, run: Run) -> None:
    theirs = make_run(make_caller())
    with reading() as session:
        foreign = session.get_one(Run, theirs)
    typed = {"name": " ", "epochs": "400", "version": str(foreign.version_id), "baseline": "nonsense"}

    with pytest.raises(Invalid) as refusal, unit_of_work() as session:
        drafts.save_form(session, caller, run.project_id, typed)

    assert set(refusal.value.fields) == {"name", "epochs", "version", "baseline"}


def test_a_name_can_change_and_nothing_else(caller: Caller, run: Run) -> None:
    with unit_of_work() as session:
        drafts.rename_run(session, caller, run.id, "  Better ")
    with pytest.raises(Invalid, match="needs a name"), unit_of_work() as session:
        drafts.rename_run(session, caller, run.id, " ")

    with reading() as session:
        renamed = session.get_one(Run, run.id)
    assert (renamed.name, renamed.settings) == ("Better", run.settings)


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.CANCELLED])
def test_a_retry_has_the_same_settings_and_another_name(caller: Caller, state: RunState) -> None:
    failed = make_run(caller, state=state, name="First")
    with unit_of_work() as session:
        first = drafts.create_retry_draft(session, caller, failed)
        second = drafts.create_retry_draft(session, caller, failed)

    with reading() as session:
        old, new, next_one = (session.get_one(Run, key) for key in (failed, first.id, second.id))
    assert (new.state, new.settings, new.gate) == (RunState.DRAFT, old.settings, old.gate)
    assert (new.name, next_one.name) == ("First retry", "First retry 2")


@pytest.mark.parametrize("state", [state for state in RunState if state not in {RunState.FAILED, RunState.CANCELLED}])
def test_only_a_failed_or_cancelled_run_is_tried_again(caller: Caller, state: RunState) -> None:
    run_id = make_run(caller, state=state)

    with pytest.raises(Conflict, match="Configure another like this"), unit_of_work() as session:
        drafts.create_retry_draft(session, caller, run_id)


def test_no_retry_while_its_machine_may_still_be_there(caller: Caller) -> None:
    failed = make_run(caller, state=RunState.FAILED)
    machine_id = ask_machine(caller, failed, NOON)
    with pytest.raises(Conflict, match="not proved released"), unit_of_work() as session:
        drafts.create_retry_draft(session, caller, failed)

    with unit_of_work() as session:
        session.get_one(Machine, machine_id).state = MachineState.RELEASED
    with unit_of_work() as session:
        assert drafts.create_retry_draft(session, caller, failed)


def test_another_like_this_fills_the_form(caller: Caller, run: Run) -> None:
    with unit_of_work() as session:
        session.get_one(Run, run.id).settings = {**run.settings, "rank": 64, "packing": False}
    with unit_of_work() as session:
        assert drafts.copy_to_form(session, caller, run.id) == run.project_id

    with reading() as session:
        typed = drafts.show_form(session, caller, run.project_id).typed
    assert (typed["rank"], typed["packing"], typed["baseline"]) == ("64", "off", str(run.baseline_id))


def test_viewers_and_strangers_keep_and_save_nothing(caller: Caller, run: Run) -> None:
    viewer = make_caller(Role.VIEWER, organization_id=caller.organization_id)
    stranger = make_caller()
    for somebody, refusal in ((viewer, Forbidden), (stranger, NotFound)):
        for work in (
            lambda session, who: drafts.keep_form(session, who, run.project_id, {}),
            lambda session, who: drafts.save_form(session, who, run.project_id, {}),
            lambda session, who: drafts.forget_form(session, who, run.project_id),
            lambda session, who: drafts.rename_run(session, who, run.id, "x"),
            lambda session, who: drafts.create_retry_draft(session, who, run.id),
            lambda session, who: drafts.copy_to_form(session, who, run.id),
        ):
            with pytest.raises(refusal), unit_of_work() as session:
                work(session, somebody)
