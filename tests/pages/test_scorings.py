"""The dialog that starts an evaluation: where, at which price, for how long at most; and what comes of confirming it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlmodel import col, select

from tensorant_app import routes
from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.offers import OfferList
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import ConnectionKind
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.runs import RunPurpose, RunState
from tensorant_app.pages.run_state import RunPageState
from tensorant_app.pages.scorings import ScoringState
from tensorant_app.services import offers, training
from tensorant_app.settings import get_settings
from tests.factories import connect, make_run
from tests.faults.console import IMAGE
from tests.pages.conftest import visit
from tests.pages.test_gpu_list import FOUND
from tests.people import Person
from tests.states import call, move_to, run

PLACE = Placement("runpod", ("NVIDIA L40S",), 2, HourlyRate.dollars("4.00"))


@pytest.fixture
def run_id(owner: Person, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """Of an organization with an account, whose catalog is known."""
    monkeypatch.setenv("TENSORANT_TRAINER_IMAGE", IMAGE)
    get_settings.cache_clear()
    with unit_of_work() as session:
        compute = connect(session, owner.organization_id)
        connect(session, owner.organization_id, ConnectionKind.RUNPOD_STORAGE)
        offers.note_offers(session, compute.id, 1, FOUND, "")
    return make_run(owner.caller, state=RunState.ADAPTER_READY, attempt=1, placement=PLACE.as_values())


def project_of(run_id: UUID) -> UUID:
    with reading() as session:
        return session.get_one(Run, run_id).project_id


def baseline_dialog(person: Person, run_id: UUID) -> Any:
    return visit(ScoringState, person, routes.baseline(project_of(run_id)), "enter", "ask_base")


def adapter_dialog(person: Person, run_id: UUID) -> Any:
    state = visit(ScoringState, person, routes.run(project_of(run_id), run_id), "enter")
    do(state, "ask_adapter", str(run_id))
    return state


def do(state: Any, handler: str, *arguments: Any) -> None:
    run(call(state, handler, *arguments))


def newest(run_id: UUID) -> Evaluation:
    with reading() as session:
        query = select(Evaluation).where(Evaluation.project_id == project_of(run_id))
        return session.exec(query.order_by(col(Evaluation.created_at).desc())).first()  # type: ignore[return-value]


def test_a_baseline_is_offered_at_the_account_with_price_and_cap(owner: Person, run_id: UUID) -> None:
    tab = baseline_dialog(owner, run_id)

    assert (tab.is_open, tab.typed["provider"], tab.typed["gpu_type"]) == (True, "runpod", "NVIDIA L4")
    assert (tab.card.price, tab.card.cap, tab.card.limit) == ("$0.39", "$0.78", "2 h")
    assert (tab.card.machine, tab.card.billed) == ("1 × L4 in EU-RO-1", "RunPod account …1234")
    assert tab.card.confirm == "Launch GPU · about $0.78 if all time is used"


def test_what_was_confirmed_is_where_it_is_answered_and_for_how_long(owner: Person, run_id: UUID) -> None:
    tab = baseline_dialog(owner, run_id)
    do(tab, "choose", "gpu_type", "NVIDIA L40S")
    do(tab, "choose", "hours", "0.5")
    assert (tab.card.cap, tab.card.confirm[:26]) == ("$0.43", "Launch GPU · about $0.43 i")

    do(tab, "start")

    assert (tab.error, tab.reasons, tab.is_open) == ("", [], False)
    row = newest(run_id)
    place = Placement.of(row.placement or {})
    assert (row.state, row.maximum_runtime_hours) == (EvaluationState.QUEUED, 0.5)
    assert (place.provider, place.gpu_types, place.gpu_count) == ("runpod", ("NVIDIA L40S",), 1)
    assert place.rate_limit == HourlyRate.dollars("5.00")


def test_an_adapter_whose_version_has_rows_on_two_sides_is_scored_with_the_numbers_in_sight(
    owner: Person, run_id: UUID
) -> None:
    assert adapter_dialog(owner, run_id).leaks == ""
    shared = {"likeness": "exact", "split": "test", "against": "train", "rows": 3, "of": 10, "shown": [[2, 5]]}
    with unit_of_work() as session:
        version = session.get_one(DatasetVersion, session.get_one(Run, run_id).version_id)
        version.report = {**(version.report or {}), "repeats": [shared]}

    tab = adapter_dialog(owner, run_id)

    assert tab.leaks == "3 of 10 test rows stand in training as well: 3 exactly."


def test_on_this_computer_it_is_free(owner: Person, run_id: UUID) -> None:
    tab = baseline_dialog(owner, run_id)
    do(tab, "choose", "provider", "local")
    assert (tab.card.price, tab.card.billed, tab.card.confirm) == ("$0", "Nobody", "Start baseline · $0")

    do(tab, "start")

    assert Placement.of(newest(run_id).placement or {}).provider == "local"


def test_a_field_that_cannot_be_read_says_so_and_nothing_starts(owner: Person, run_id: UUID) -> None:
    tab = baseline_dialog(owner, run_id)
    before = newest(run_id).id
    do(tab, "choose", "hours", "200")
    do(tab, "choose", "price_limit", "much")

    do(tab, "start")

    assert tab.card.can_confirm is False
    assert "between 0.1 and 72 hours" in tab.wrong["hours"]
    assert "must be a number" in tab.wrong["price_limit"]
    assert tab.is_open
    assert newest(run_id).id == before


def test_a_price_that_rose_since_it_was_shown_is_not_paid(owner: Person, run_id: UUID) -> None:
    tab = baseline_dialog(owner, run_id)
    before = newest(run_id).id
    dearer = [replace(offer, rate=HourlyRate.dollars("0.95")) for offer in FOUND]
    with unit_of_work() as session:
        offers.note_offers(session, session.exec(select(OfferList.connection_id)).one(), 1, dearer, "")

    do(tab, "start")

    assert tab.error == "The price rose from $0.39/h to $0.95/h since it was shown."
    assert newest(run_id).id == before


def test_a_limit_below_the_price_and_a_budget_below_the_cap_refuse(owner: Person, run_id: UUID) -> None:
    tab = baseline_dialog(owner, run_id)
    do(tab, "choose", "price_limit", "0.20")
    assert "above the limit of $0.20/h" in tab.card.problem
    do(tab, "start")
    assert any("the limit is $0.20/h" in reason for reason in tab.reasons)

    with unit_of_work() as session:
        session.get_one(Project, project_of(run_id)).monthly_budget = Money.dollars("0.50")
    do(tab, "choose", "price_limit", "5.00")
    do(tab, "start")

    assert any("are left this month" in reason for reason in tab.reasons)


def test_a_ready_adapter_is_scored_where_its_files_lie(owner: Person, run_id: UUID) -> None:
    tab = adapter_dialog(owner, run_id)
    assert (tab.card.title, tab.card.machine) == ("Score the adapter of First?", "1 × L40S in EU-RO-1")
    do(tab, "choose", "provider", "local")
    assert tab.typed["provider"] == "runpod"

    do(tab, "start")

    assert (tab.error, tab.reasons) == ("", [])
    with unit_of_work() as session:
        training.score_adapter(session, run_id)
    with reading() as session:
        row = session.get_one(Run, run_id)
        assert row.state is RunState.EVALUATING
        assert row.evaluation_id is not None
        assert session.get_one(Evaluation, row.evaluation_id).baseline_id == row.baseline_id


def test_an_adapter_is_not_scored_twice_at_a_time_nor_a_trials_at_all(owner: Person, run_id: UUID) -> None:
    tab = adapter_dialog(owner, run_id)
    do(tab, "start")
    do(tab, "start")
    assert tab.error == "This adapter is being scored already."

    trial = make_run(owner.caller, state=RunState.ADAPTER_READY, purpose=RunPurpose.TRIAL)
    assert "diagnostic" in adapter_dialog(owner, trial).error


def test_after_a_failed_evaluation_the_adapter_stays_ready_until_somebody_asks(owner: Person, run_id: UUID) -> None:
    do(adapter_dialog(owner, run_id), "start")
    with unit_of_work() as session:
        row = session.get_one(Run, run_id)
        assert row.evaluation_id is not None
        session.get_one(Evaluation, row.evaluation_id).state = EvaluationState.FAILED
        training.score_adapter(session, run_id)
        assert row.state is RunState.ADAPTER_READY

    page = visit(RunPageState, owner, routes.run(project_of(run_id), run_id), "enter", "load")

    assert page.trouble.what == "The adapter is safe, and it has no score."
    assert adapter_dialog(owner, run_id).is_open


def test_a_question_that_is_left_from_the_baseline_page_starts_nothing_on_a_runs(owner: Person, run_id: UUID) -> None:
    state = baseline_dialog(owner, run_id)
    move_to(state, routes.run(project_of(run_id), run_id))
    with reading() as session:
        before = set(session.exec(select(Evaluation.id)))

    run(call(state, "start"))

    assert "Nothing was started" in state.error
    assert not state.is_open
    with reading() as session:
        assert set(session.exec(select(Evaluation.id))) == before


def test_a_viewer_starts_nothing(viewer: Person, owner: Person, run_id: UUID) -> None:
    assert baseline_dialog(viewer, run_id).is_open is False
    assert adapter_dialog(viewer, run_id).error != ""


def test_without_a_network_volume_it_is_answered_on_this_computer(owner: Person) -> None:
    run_id = make_run(owner.caller)
    with unit_of_work() as session:
        compute = connect(session, owner.organization_id)
        offers.note_offers(session, compute.id, 1, FOUND, "")

    tab = baseline_dialog(owner, run_id)
    assert (tab.typed["provider"], tab.card.is_connected) == ("local", False)
    do(tab, "choose", "provider", "runpod")
    do(tab, "start")

    assert tab.error == "An evaluation on RunPod needs a network volume."
