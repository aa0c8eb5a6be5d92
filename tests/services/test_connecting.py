"""Connecting an account: who may, what is kept, what is said, and when it cannot be removed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlmodel import select

from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.connections import Connection
from tensorant_app.db.machines import Machine
from tensorant_app.db.promise import Promise
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import LOCAL, RUNPOD, ConnectionKind, ConnectionState
from tensorant_app.domain.errors import AuthFailed, Conflict
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.members import Caller
from tensorant_app.providers.registry import PROVIDERS, STORES
from tensorant_app.services import connecting, connections, offers
from tensorant_app.services.connecting import CheckResult, ConnectionView, VolumeFacts
from tests import factories
from tests.conftest import NOON, Clock
from tests.factories import SECRETS

COMPUTE, STORAGE = ConnectionKind.RUNPOD_COMPUTE, ConnectionKind.RUNPOD_STORAGE
PLACE = {"data_center": "EU-RO-1", "volume_id": "vol123abc"}


def save(caller: Caller, kind: ConnectionKind = COMPUTE, **typed: str) -> UUID:
    with unit_of_work() as session:
        return connecting.save_connection(session, caller, kind, {**PLACE, **SECRETS[kind], **typed})


def shown(caller: Caller) -> list[ConnectionView]:
    with reading() as session:
        return connecting.list_connections(session, caller)


def note(connection_id: UUID, revision: int | None, result: CheckResult) -> bool:
    with unit_of_work() as session:
        return connecting.note_check(session, connection_id, revision, result)


def hold_machine(caller: Caller, provider: str = RUNPOD, state: MachineState = MachineState.HELD) -> str:
    machine_id = factories.ask_machine(caller, factories.make_run(caller), NOON)
    with unit_of_work() as session:
        machine = session.get_one(Machine, machine_id)
        machine.provider, machine.state = provider, state
        return machine.name


def test_a_saved_key_waits_for_its_check_and_shows_four_characters(caller: Caller) -> None:
    connection_id = save(caller)

    (view,) = shown(caller)

    assert (view.state, view.last_four, view.checked_at) == (ConnectionState.UNCHECKED, "1234", None)
    assert SECRETS[COMPUTE]["api_key"] not in repr(view)
    with reading() as session:
        assert session.get(Promise, (connecting.CHECK, connection_id)) is not None


def test_a_saved_key_has_the_offers_asked_for_at_once(caller: Caller, clock: Clock) -> None:
    connection_id = save(caller)
    with unit_of_work() as session:
        offers.note_offers(session, connection_id, 1, [], "RunPod does not answer.")
        session.get_one(Promise, (offers.REFRESH, connection_id)).due_at = clock.at + timedelta(hours=1)

    save(caller)

    with reading() as session:
        assert session.get_one(Promise, (offers.REFRESH, connection_id)).due_at == clock.at
        task = offers.read_refresh(session, connection_id)
    assert task is not None
    assert list(task.counts) == [1], "another key may be another account's"


def test_the_trail_says_who_and_what_and_never_the_secret(caller: Caller) -> None:
    connection_id = save(caller)
    save(caller, api_key="rpa_ANOTHERKEY000009999")
    with unit_of_work() as session:
        connecting.remove_connection(session, caller, connection_id)

    with reading() as session:
        entries = session.exec(select(AuditEntry).where(AuditEntry.subject_id == connection_id)).all()
    assert [entry.action.partition(".")[2] for entry in entries] == ["save", "replace", "remove"]
    assert [entry.facts["last_four"] for entry in entries] == ["1234", "9999", "9999"]
    assert "rpa_" not in repr([entry.model_dump() for entry in entries])


def test_what_was_found_about_replaced_credentials_is_thrown_away(caller: Caller) -> None:
    connection_id = save(caller)
    with reading() as session:
        old = session.get_one(Connection, connection_id).revision
    save(caller, api_key="rpa_ANOTHERKEY000009999")

    assert not note(connection_id, old, CheckResult(ConnectionState.OK, "It works."))

    assert shown(caller)[0].state is ConnectionState.UNCHECKED


def test_a_checked_volume_shows_its_size(caller: Caller) -> None:
    connection_id = save(caller, STORAGE)

    assert note(
        connection_id, None, CheckResult(ConnectionState.OK, "Fine.", VolumeFacts("tune", 100, "EU-RO-1", "STANDARD"))
    )

    (view,) = shown(caller)
    assert (view.state, view.volume and view.volume.size_gb) == (ConnectionState.OK, 100)
    assert view.shown == PLACE


def test_a_good_compute_key_has_the_volume_looked_at_again(caller: Caller, clock: Clock) -> None:
    storage, compute = save(caller, STORAGE), save(caller)
    with unit_of_work() as session:
        session.delete(session.get_one(Promise, (connecting.CHECK, storage)))

    note(compute, None, CheckResult(ConnectionState.OK, "Fine."))

    with reading() as session:
        assert session.get(Promise, (connecting.CHECK, storage)) is not None


def test_a_key_refused_in_the_middle_of_work_is_shown_at_once(caller: Caller) -> None:
    save(caller)
    assert caller.organization_id is not None
    with unit_of_work() as session:
        connecting.note_broken(session, caller.organization_id, COMPUTE, "RunPod refuses the key.")

    (view,) = shown(caller)

    assert (view.state, view.sentence) == (ConnectionState.FAILED, "RunPod refuses the key.")


class TestInUse:
    def test_it_is_not_removed_and_the_machine_is_named(self, caller: Caller) -> None:
        connection_id, name = save(caller), hold_machine(caller)

        with pytest.raises(Conflict, match=name), unit_of_work() as session:
            connecting.remove_connection(session, caller, connection_id)

        assert shown(caller)[0].used_by == [name]

    def test_another_volume_is_refused_but_other_keys_are_taken(self, caller: Caller) -> None:
        save(caller, STORAGE)
        hold_machine(caller)

        with pytest.raises(Conflict, match="another volume"):
            save(caller, STORAGE, volume_id="vol999")
        save(caller, STORAGE, secret_key="rps_ANOTHERKEY000009999")

        assert (shown(caller)[0].last_four, shown(caller)[0].shown) == ("9999", PLACE)

    @pytest.mark.parametrize(
        ("provider", "state"),
        [(LOCAL, MachineState.HELD), (RUNPOD, MachineState.RELEASED), (RUNPOD, MachineState.ABSENT)],
    )
    def test_what_is_paid_for_no_more_holds_nothing(self, caller: Caller, provider: str, state: MachineState) -> None:
        connection_id = save(caller)
        hold_machine(caller, provider, state)

        with unit_of_work() as session:
            connecting.remove_connection(session, caller, connection_id)

        assert shown(caller) == []


class TestBuilding:
    def test_a_provider_gets_the_organizations_own_key(self, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
        built: list[tuple[Any, ...]] = []
        monkeypatch.setitem(PROVIDERS, RUNPOD, lambda *args: built.append(args))
        monkeypatch.setitem(STORES, RUNPOD, lambda *args: built.append(args))
        save(caller)
        save(caller, STORAGE)
        assert caller.organization_id is not None

        with reading() as session:
            connections.provider_for(session, caller.organization_id, RUNPOD)
            connections.volume_for(session, caller.organization_id, RUNPOD)
            name = connections.installation_of(session)

        secrets = SECRETS[STORAGE]
        assert built == [
            (SECRETS[COMPUTE]["api_key"], name),
            (secrets["access_key"], secrets["secret_key"], "EU-RO-1", "vol123abc"),
        ]

    def test_without_an_account_it_says_who_can_connect_one(self, caller: Caller) -> None:
        assert caller.organization_id is not None
        with pytest.raises(AuthFailed, match="The owner connects it"), reading() as session:
            connections.provider_for(session, caller.organization_id, RUNPOD)
