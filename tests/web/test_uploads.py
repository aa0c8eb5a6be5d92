"""Uploads: capped before a byte, resumed where they stopped, the same piece twice, and nobody else's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from uuid import UUID

import pytest
from httpx import Response
from sqlmodel import select
from starlette.testclient import TestClient

from jobs import broker
from tensorant_app.db.datasets import Import
from tensorant_app.db.promise import Promise
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.members import Role
from tensorant_app.services import imports, uploads
from tensorant_app.services.connections import store
from tensorant_app.settings import get_settings
from tests.factories import make_project
from tests.people import Person, make_person

FILE = bytes(itertools.islice(itertools.cycle(b'{"messages": []}\n'), 1000))


@pytest.fixture
def member(client: TestClient) -> Person:
    return make_person(Role.MEMBER)


@pytest.fixture
def dataset(member: Person) -> UUID:
    with unit_of_work() as session:
        project = make_project(session, member.organization_id)
        return imports.create_dataset(session, member.caller, project.id, "Tickets")


def announce(
    client: TestClient, person: Person, dataset: UUID, size: int = len(FILE), name: str = "a.jsonl"
) -> Response:
    asked = {"dataset": str(dataset), "name": name, "size": size}
    return client.post("/api/uploads", json=asked, headers={"cookie": person.cookies})


def send(client: TestClient, person: Person, upload: str, offset: int, piece: bytes) -> Response:
    return client.patch(f"/api/uploads/{upload}?offset={offset}", content=piece, headers={"cookie": person.cookies})


def state_of(upload: str) -> ImportState:
    with reading() as session:
        return session.get_one(Import, UUID(upload)).state


def test_arrives_in_pieces_and_waits_for_a_person_to_say_how_it_is_read(
    client: TestClient, member: Person, dataset: UUID
) -> None:
    upload = announce(client, member, dataset).json()["id"]

    offsets = [send(client, member, upload, at, FILE[at : at + 300]).json()["offset"] for at in range(0, 1000, 300)]

    assert offsets == [300, 600, 900, 1000]
    assert state_of(upload) is ImportState.RECEIVING
    assert store().fetch(imports.source_key(UUID(upload))).read_bytes() == FILE
    assert not list(get_settings().uploads_dir.iterdir())
    with reading() as session:
        assert [p.subject_id for p in session.exec(select(Promise).where(Promise.kind == imports.REACT))] == [
            UUID(upload)
        ]


def test_goes_on_where_it_stopped(client: TestClient, member: Person, dataset: UUID) -> None:
    upload = announce(client, member, dataset).json()["id"]
    send(client, member, upload, 0, FILE[:400])

    shown = client.get(f"/api/uploads/{upload}", headers={"cookie": member.cookies}).json()
    send(client, member, upload, shown["offset"], FILE[400:])

    assert shown == {"id": upload, "offset": 400, "size": 1000, "state": "receiving"}
    assert store().fetch(imports.source_key(UUID(upload))).read_bytes() == FILE


def test_the_same_piece_again_changes_nothing(client: TestClient, member: Person, dataset: UUID) -> None:
    upload = announce(client, member, dataset).json()["id"]
    for _ in range(3):
        assert send(client, member, upload, 0, FILE[:400]).json()["offset"] == 400
    for _ in range(2):
        assert send(client, member, upload, 400, FILE[400:]).json()["offset"] == 1000

    assert store().fetch(imports.source_key(UUID(upload))).read_bytes() == FILE


@pytest.mark.parametrize(("offset", "length"), [(500, 100), (100, 400)])
def test_a_piece_at_the_wrong_place_is_told_the_right_one(
    client: TestClient, member: Person, dataset: UUID, offset: int, length: int
) -> None:
    upload = announce(client, member, dataset).json()["id"]
    send(client, member, upload, 0, FILE[:400])

    response = send(client, member, upload, offset, FILE[offset : offset + length])

    assert response.status_code == 409
    assert response.json()["offset"] == 400
    assert response.json()["error"] == "400 bytes of this file have arrived; go on from there."


def test_another_piece_at_a_place_that_is_taken_is_refused(client: TestClient, member: Person, dataset: UUID) -> None:
    upload = announce(client, member, dataset).json()["id"]
    send(client, member, upload, 0, FILE[:400])

    response = send(client, member, upload, 0, b"x" * 400)

    assert response.status_code == 409
    assert "offset" not in response.json()


class TestBeforeAByteIsRead:
    @pytest.fixture
    def never_read(self) -> Iterator[bytes]:
        def body() -> Iterator[bytes]:
            raise AssertionError("A byte was asked for.")
            yield b""

        return body()

    def test_a_file_over_the_cap_is_refused(
        self, client: TestClient, member: Person, dataset: UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TENSORANT_MAX_UPLOAD_BYTES", "999")
        get_settings.cache_clear()

        response = announce(client, member, dataset)

        assert response.status_code == 422
        assert response.json()["fields"]["file"].startswith("A file has a name and between 1 byte and")
        with reading() as session:
            assert not session.exec(select(Import)).all()

    @pytest.mark.parametrize("size", [0, -1, 10**15])
    def test_a_size_that_cannot_be_is_refused(
        self, client: TestClient, member: Person, dataset: UUID, size: int
    ) -> None:
        assert announce(client, member, dataset, size).status_code == 422

    @pytest.mark.parametrize("length", [0, 1001, uploads.LARGEST_PIECE + 1])
    def test_a_piece_of_the_wrong_length_is_refused(
        self, client: TestClient, member: Person, dataset: UUID, length: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        upload = announce(client, member, dataset).json()["id"]
        self.refuse_reading(monkeypatch)

        assert send(client, member, upload, 0, b"x" * length).status_code == 422

    def test_nobody_is_refused(
        self, client: TestClient, member: Person, dataset: UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        upload = announce(client, member, dataset).json()["id"]
        self.refuse_reading(monkeypatch)

        assert client.patch(f"/api/uploads/{upload}?offset=0", content=FILE).status_code == 401

    def test_a_viewer_is_refused(
        self, client: TestClient, member: Person, dataset: UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        viewer = make_person(Role.VIEWER, organization_id=member.organization_id)
        upload = announce(client, member, dataset).json()["id"]
        self.refuse_reading(monkeypatch)

        assert announce(client, viewer, dataset).status_code == 403
        assert send(client, viewer, upload, 0, FILE).status_code == 403

    def test_another_organization_finds_nothing(
        self, client: TestClient, member: Person, dataset: UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stranger = make_person()
        upload = announce(client, member, dataset).json()["id"]
        self.refuse_reading(monkeypatch)

        assert announce(client, stranger, dataset).status_code == 404
        assert send(client, stranger, upload, 0, FILE).status_code == 404
        assert client.get(f"/api/uploads/{upload}", headers={"cookie": stranger.cookies}).status_code == 404
        assert client.delete(f"/api/uploads/{upload}", headers={"cookie": stranger.cookies}).status_code == 404

    def test_another_site_is_refused(
        self, client: TestClient, member: Person, dataset: UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        upload = announce(client, member, dataset).json()["id"]
        self.refuse_reading(monkeypatch)
        headers = {"cookie": member.cookies, "origin": "https://evil.example"}

        assert client.patch(f"/api/uploads/{upload}?offset=0", content=FILE, headers=headers).status_code == 403

    def test_a_piece_that_does_not_say_its_length_is_refused(
        self, client: TestClient, member: Person, dataset: UUID
    ) -> None:
        upload = announce(client, member, dataset).json()["id"]

        response = client.patch(
            f"/api/uploads/{upload}?offset=0", content=iter([FILE]), headers={"cookie": member.cookies}
        )

        assert response.status_code == 422
        assert not list(get_settings().uploads_dir.iterdir())

    def refuse_reading(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def read(request: object) -> bytes:
            raise AssertionError("A byte was asked for.")

        monkeypatch.setattr("tensorant_app.api.uploads._read", read)


def test_a_full_disk_keeps_what_arrived(
    client: TestClient, member: Person, dataset: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = announce(client, member, dataset).json()["id"]
    send(client, member, upload, 0, FILE[:400])
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(uploads, "_FULL", {*uploads._FULL, 27})  # EFBIG stands in for ENOSPC
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    try:
        path = uploads.part_of(UUID(upload))
        shown = uploads.Upload(UUID(upload), 400, 1000, ImportState.RECEIVING)
        with pytest.raises(uploads.Refused, match="disk is full"):
            uploads.receive_piece(shown, 400, FILE[400:])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert path.read_bytes() == FILE[:400]
    assert send(client, member, upload, 400, FILE[400:]).json()["offset"] == 1000


def test_a_cancelled_one_leaves_nothing(client: TestClient, member: Person, dataset: UUID) -> None:
    upload = announce(client, member, dataset).json()["id"]
    send(client, member, upload, 0, FILE[:400])

    assert client.delete(f"/api/uploads/{upload}", headers={"cookie": member.cookies}).status_code == 204

    assert state_of(upload) is ImportState.CANCELLED
    assert send(client, member, upload, 400, FILE[400:]).status_code == 409
    broker.load_actors()
    broker.perform(imports.REACT, upload)
    assert not list(get_settings().uploads_dir.iterdir())


@pytest.mark.parametrize(
    ("name", "shown"),
    [("../../etc/passwd", "passwd"), ("C:\\x\\a.jsonl", "a.jsonl"), ("a\u202eb\n", "ab"), ("ä b.jsonl", "ä b.jsonl")],
)
def test_a_name_is_only_shown(client: TestClient, member: Person, dataset: UUID, name: str, shown: str) -> None:
    upload = announce(client, member, dataset, name=name).json()["id"]

    with reading() as session:
        assert session.get_one(Import, UUID(upload)).file_name == shown
