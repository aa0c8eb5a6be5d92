"""An adapter.zip that a person carries over: received in pieces, checked by the trainer, and taken once."""

from __future__ import annotations

import zipfile
from pathlib import Path
from uuid import UUID

import pytest
from sqlmodel import select

from jobs import broker
from tensorant_app.db.promise import promise
from tensorant_app.db.runs import Adapter, AdapterUpload, Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.members import Caller
from tensorant_app.domain.runs import AdapterUploadState, RunState
from tensorant_app.services import adapter_uploads, uploads
from tensorant_app.services.connections import store
from tests import factories
from tests.conftest import Clock
from tests.trainer.test_uploaded import zipped
from trainer.contract import Base, verify_folder


@pytest.fixture
def caller(sqlite_database: str, clock: Clock, tiny_base: Base, monkeypatch: pytest.MonkeyPatch) -> Caller:
    broker.load_actors()
    monkeypatch.setattr("jobs.adapters.find_base", lambda repo_id, revision: tiny_base)
    return factories.make_caller()


@pytest.fixture
def run_id(caller: Caller) -> UUID:
    return factories.make_run(caller, state=RunState.NEEDS_RECOVERY, attempt=1)


def hand_in(caller: Caller, run_id: UUID, content: bytes) -> UUID:
    """As the browser does, in two pieces."""
    with unit_of_work() as session:
        upload = adapter_uploads.start_adapter_upload(session, caller, run_id, len(content))
    half = len(content) // 2
    for offset, piece in ((0, content[:half]), (half, content[half:])):
        with reading() as session:
            upload = adapter_uploads.show_any(session, caller, upload.id)
        uploads.check_piece(upload, offset, len(piece))
        uploads.receive_piece(upload, offset, piece)
    with unit_of_work() as session:
        adapter_uploads.finish_any(session, caller, upload.id)
    return upload.id


def check(upload_id: UUID) -> AdapterUpload:
    broker.perform(adapter_uploads.CHECK, str(upload_id))
    with reading() as session:
        return session.get_one(AdapterUpload, upload_id)


def load(run_id: UUID) -> Run:
    with reading() as session:
        return session.get_one(Run, run_id)


def test_a_file_that_is_checked_twice_is_taken_once(
    caller: Caller, run_id: UUID, tmp_path: Path, data_dir: Path
) -> None:
    upload_id = hand_in(caller, run_id, zipped(tmp_path).read_bytes())

    found = check(upload_id)
    with unit_of_work() as session:
        promise(session, adapter_uploads.CHECK, upload_id)
    check(upload_id)

    assert (found.state, found.reason) == (AdapterUploadState.ACCEPTED, None)
    assert load(run_id).state is RunState.ADAPTER_READY
    with reading() as session:
        adapter = session.exec(select(Adapter)).one()
    assert adapter.zip_key is not None
    with zipfile.ZipFile(store().fetch(adapter.zip_key)) as archive:
        assert "adapter_model.safetensors" in archive.namelist()
    verify_folder(data_dir / "volume" / adapter.key)
    assert not list(store().names("adapter_uploads")), "the zip itself is of no more use"


@pytest.mark.parametrize(
    ("extra", "told"),
    [({"../evil.json": b"{}"}, "leads out of its folder"), ({"adapter_model.bin": b"x"}, "pickled")],
)
def test_what_is_no_sound_adapter_is_refused_with_its_reason_and_the_run_waits_on(
    caller: Caller, run_id: UUID, tmp_path: Path, extra: dict[str, bytes], told: str
) -> None:
    found = check(hand_in(caller, run_id, zipped(tmp_path, extra=extra).read_bytes()))

    assert found.state is AdapterUploadState.REFUSED
    assert found.reason is not None
    assert told in found.reason
    assert load(run_id).state is RunState.NEEDS_RECOVERY
    with reading() as session:
        shown = adapter_uploads.show_uploaded(session, caller, run_id)
    assert shown is not None
    assert shown.reason == found.reason


def test_it_is_refused_before_a_byte_where_it_is_of_no_use(caller: Caller, run_id: UUID) -> None:
    working = factories.make_run(caller, state=RunState.TRAINING)
    with pytest.raises(Conflict, match="needs recovery"), unit_of_work() as session:
        adapter_uploads.start_adapter_upload(session, caller, working, 10)
    with pytest.raises(Invalid, match=r"adapter\.zip"), unit_of_work() as session:
        adapter_uploads.start_adapter_upload(session, caller, run_id, 0)


def test_a_newer_file_takes_the_place_of_one_that_did_not_arrive(caller: Caller, run_id: UUID) -> None:
    with unit_of_work() as session:
        first = adapter_uploads.start_adapter_upload(session, caller, run_id, 10)
    uploads.receive_piece(first, 0, b"12345")
    with unit_of_work() as session:
        adapter_uploads.start_adapter_upload(session, caller, run_id, 10)

    assert not uploads.part_of(first.id).exists()
    with reading() as session:
        assert session.get_one(AdapterUpload, first.id).state is AdapterUploadState.CANCELLED
