"""Downloads: for viewers too, never for others, never the test rows, and written down."""

from __future__ import annotations

import io
import json
import zipfile
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlmodel import select
from starlette.testclient import TestClient

from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.datasets import Import
from tensorant_app.db.runs import Adapter
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.domain.members import Role
from tensorant_app.services.connections import store
from tensorant_app.services.imports import errors_key
from tensorant_app.services.versions import frozen_key
from tests.factories import REPORT, make_run
from tests.people import Person, make_person


@pytest.fixture
def owner(client: TestClient) -> Person:
    return make_person(Role.OWNER)


@pytest.fixture
def run_id(owner: Person) -> UUID:
    """A run with an adapter, its frozen examples, and an import with errors, all in the store."""
    run_id = make_run(owner.caller, name="Älter / Größer")
    folder = frozen_key(REPORT["content_sha256"])
    for split in ("train", "validation", "test"):
        rows = io.BytesIO()
        pq.write_table(pa.table({"row": [1, 2], "example": [f'{{"{split}": 1}}', f'{{"{split}": 2}}']}), rows)
        store().put(f"{folder}/{split}.parquet", rows.getvalue())
    store().put("adapters/x.zip", b"zip")
    with unit_of_work() as session:
        shared = {"created_at": now_of(session), "organization_id": owner.organization_id, "run_id": run_id}
        session.add(
            Adapter(id=uuid4(), attempt=1, key="k", manifest={}, zip_key="adapters/x.zip", zip_sha256="s", **shared)
        )
    return run_id


@pytest.fixture
def import_id(run_id: UUID) -> UUID:
    with reading() as session:
        import_id = session.exec(select(Import.id)).one()
    store().put(errors_key(import_id), b'{"row": 3}\n')
    return import_id


@pytest.fixture
def addresses(run_id: UUID, import_id: UUID) -> list[str]:
    return [
        f"/api/runs/{run_id}/adapter.zip",
        f"/api/runs/{run_id}/job-files.zip",
        f"/api/imports/{import_id}/errors.jsonl",
    ]


def test_a_viewer_takes_the_adapter_home(client: TestClient, owner: Person, run_id: UUID) -> None:
    viewer = make_person(Role.VIEWER, organization_id=owner.organization_id)

    response = client.get(f"/api/runs/{run_id}/adapter.zip", headers={"cookie": viewer.cookies})

    assert (response.status_code, response.content) == (200, b"zip")
    assert response.headers["content-disposition"] == 'attachment; filename="lter-gr-er-adapter.zip"'
    with reading() as session:
        entry = session.exec(select(AuditEntry).where(AuditEntry.action == "adapters.download")).one()
    assert (entry.who, entry.facts["sha256"]) == (viewer.email, "s")


def test_job_files_hold_the_configuration_and_what_was_trained_on(
    client: TestClient, owner: Person, run_id: UUID
) -> None:
    response = client.get(f"/api/runs/{run_id}/job-files.zip", headers={"cookie": owner.cookies})

    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["configuration.json", "train.jsonl", "validation.jsonl"]
        assert archive.read("train.jsonl") == b'{"train": 1}\n{"train": 2}\n'
        assert json.loads(archive.read("configuration.json"))["run"]["id"] == str(run_id)
    assert b'"test"' not in response.content


def test_another_organization_finds_nothing_and_nobody_is_sent_away(
    client: TestClient, owner: Person, addresses: list[str]
) -> None:
    stranger = make_person()

    for address in addresses:
        assert client.get(address, headers={"cookie": owner.cookies}).status_code == 200
        assert client.get(address, headers={"cookie": stranger.cookies}).status_code == 404
        assert client.get(address).status_code == 401
        assert client.post(address, headers={"cookie": owner.cookies}).status_code == 405


@pytest.mark.parametrize("name", ["x", "%2e%2e", str(UUID(int=7))])
def test_an_address_of_nothing_is_not_found(client: TestClient, owner: Person, name: str) -> None:
    assert client.get(f"/api/runs/{name}/adapter.zip", headers={"cookie": owner.cookies}).status_code == 404
