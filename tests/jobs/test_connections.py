"""An account is looked at under a lease: its credentials, and its catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cryptography.fernet import Fernet

from jobs import broker
from tensorant_app.db.connections import Connection
from tensorant_app.db.promise import Promise
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import RUNPOD, ConnectionKind, ConnectionState
from tensorant_app.domain.errors import AuthFailed, Transient
from tensorant_app.domain.members import Caller
from tensorant_app.providers.base import NetworkVolume, Offer
from tensorant_app.providers.registry import PROVIDERS, STORES
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services import connecting, offers
from tensorant_app.settings import get_settings
from tests import factories
from tests.conftest import Clock
from tests.fakes import FakeProvider

COMPUTE, STORAGE = ConnectionKind.RUNPOD_COMPUTE, ConnectionKind.RUNPOD_STORAGE


@pytest.fixture
def caller(database: str, clock: Clock) -> Caller:
    broker.load_actors()
    return factories.make_caller()


class Account(FakeProvider):
    """Counts what it is asked, and may fail."""

    def __init__(self) -> None:
        super().__init__(disks=[NetworkVolume("vol123abc", "tune", 100, "EU-RO-1", "STANDARD")])
        self.checks = 0
        self.catalogs: list[int] = []
        self.fail: Callable[[], None] = lambda: None

    def check(self) -> Sequence[str]:
        self.checks += 1
        self.fail()
        return super().check()

    def volumes(self) -> Sequence[NetworkVolume]:
        self.fail()
        return super().volumes()

    def offers(self, count: int = 1) -> Sequence[Offer]:
        self.catalogs.append(count)
        self.fail()
        return super().offers(count)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Account:
    account = Account()
    monkeypatch.setitem(PROVIDERS, RUNPOD, lambda *args: account)
    monkeypatch.setitem(STORES, RUNPOD, lambda *args: FolderStore(tmp_path / "volume"))
    return account


def connect(caller: Caller, kind: ConnectionKind = COMPUTE) -> UUID:
    assert caller.organization_id is not None
    with unit_of_work() as session:
        connection = factories.connect(session, caller.organization_id, kind, ConnectionState.UNCHECKED)
        connecting.promise_all(session)
        offers.promise_all(session)
        return connection.id


def row(connection_id: UUID) -> Connection:
    with reading() as session:
        return session.get_one(Connection, connection_id)


def promised(kind: str, connection_id: UUID) -> Promise | None:
    with reading() as session:
        return session.get(Promise, (kind, connection_id))


def raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def check(connection_id: UUID) -> Connection:
    broker.perform(connecting.CHECK, str(connection_id))
    return row(connection_id)


class TestTheCheck:
    def test_a_key_that_works_is_looked_at_again_in_an_hour(
        self, caller: Caller, account: Account, clock: Clock
    ) -> None:
        connection_id = connect(caller)

        found = check(connection_id)

        assert (found.state, found.checked_at) == (ConnectionState.OK, clock.at)
        assert "first launch" in found.sentence
        kept = promised(connecting.CHECK, connection_id)
        assert kept is not None
        assert kept.due_at == clock.at + timedelta(hours=1)

    def test_the_same_hint_twice_looks_once(self, caller: Caller, account: Account) -> None:
        connection_id = connect(caller)

        for kind in (connecting.CHECK, offers.REFRESH):
            broker.perform(kind, str(connection_id))
            broker.perform(kind, str(connection_id))

        assert (account.checks, account.catalogs) == (1, [1])

    def test_what_the_provider_says_is_shown(self, caller: Caller, account: Account) -> None:
        account.troubles = ["The key may not read bills."]

        found = check(connect(caller))

        assert (found.state, found.sentence) == (ConnectionState.FAILED, "The key may not read bills.")

    def test_a_refused_key_is_a_finding(self, caller: Caller, account: Account) -> None:
        account.fail = raising(AuthFailed("RunPod refuses the key."))

        found = check(connect(caller))

        assert (found.state, found.sentence) == (ConnectionState.FAILED, "RunPod refuses the key.")

    def test_an_outage_says_nothing_about_the_key(self, caller: Caller, account: Account) -> None:
        connection_id = connect(caller)
        check(connection_id)
        account.fail = raising(Transient("RunPod does not answer."))
        with unit_of_work() as session:
            connecting.recheck_connection(session, caller, connection_id)

        found = check(connection_id)

        assert found.state is ConnectionState.UNCHECKED
        kept = promised(connecting.CHECK, connection_id)
        assert kept is not None
        assert kept.tries == 1

    def test_a_key_that_nothing_opens_is_a_finding(self, caller: Caller, account: Account) -> None:
        connection_id = connect(caller)
        get_settings().key_file.write_text(Fernet.generate_key().decode())

        found = check(connection_id)

        assert found.state is ConnectionState.FAILED
        assert "paste them again" in found.sentence
        assert account.checks == 0

    def test_a_removed_one_is_forgotten(self, caller: Caller, account: Account, clock: Clock) -> None:
        connection_id = connect(caller)
        broker.perform(offers.REFRESH, str(connection_id))
        with unit_of_work() as session:
            connecting.remove_connection(session, caller, connection_id)
        clock.advance(hours=1)

        for kind in (connecting.CHECK, offers.REFRESH):
            broker.perform(kind, str(connection_id))
            assert promised(kind, connection_id) is None


class TestTheVolume:
    def test_is_written_read_and_left_as_it_was(self, caller: Caller, account: Account, tmp_path: Path) -> None:
        connect(caller)

        found = check(connect(caller, STORAGE))

        assert found.state is ConnectionState.OK
        assert found.facts == {"name": "tune", "size_gb": 100, "data_center": "EU-RO-1", "type": "STANDARD"}
        assert [path for path in (tmp_path / "volume").rglob("*") if path.is_file()] == []

    def test_is_known_to_work_without_a_compute_key(self, caller: Caller, account: Account) -> None:
        found = check(connect(caller, STORAGE))

        assert (found.state, found.facts) == (ConnectionState.OK, {})

    @pytest.mark.parametrize(
        ("disk", "words"),
        [
            (NetworkVolume("other", "x", 10, "EU-RO-1", "STANDARD"), "no volume of this id"),
            (NetworkVolume("vol123abc", "x", 10, "US-KS-2", "STANDARD"), "lies in US-KS-2"),
        ],
    )
    def test_must_be_the_accounts_own_and_where_it_is_said_to_be(
        self, caller: Caller, account: Account, disk: NetworkVolume, words: str
    ) -> None:
        connect(caller)
        account.disks = [disk]

        found = check(connect(caller, STORAGE))

        assert found.state is ConnectionState.FAILED
        assert words in found.sentence

    def test_a_dead_compute_key_is_not_the_volumes_fault(self, caller: Caller, account: Account) -> None:
        connect(caller)
        account.fail = raising(AuthFailed("RunPod refuses the key."))

        found = check(connect(caller, STORAGE))

        assert found.state is ConnectionState.OK

    def test_one_that_cannot_be_written_fails(
        self, caller: Caller, account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        class Full(FolderStore):
            def put(self, key: str, source: Any) -> None:
                raise OSError(28, "No space left on device")

        monkeypatch.setitem(STORES, RUNPOD, lambda *args: Full(tmp_path / "full"))

        found = check(connect(caller, STORAGE))

        assert found.state is ConnectionState.FAILED
        assert "No space left" in found.sentence


class TestTheCatalog:
    def kept(self, caller: Caller, count: int = 1) -> offers.Catalog:
        assert caller.organization_id is not None
        with reading() as session:
            found = offers.catalog_of(session, caller.organization_id, count)
        assert found is not None
        return found

    def test_is_kept_for_each_count_that_somebody_looks_at(
        self, caller: Caller, account: Account, clock: Clock
    ) -> None:
        connection_id = connect(caller)
        with unit_of_work() as session:
            offers.note_looking(session, caller, 4)

        broker.perform(offers.REFRESH, str(connection_id))

        assert account.catalogs == [1, 4]
        assert self.kept(caller, 4).seen_at == clock.at
        kept = promised(offers.REFRESH, connection_id)
        assert kept is not None
        assert kept.due_at == clock.at + offers.FRESH

    def test_an_outage_keeps_what_was_known_and_leaves_the_provider_alone_for_a_while(
        self, caller: Caller, account: Account, clock: Clock
    ) -> None:
        connection_id = connect(caller)
        broker.perform(offers.REFRESH, str(connection_id))
        account.fail = raising(Transient("RunPod does not answer."))
        clock.advance(minutes=31)

        broker.perform(offers.REFRESH, str(connection_id))

        assert len(self.kept(caller).offers) == 1
        assert self.kept(caller).trouble == "RunPod does not answer."
        kept = promised(offers.REFRESH, connection_id)
        assert kept is not None
        assert kept.due_at == clock.at + timedelta(seconds=30)
