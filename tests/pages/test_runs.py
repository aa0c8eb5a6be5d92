"""The list of runs and what can be done with a run from it."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from tensorant_app import routes
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.runs import RunState
from tensorant_app.pages.run_actions import RunActions
from tensorant_app.pages.run_rows import rows_of
from tensorant_app.pages.runs import RunsState, runs_page
from tensorant_app.services import run_list
from tensorant_app.services.run_list import Asked
from tests.factories import make_run
from tests.pages.conftest import visit
from tests.people import Person
from tests.states import call, move_to


@pytest.fixture
def run(owner: Person) -> Run:
    run_id = make_run(owner.caller, findings=[{"check": "rows", "verdict": "refuse", "sentence": "Too long."}])
    with reading() as session:
        return session.get_one(Run, run_id)


def state_of(run_id: UUID) -> RunState:
    with reading() as session:
        return session.get_one(Run, run_id).state


def test_the_page_can_be_drawn() -> None:
    assert "Configure a run" in str(runs_page().render())


def test_the_address_says_what_is_shown(viewer: Person, run: Run) -> None:
    here = routes.runs(run.project_id)

    plain = visit(RunsState, viewer, here, "load")
    none = visit(RunsState, viewer, f"{here}?group=live&sort=name&order=up&page=7", "load")
    odd = visit(RunsState, viewer, f"{here}?group=x&sort=y&page=z&version=w", "load")

    assert [row.name for row in plain.rows] == ["First"]
    assert (plain.rows[0].under, plain.rows[0].is_draft, plain.rows[0].percent) == ("Too long.", True, -1)
    assert plain.counts == {"all": "1", "live": "0", "needs_you": "0", "drafts": "1", "ended": "0"}
    assert (none.group, none.sort, none.is_descending, none.rows, none.has_any) == ("live", "name", False, [], True)
    assert (odd.group, odd.sort, odd.page, len(odd.rows)) == ("all", "created", 1, 1)


def test_another_organizations_list_is_not_there(stranger: Person, run: Run) -> None:
    state = visit(RunsState, stranger, routes.runs(run.project_id), "load")

    assert state.error
    assert (state.rows, state.has_any) == ([], False)


def test_filters_become_the_address(owner: Person, run: Run) -> None:
    state = visit(RunsState, owner, f"{routes.runs(run.project_id)}?group=drafts&page=2", "load")

    asyncio.run(call(state, "narrow", "search", "fir"))

    assert state.error == ""
    assert state.search == "fir"


def test_every_state_has_its_words(owner: Person, run: Run) -> None:
    for state in RunState:
        with unit_of_work() as session:
            row = session.get_one(Run, run.id)
            row.state, row.findings = state, None
        with reading() as session:
            page = run_list.list_page(session, owner.caller, run.project_id, Asked())
        (shown,) = rows_of(page, str(run.project_id))
        assert shown.under or state in {
            RunState.COMPLETED,
            RunState.NO_GAIN,
            RunState.FAILED,
            RunState.REFUSED,
            RunState.CANCELLED,
            RunState.NEEDS_RECOVERY,
            RunState.TRAINING,
        }


def test_a_launch_is_asked_for_and_confirmed(owner: Person, run: Run) -> None:
    state = visit(RunActions, owner, "/")
    asyncio.run(call(state, "ask_launch", str(run.id)))
    assert (state.is_launch_open, state.launch.name, state.launch.limit) == (True, "First", "6 h")
    assert state.launch.queue == "0 of 2 slots are in use. It starts at once."

    asyncio.run(call(state, "score_after", False))
    asyncio.run(call(state, "start"))

    with reading() as session:
        launched = session.get_one(Run, run.id)
    assert (launched.state, launched.evaluates, state.is_launch_open) == (RunState.QUEUED, False, False)
    asyncio.run(call(state, "start"))
    assert "queued" in state.error


def test_a_question_that_is_left_from_another_runs_page_starts_nothing(owner: Person, run: Run) -> None:
    other = make_run(owner.caller, name="Second", project_id=run.project_id)
    state = visit(RunActions, owner, routes.run(run.project_id, run.id))
    asyncio.run(call(state, "ask_launch", str(run.id)))
    move_to(state, routes.run(run.project_id, other))

    asyncio.run(call(state, "start"))

    assert "Nothing was started" in state.error
    assert not state.is_launch_open
    assert {state_of(run.id), state_of(other)} == {RunState.DRAFT}


@pytest.mark.parametrize("handler", ["ask_launch", "retry", "copy"])
def test_viewers_and_strangers_do_nothing_with_a_run(viewer: Person, stranger: Person, run: Run, handler: str) -> None:
    for person in (viewer, stranger):
        state = visit(RunActions, person, "/")
        asyncio.run(call(state, handler, str(run.id)))
        assert state.error
        assert not state.is_launch_open
    assert state_of(run.id) is RunState.DRAFT


def test_a_run_is_renamed(owner: Person, viewer: Person, run: Run) -> None:
    for person, name in ((owner, "Better"), (viewer, "Worse")):
        state = visit(RunActions, person, "/")
        asyncio.run(call(state, "ask_rename", str(run.id), "First"))
        asyncio.run(call(state, "rename", {"new-name": name}))
        assert bool(state.error) == (person is viewer) == state.is_rename_open

    with reading() as session:
        assert session.get_one(Run, run.id).name == "Better"
