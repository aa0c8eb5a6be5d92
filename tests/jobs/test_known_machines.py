"""A machine whose id the row knows is there, whatever the list says of its name; not listed, it is asked for by its id first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from tensorant_app.db.machines import Machine
from tensorant_app.db.session import unit_of_work
from tensorant_app.domain.errors import Transient
from tensorant_app.domain.machines import MachineState, Presence, Use
from tensorant_app.providers.base import Listed
from tensorant_app.services import machines
from tests import factories
from tests.conftest import Clock
from tests.jobs.renting import Rented


@pytest.fixture
def rented(sqlite_database: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Rented:
    return Rented(factories.make_caller(), clock, monkeypatch)


CHANGES = {"renamed": {"name": "mine"}, "untold": {"installation": None}, "emptied": {"installation": ""}}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_one_that_was_renamed_or_tells_no_environment_is_neither_lost_nor_deleted(
    rented: Rented, monkeypatch: pytest.MonkeyPatch, change: dict[str, str | None]
) -> None:
    machine_id = rented.ask()
    rented.beats(machine_id)
    rented.after(minutes=1, step=10)
    listing = rented.provider.listing

    def changed() -> Sequence[Listed]:
        return [replace(one, **change) for one in listing()]  # type: ignore[arg-type]

    monkeypatch.setattr(rented.provider, "listing", changed)
    rented.after(minutes=30, step=10)

    assert rented.row(machine_id).state is MachineState.HELD
    assert rented.row(machine_id).presence is Presence.PRESENT
    assert rented.provider.deleted == []
    assert rented.strays() == [], "its row knows it"


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_one_that_is_to_go_is_not_proved_gone_while_its_id_is_listed(
    rented: Rented, monkeypatch: pytest.MonkeyPatch, change: dict[str, str | None]
) -> None:
    machine_id = rented.ask()
    rented.provider.holds_on = True
    rented.after(minutes=1, step=10)
    listing = rented.provider.listing
    monkeypatch.setattr(
        rented.provider,
        "listing",
        lambda: [replace(one, **change) for one in listing()],  # type: ignore[arg-type]
    )
    with unit_of_work() as session:
        machines.want_release(session, Use.RUN, rented.row(machine_id).subject_id)
    rented.after(minutes=20, step=10)

    assert rented.row(machine_id).state is MachineState.RELEASE_FAILED


@pytest.mark.parametrize("is_going", [True, False])
def test_a_list_that_hides_a_machine_is_no_proof_where_the_provider_shows_it_by_its_id(
    rented: Rented, monkeypatch: pytest.MonkeyPatch, is_going: bool
) -> None:
    machine_id = rented.ask()
    rented.beats(machine_id)
    rented.after(minutes=11, step=10)
    (there,) = rented.provider.listing()
    monkeypatch.setattr(rented.provider, "listing", list)
    monkeypatch.setattr(rented.provider, "find", lambda provider_id: there)
    if is_going:
        with unit_of_work() as session:
            machines.want_release(session, Use.RUN, rented.row(machine_id).subject_id)
    rented.after(minutes=20, step=10)

    assert rented.row(machine_id).state is (MachineState.RELEASE_FAILED if is_going else MachineState.HELD)
    shown_until = rented.clock()
    monkeypatch.setattr(rented.provider, "find", lambda provider_id: None)
    rented.after(minutes=6, step=10)
    assert rented.row(machine_id).state is MachineState.RELEASED
    ended = rented.row(machine_id).released_at
    assert ended is not None
    assert ended >= shown_until - timedelta(seconds=150), "it costs until it was shown last, by its id too"


def test_a_provider_that_cannot_be_asked_by_id_proves_nothing(rented: Rented, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_id = rented.ask()
    rented.beats(machine_id)
    rented.after(minutes=11, step=10)
    monkeypatch.setattr(rented.provider, "listing", list)

    def fail(provider_id: str) -> Listed:
        raise Transient("The page broke off.")

    monkeypatch.setattr(rented.provider, "find", fail)
    rented.after(minutes=10, step=10)

    assert rented.row(machine_id).state is MachineState.HELD


def test_an_id_that_only_a_file_told_is_neither_believed_nor_deleted(rented: Rented) -> None:
    machine_id = rented.ask()
    rented.beats(machine_id)
    rented.after(minutes=11, step=10)
    other = Listed("another", "pod_other", "RUNNING", Presence.PRESENT, installation="")
    with unit_of_work() as session:
        row = session.get_one(Machine, machine_id)
        row.provider_id, row.provider_ids = "pod_other", []
    rented.provider.machines.clear()
    rented.provider.twins = [other]
    rented.after(minutes=8, step=10)

    assert rented.row(machine_id).state is MachineState.RELEASED
    assert rented.provider.twins == [other]
    assert "pod_other" not in rented.provider.deleted
