"""The page of outside accounts: the owner changes them, everybody sees how they are, and no secret stays anywhere."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tensorant_app import routes
from tensorant_app.db.session import unit_of_work
from tensorant_app.domain.connections import ConnectionKind
from tensorant_app.domain.members import Role
from tensorant_app.pages.connections import ConnectionsState, connections_page
from tensorant_app.services import connecting
from tensorant_app.services.connecting import CheckResult, ConnectionState, VolumeFacts
from tests.factories import SECRETS, connect
from tests.pages.conftest import visit
from tests.people import Person, make_person
from tests.states import call, run, variables

COMPUTE, STORAGE = ConnectionKind.RUNPOD_COMPUTE, ConnectionKind.RUNPOD_STORAGE
PLACE = {"data_center": "EU-RO-1", "volume_id": "vol123abc"}


def open_page(person: Person) -> Any:
    return visit(ConnectionsState, person, routes.CONNECTIONS, "enter", "load")


def do(state: Any, handler: str, *arguments: Any) -> None:
    run(call(state, handler, *arguments))


def test_the_page_can_be_drawn() -> None:
    assert "RunPod compute" in str(connections_page().render())


def test_an_owner_connects_and_the_check_is_awaited(owner: Person) -> None:
    tab = open_page(owner)
    assert not tab.compute.is_there
    do(tab, "edit", COMPUTE.value)

    do(tab, "save_compute", SECRETS[COMPUTE])

    assert (tab.error, tab.edits, tab.compute.last_four, tab.compute.state) == ("", "", "1234", "unchecked")


def test_no_secret_stays_in_the_state(owner: Person) -> None:
    tab = open_page(owner)
    do(tab, "save_compute", SECRETS[COMPUTE])
    do(tab, "save_storage", {**PLACE, **SECRETS[STORAGE]})
    do(tab, "save_storage", {**PLACE, **SECRETS[STORAGE], "data_center": "nowhere"})

    kept = pickle.dumps(variables(tab)) + pickle.dumps(repr(vars(tab)))

    assert tab.fields == {"data_center": "Data center nowhere has no S3 address; choose one of the list."}
    for secrets in SECRETS.values():
        for secret in secrets.values():
            assert secret.encode() not in kept


def test_a_checked_volume_says_what_it_costs(owner: Person, viewer: Person) -> None:
    with unit_of_work() as session:
        row = connect(session, owner.organization_id, STORAGE)
        facts = VolumeFacts("tune", 100, "EU-RO-1", "STANDARD")
        connecting.note_check(session, row.id, None, CheckResult(ConnectionState.OK, "It can be written.", facts))

    tab = open_page(viewer)

    assert (tab.storage.month, tab.storage.volume) == ("$7.00", "tune, 100 GB, standard")
    assert tab.storage.sentence == "It can be written."


def test_a_faster_volume_costs_at_least_the_list_price(owner: Person) -> None:
    with unit_of_work() as session:
        row = connect(session, owner.organization_id, STORAGE)
        facts = VolumeFacts("tune", 100, "EU-RO-1", "HIGH_PERFORMANCE")
        connecting.note_check(session, row.id, None, CheckResult(ConnectionState.OK, "Fine.", facts))

    assert open_page(owner).storage.month_note.startswith("At least")


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER, Role.ADMIN])
def test_others_see_it_and_change_nothing(owner: Person, role: Role) -> None:
    with unit_of_work() as session:
        connection = str(connect(session, owner.organization_id).id)
    tab = open_page(make_person(role, organization_id=owner.organization_id))
    assert (tab.compute.is_there, tab.me.may_own) == (True, False)

    for handler, arguments in (
        ("save_compute", (SECRETS[COMPUTE],)),
        ("recheck", (connection,)),
        ("remove", ()),
    ):
        tab.asks_remove = connection
        do(tab, handler, *arguments)
        assert "may not" in tab.error


def test_removing_asks_first_and_says_which(owner: Person) -> None:
    with unit_of_work() as session:
        connection = str(connect(session, owner.organization_id).id)
    tab = open_page(owner)
    do(tab, "ask_remove", connection, "RunPod compute")
    assert tab.removes == "RunPod compute"

    do(tab, "remove")

    assert (tab.error, tab.asks_remove, tab.compute.is_there) == ("", "", False)


def test_an_admin_changes_the_slots_within_their_range(owner: Person) -> None:
    tab = open_page(make_person(Role.ADMIN, organization_id=owner.organization_id))
    assert (tab.slots, tab.held) == (2, 0)

    do(tab, "save_slots", {"slots": "101"})
    assert tab.fields == {"slots": "Run slots are a whole number between 1 and 100."}
    do(tab, "save_slots", {"slots": " 12 "})

    assert (tab.error, tab.slots) == ("", 12)


def test_another_organizations_account_is_not_there(owner: Person, stranger: Person) -> None:
    with unit_of_work() as session:
        connection = str(connect(session, owner.organization_id).id)
    tab = open_page(stranger)
    assert not tab.compute.is_there

    do(tab, "recheck", connection)

    assert tab.error.startswith("There is no connection")
