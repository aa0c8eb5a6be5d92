"""What stands around every page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tensorant_app.db.accounts import Account
from tensorant_app.db.machines import Machine
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.wording import count
from tensorant_app.pages.baseline import BaselineState
from tensorant_app.pages.frame import ProjectState
from tensorant_app.pages.imports import ImportPageState
from tensorant_app.pages.machine_actions import MachineActions
from tensorant_app.pages.run_actions import RunActions
from tensorant_app.pages.scorings import ScoringState
from tensorant_app.pages.versions import VersionPageState
from tensorant_app.pages.words import ago, parameters, share, size, span
from tensorant_app.state import AppState
from tests.factories import ask_machine, connect, make_project, make_run
from tests.pages.conftest import visit
from tests.people import Person
from tests.states import call, run

NOW = datetime.now(UTC)


def test_the_frame_knows_the_project_of_the_address_and_its_neighbours(owner: Person) -> None:
    with unit_of_work() as session:
        first = make_project(session, owner.organization_id)
        second = make_project(session, owner.organization_id)

    state = visit(ProjectState, owner, f"/projects/{first.id}/data", "enter", "open")

    assert (state.project.id, state.is_there, state.error) == (str(first.id), True, "")
    assert {link.id for link in state.projects} == {str(first.id), str(second.id)}
    assert state.viewer.organization == "Acme"


@pytest.mark.parametrize("path", ["/projects", "/projects/new", "/account"])
def test_outside_a_project_it_shows_only_the_organization(owner: Person, path: str) -> None:
    state = visit(ProjectState, owner, path, "enter", "open")

    assert (state.project.id, state.is_there) == ("", True)


@pytest.mark.parametrize("thing", ["theirs", "nonsense"])
def test_an_address_of_another_organization_leads_nowhere(owner: Person, stranger: Person, thing: str) -> None:
    with unit_of_work() as session:
        project = make_project(session, owner.organization_id)
    text = str(project.id) if thing == "theirs" else "nonsense"

    state = visit(ProjectState, stranger, f"/projects/{text}", "enter", "open")

    assert state.error
    assert (state.project.id, state.is_there, state.projects) == ("", False, [])


def test_machines_at_work_and_machines_nobody_got_rid_of_are_told_apart(owner: Person) -> None:
    working = ask_machine(owner.caller, make_run(owner.caller), NOW)
    stuck = ask_machine(owner.caller, make_run(owner.caller), NOW)
    with unit_of_work() as session:
        machine = session.get_one(Machine, stuck)
        machine.state, machine.release_wanted_at = MachineState.RELEASE_FAILED, now_of(session) - timedelta(minutes=6)
        name = machine.name
        assert session.get_one(Machine, working).state is MachineState.ASKED

    state = visit(ProjectState, owner, "/projects", "enter", "open")

    assert state.running == "1 running"
    (alarm,) = state.alarms
    assert alarm.words.startswith(f"The machine {name} (fake) is not confirmed released, asked 6 min ago")
    assert (alarm.has_failed, alarm.href.endswith(name.removeprefix("tune-"))) == (True, True)


def test_whoever_sees_the_banner_sends_the_delete_call_again(owner: Person, viewer: Person) -> None:
    stuck = ask_machine(owner.caller, make_run(owner.caller), NOW)
    with unit_of_work() as session:
        machine = session.get_one(Machine, stuck)
        machine.state, machine.release_wanted_at = MachineState.RELEASE_FAILED, now_of(session)

    for person, has_refusal, state in (
        (viewer, True, MachineState.RELEASE_FAILED),
        (owner, False, MachineState.RELEASING),
    ):
        tab = visit(MachineActions, person, "/projects", "enter")
        run(call(tab, "retry_cleanup", str(stuck)))
        assert bool(tab.error) is has_refusal
        with reading() as session:
            assert session.get_one(Machine, stuck).state is state


def test_a_refused_key_is_said_on_every_page_until_the_account_answers(owner: Person) -> None:
    with unit_of_work() as session:
        account = connect(session, owner.organization_id)
        words = "RunPod refused the key."
        session.add(Account(id=account.id, organization_id=owner.organization_id, problem=words, is_refused=True))

    assert visit(ProjectState, owner, "/projects", "enter", "open").refused_key == words
    with unit_of_work() as session:
        session.get_one(Account, account.id).is_refused = False

    assert visit(ProjectState, owner, "/projects", "enter", "open").refused_key == ""


@pytest.mark.parametrize(
    ("kind", "handler", "left_open"),
    [
        (RunActions, "close", {"is_launch_open": True, "is_rename_open": True}),
        (BaselineState, "load", {"asks_cancel": "some"}),
        (ScoringState, "close", {"is_open": True}),
        (ImportPageState, "load", {"asks_cancel": True}),
        (VersionPageState, "load", {"asks_freeze": True}),
    ],
)
def test_a_dialog_that_stood_open_is_closed_when_a_page_is_opened(
    owner: Person, kind: type[AppState], handler: str, left_open: dict[str, object]
) -> None:
    state = visit(kind, owner, "/projects/nonsense", "enter", handler, **left_open)

    assert not any(getattr(state, name) for name in left_open)


def test_words_for_numbers() -> None:
    assert [span(timedelta(seconds=s)) for s in (5, 61, 7200, 200_000)] == ["5 s", "1 min", "2 h", "2 d"]
    assert ago(NOW - timedelta(seconds=3), NOW) == "just now"
    assert ago(None) == ""
    assert (count(1, "row"), count(4312, "row")) == ("1 row", "4,312 rows")
    assert (share(1, 3), share(0, 0)) == ("33.3 %", "–")
    assert [size(n) for n in (37, 84_000, 2_400_000, 1_300_000_000)] == ["37 B", "84 kB", "2.4 MB", "1.3 GB"]
    assert (parameters(135_000_000), parameters(8_200_000_000)) == ("135 M", "8.2 B")
