"""The GPUs in Configure: judged for what is typed, kept fresh while somebody looks, chosen and saved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlmodel import col, select

from tensorant_app import routes
from tensorant_app.db.offers import OfferList
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import ConnectionKind
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.offers import Offer, Stock
from tensorant_app.domain.placement import Placement
from tensorant_app.pages.configure_state import ConfigureState
from tensorant_app.pages.gpu_list import GpuListState
from tensorant_app.services import offers
from tests.factories import connect, make_run
from tests.pages.conftest import visit
from tests.people import Person
from tests.states import call, make_state, run

GIB = 1024**3
L40S = Offer(
    "NVIDIA L40S",
    "L40S",
    48 * GIB,
    HourlyRate.dollars("0.86"),
    max_count=8,
    stock=Stock.HIGH,
    data_centers={"EU-RO-1": Stock.HIGH},
    capability="8.9",
    cuda_versions=("12.8",),
)
FOUND = [
    L40S,
    replace(L40S, gpu_type="NVIDIA L4", label="L4", rate=HourlyRate.dollars("0.39"), memory_bytes=24 * GIB),
    replace(L40S, gpu_type="NVIDIA GH200", label="GH200", arch="arm64"),
]


@pytest.fixture
def project_id(owner: Person) -> UUID:
    run_id = make_run(owner.caller)
    with unit_of_work() as session:
        compute = connect(session, owner.organization_id)
        connect(session, owner.organization_id, ConnectionKind.RUNPOD_STORAGE)
        offers.note_offers(session, compute.id, 1, FOUND, "")
        return session.get_one(Run, run_id).project_id


def form(person: Person, project_id: UUID) -> Any:
    return visit(ConfigureState, person, routes.configure(project_id), "enter", "load")


def gpu_list(person: Person, project_id: UUID) -> Any:
    return visit(GpuListState, person, routes.configure(project_id), "enter", "load")


def do(state: Any, handler: str, *arguments: Any) -> None:
    run(call(state, handler, *arguments))


def test_a_new_form_begins_at_runpod_with_the_cheapest_recommended(owner: Person, project_id: UUID) -> None:
    tab, listed = form(owner, project_id), gpu_list(owner, project_id)

    assert (tab.typed["provider"], tab.typed["gpu_type"]) == ("runpod", "NVIDIA L4")
    assert [one.title for one in listed.choices] == ["L4", "L40S"]
    assert listed.choices[0].note.startswith("High stock · Recommended: the cheapest")
    assert [(one.title, "arm64" in one.note, one.disabled) for one in listed.others] == [("GH200", True, True)]
    assert (listed.cost.price, listed.cost.cap, listed.age) == ("$0.39/h", "$2.34", "3 types, prices of just now")


def test_count_and_limit_change_the_prices_and_the_reasons(owner: Person, project_id: UUID) -> None:
    tab = form(owner, project_id)
    do(tab, "choose", "gpu_count", "4")
    do(tab, "type_in", "price_limit", "3.00")

    listed = gpu_list(owner, project_id)

    assert (listed.count, listed.cost.price, listed.cost.cap) == (4, "$1.56/h", "$9.36")
    assert "above the limit of $3.00/h" in next(one.note for one in listed.others if one.title == "L40S")
    assert tab.summary.batch == "64"


def test_another_place_brings_its_own_gpu(owner: Person, project_id: UUID) -> None:
    tab = form(owner, project_id)
    do(tab, "choose", "provider", "local")
    assert (tab.typed["provider"], gpu_list(owner, project_id).is_rented) == ("local", False)

    do(tab, "choose", "provider", "runpod")

    assert tab.typed["gpu_type"] == "NVIDIA L4"


def test_what_is_chosen_is_saved(owner: Person, project_id: UUID) -> None:
    tab = form(owner, project_id)
    do(tab, "choose", "gpu_type", "NVIDIA L40S")
    do(tab, "save")

    assert tab.error == ""
    with reading() as session:
        saved = session.exec(select(Run).order_by(col(Run.created_at).desc(), col(Run.id).desc())).all()
    places = [Placement.of(one.placement or {}) for one in saved]
    assert ("NVIDIA L40S",) in [place.gpu_types for place in places]


def test_an_arm_machine_sent_past_the_list_is_refused(owner: Person, project_id: UUID) -> None:
    tab = form(owner, project_id)
    do(tab, "choose", "gpu_type", "NVIDIA GH200")

    do(tab, "save")

    assert "arm64" in tab.wrong["gpu_type"]


def test_looking_keeps_the_count_that_is_chosen_fresh(owner: Person, project_id: UUID) -> None:
    tab = form(owner, project_id)
    do(tab, "choose", "gpu_count", "2")
    listed = gpu_list(owner, project_id)

    do(listed, "refresh")

    assert listed.age == "Asking RunPod …"
    with reading() as session:
        wanted = session.exec(select(OfferList).where(col(OfferList.wanted_at).is_not(None))).all()
    assert [row.gpu_count for row in wanted] == [2]


def test_without_an_account_it_says_so_and_the_form_stays_here(owner: Person) -> None:
    run_id = make_run(owner.caller)
    with reading() as session:
        project_id = session.get_one(Run, run_id).project_id

    tab, listed = form(owner, project_id), gpu_list(owner, project_id)

    assert tab.typed["provider"] == "local"
    assert (listed.is_connected, listed.choices) == (False, [])


def test_a_stranger_sees_nothing_of_it(stranger: Person, project_id: UUID) -> None:
    listed = make_state(GpuListState, stranger.cookies, routes.configure(project_id))

    do(listed, "show")

    assert (listed.choices, bool(listed.error)) == ([], True)
