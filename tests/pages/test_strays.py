"""Machines that no run knows, the account, and what the month has taken: what the overview and Connections say of them."""

from __future__ import annotations

from uuid import UUID

import pytest

from tensorant_app import routes
from tensorant_app.db import clock
from tensorant_app.db.accounts import StrayMachine
from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.domain.connections import ConnectionState
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.runs import RunState
from tensorant_app.pages.evaluations import EvaluationsState
from tensorant_app.pages.overview import OverviewState
from tensorant_app.pages.runs import RunsState
from tensorant_app.pages.strays import StraysState
from tests.factories import ask_machine, connect, make_run, make_stray
from tests.pages.conftest import visit
from tests.people import Person
from tests.states import call, run


@pytest.fixture
def stray(owner: Person) -> UUID:
    with unit_of_work() as session:
        account = connect(session, owner.organization_id, state=ConnectionState.FAILED, sentence="The key was refused.")
        return make_stray(session, owner.organization_id, account.id, name="tune-x", provider_id="pod1").id


def project_of(run_id: UUID) -> UUID:
    with reading() as session:
        return session.get_one(Run, run_id).project_id


def test_an_unknown_machine_is_listed_with_its_price_and_since_when(owner: Person, stray: UUID) -> None:
    (row,) = visit(StraysState, owner, routes.CONNECTIONS, "enter", "load").rows

    assert (row.id, row.name) == (str(stray), "tune-x")
    assert row.under == "Pod pod1 · RUNNING · $0.86/h · first seen 2 h ago"


def test_a_person_ends_it_and_the_list_says_so(owner: Person, viewer: Person, stray: UUID) -> None:
    for person, has_refusal in ((viewer, True), (owner, False)):
        tab = visit(StraysState, person, routes.CONNECTIONS, "enter", "load")
        run(call(tab, "ask_terminate", str(stray), "tune-x"))
        run(call(tab, "terminate"))
        assert (bool(tab.error), bool(tab.ending)) == (has_refusal, has_refusal)

    assert tab.rows[0].is_ending
    with reading() as session:
        assert session.get_one(StrayMachine, stray).terminate_wanted_at is not None


def test_others_never_see_it(stranger: Person, stray: UUID) -> None:
    assert visit(StraysState, stranger, routes.CONNECTIONS, "enter", "load").rows == []


def test_the_overview_asks_about_it_and_shows_account_slots_and_month(owner: Person, stray: UUID) -> None:
    run_id = make_run(owner.caller, state=RunState.CANCELLED)
    machine_id = ask_machine(owner.caller, run_id, clock.now())
    with unit_of_work() as session:
        row = session.get_one(Machine, machine_id)
        row.state, row.rate = MachineState.RELEASE_FAILED, HourlyRate.dollars("2")
        row.ask_sent_at, row.deadline = now_of(session), now_of(session)

    state = visit(OverviewState, owner, routes.overview(project_of(run_id)), "load")

    assert (state.needs[0].sentence, state.needs[0].href) == ("tune-x runs for $0.86/h.", routes.CONNECTIONS)
    assert (state.compute.state, state.compute.sentence) == ("failed", "The key was refused.")
    assert (state.compute.slots, state.month.is_free) == ("1 of 2", False)


def test_lists_say_what_was_spent_and_nothing_where_nothing_was_rented(owner: Person) -> None:
    run_id = make_run(owner.caller, state=RunState.TRAINING, attempt=1)
    machine_id = ask_machine(owner.caller, run_id, clock.now())
    with unit_of_work() as session:
        row = session.get_one(Machine, machine_id)
        row.rate, row.ask_sent_at, row.released_at = HourlyRate.dollars("3600"), now_of(session), now_of(session)

    (line,) = visit(RunsState, owner, routes.runs(project_of(run_id)), "enter", "load").rows
    (baseline,) = visit(EvaluationsState, owner, routes.evaluations(project_of(run_id)), "enter", "load").rows

    assert (line.spent, line.spent_word) == ("$0.00", "estimated")
    assert (baseline.spent, baseline.spent_word) == ("", "")
