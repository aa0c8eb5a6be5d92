"""Secrets lie sealed, open for their own row alone, and survive a change of keys at every instant."""

from __future__ import annotations

import stat
from collections.abc import Callable
from uuid import UUID

import pytest
from cryptography.fernet import Fernet
from sqlmodel import Session, select

from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.connections import Connection
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import ConnectionKind
from tensorant_app.domain.errors import AuthFailed, Refused
from tensorant_app.domain.members import Caller, operator
from tensorant_app.services import sealing
from tensorant_app.settings import get_settings
from tests import factories
from tests.factories import SECRETS

COMPUTE, STORAGE = ConnectionKind.RUNPOD_COMPUTE, ConnectionKind.RUNPOD_STORAGE


@pytest.fixture
def rows(caller: Caller) -> dict[ConnectionKind, UUID]:
    assert caller.organization_id is not None
    with unit_of_work() as session:
        return {kind: factories.connect(session, caller.organization_id, kind).id for kind in ConnectionKind}


def opened(rows: dict[ConnectionKind, UUID]) -> dict[ConnectionKind, dict[str, str]]:
    with reading() as session:
        return {kind: sealing.unseal(session.get_one(Connection, key)) for kind, key in rows.items()}


def change(rows: dict[ConnectionKind, UUID], act: Callable[[Session, Connection, Connection], None]) -> None:
    with unit_of_work() as session:
        act(session, session.get_one(Connection, rows[COMPUTE]), session.get_one(Connection, rows[STORAGE]))


def test_what_was_sealed_comes_back(rows: dict[ConnectionKind, UUID]) -> None:
    assert opened(rows) == SECRETS


def test_no_secret_lies_open_in_the_database(rows: dict[ConnectionKind, UUID]) -> None:
    with reading() as session:
        text = repr([row.model_dump() for row in session.exec(select(Connection))])

    for secrets in SECRETS.values():
        for secret in secrets.values():
            assert secret not in text
            assert secret[:-4] not in text


def test_a_copy_of_another_rows_cipher_text_does_not_open(rows: dict[ConnectionKind, UUID]) -> None:
    def copy(session: Session, compute: Connection, storage: Connection) -> None:
        compute.sealed = storage.sealed

    change(rows, copy)

    with pytest.raises(AuthFailed, match="sealed for another connection"):
        opened(rows)


def test_another_organizations_credentials_of_the_same_kind_do_not_open_either(
    rows: dict[ConnectionKind, UUID],
) -> None:
    stranger = factories.make_caller(name="Other")
    assert stranger.organization_id is not None
    with unit_of_work() as session:
        theirs = factories.connect(session, stranger.organization_id)
        session.get_one(Connection, rows[COMPUTE]).sealed = theirs.sealed

    with pytest.raises(AuthFailed, match="sealed for another connection"):
        opened(rows)


def test_a_lost_key_is_a_sentence(rows: dict[ConnectionKind, UUID]) -> None:
    get_settings().key_file.write_text(Fernet.generate_key().decode())

    with pytest.raises(AuthFailed, match="paste them again in Connections"):
        opened(rows)


class TestRotating:
    def rotate(self) -> int:
        get_settings().add_secret_key()
        with unit_of_work() as session:
            count = sealing.rotate_keys(session, operator())
        get_settings().drop_old_secret_keys()
        return count

    def test_everything_opens_with_the_new_key_alone(self, rows: dict[ConnectionKind, UUID]) -> None:
        (old,) = get_settings().read_secret_keys()

        assert self.rotate() == 2

        (new,) = get_settings().read_secret_keys()
        assert new != old
        assert stat.S_IMODE(get_settings().key_file.stat().st_mode) == 0o600
        assert opened(rows) == SECRETS
        with reading() as session:
            entry = session.exec(select(AuditEntry).where(AuditEntry.action == "keys.rotate")).one()
        assert entry.facts == {"connections": 2, "classifiers": 0}

    @pytest.mark.parametrize("step", ["after the new key", "after sealing anew"])
    def test_interrupted_anywhere_nothing_is_lost_and_it_goes_on(
        self, rows: dict[ConnectionKind, UUID], step: str
    ) -> None:
        get_settings().add_secret_key()
        if step == "after sealing anew":
            with unit_of_work() as session:
                sealing.rotate_keys(session, operator())
        newest = get_settings().read_secret_keys()[0]
        assert opened(rows) == SECRETS

        self.rotate()

        assert get_settings().read_secret_keys() == (newest,)
        assert opened(rows) == SECRETS

    def test_a_row_that_no_key_opens_stops_it_before_anything_changes(self, rows: dict[ConnectionKind, UUID]) -> None:
        def spoil(session: Session, compute: Connection, storage: Connection) -> None:
            storage.sealed = Fernet(Fernet.generate_key()).encrypt(b"{}").decode()

        change(rows, spoil)
        with reading() as session:
            before = session.get_one(Connection, rows[COMPUTE]).sealed

        with pytest.raises(Refused) as refusal:
            self.rotate()

        assert "ending in 5678" in refusal.value.reasons[0]
        with reading() as session:
            assert session.get_one(Connection, rows[COMPUTE]).sealed == before
        assert len(get_settings().read_secret_keys()) == 2

    def test_keys_from_outside_are_used_in_their_order(
        self, rows: dict[ConnectionKind, UUID], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (old,) = get_settings().read_secret_keys()
        new = Fernet.generate_key().decode()
        monkeypatch.setenv("TENSORANT_SECRET_KEYS", f"{new},{old}")
        get_settings.cache_clear()

        self.rotate()

        monkeypatch.setenv("TENSORANT_SECRET_KEYS", new)
        get_settings.cache_clear()
        assert opened(rows) == SECRETS
        assert get_settings().key_file.read_text() == old
