"""What is handed out of a version is what is trained, and comes back the same."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from sqlmodel import select

from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.members import Caller
from tensorant_app.services import downloads, exports, row_files
from tensorant_app.services.downloads import Bundle
from tests import data

ROWS = [*data.chats(19), data.chat("Où est le quai ?", "Là-bas,\n“à gauche”. 🙂")]


@pytest.fixture
def version_id(caller: Caller, dataset_id: UUID, tmp_path: Path) -> UUID:
    import_id = data.read_import(caller, dataset_id, data.write_lines(tmp_path / "a.jsonl", ROWS))
    version_id = data.draft(caller, import_id)
    data.check(caller, version_id)
    return version_id


def export(caller: Caller, version_id: UUID, **asked: str) -> Bundle:
    with unit_of_work() as session:
        return exports.export_version(session, caller, version_id, **asked)


def test_every_row_stands_in_one_file_of_the_archive_as_it_was_imported(caller: Caller, version_id: UUID) -> None:
    found = export(caller, version_id)

    with zipfile.ZipFile(io.BytesIO(b"".join(downloads.stream_zip(found)))) as archive:
        names = archive.namelist()
        lines = [line for name in names[1:] for line in archive.read(name).decode().split("\n") if line]
        about = json.loads(archive.read("version.json"))
    assert names == ["version.json", "train.jsonl", "validation.jsonl", "test.jsonl"]
    assert sorted(lines) == sorted(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in ROWS)
    assert about["rows"] == {"train": 15, "validation": 2, "test": 3}
    assert found.file_name == "tickets-v1-jsonl.zip"


def test_a_split_is_one_file_and_parquet_is_the_frozen_one(caller: Caller, version_id: UUID, tmp_path: Path) -> None:
    data.freeze(caller, version_id)

    found = export(caller, version_id, kind="parquet", split="test")

    ((name, path),) = found.examples.items()
    copy = tmp_path / name
    copy.write_bytes(b"".join(row_files.read_pieces(name, path)))
    assert (name, found.file_name, found.texts) == ("test.parquet", "tickets-v1-test.parquet", {})
    assert pq.read_table(copy).num_rows == 3


def test_exported_lines_import_again_as_the_same_rows(
    caller: Caller, dataset_id: UUID, version_id: UUID, tmp_path: Path
) -> None:
    found = export(caller, version_id, split="train")
    ((name, path),) = found.examples.items()
    (tmp_path / name).write_bytes(b"".join(row_files.read_pieces(name, path)))

    again = data.show_import(caller, data.read_import(caller, dataset_id, tmp_path / name))

    assert (again.rows, again.accepted, again.rejected) == (15, 15, 0)


def test_an_export_is_audited(caller: Caller, version_id: UUID) -> None:
    export(caller, version_id, split="test")

    with reading() as session:
        entry = session.exec(select(AuditEntry).where(AuditEntry.action == "versions.export")).one()
    assert (entry.subject_id, entry.facts["split"], entry.facts["kind"]) == (version_id, "test", "jsonl")


@pytest.mark.parametrize(("asked", "field"), [({"kind": "csv"}, "format"), ({"split": "../x"}, "split")])
def test_what_there_is_not_is_refused_by_name(
    caller: Caller, version_id: UUID, asked: dict[str, str], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        export(caller, version_id, **asked)

    assert set(refused.value.fields) == {field}


def test_a_draft_that_nobody_checked_has_no_rows_yet(caller: Caller, dataset_id: UUID, tmp_path: Path) -> None:
    path = data.write_lines(tmp_path / "b.jsonl", ROWS)

    with pytest.raises(Conflict, match="not been checked yet"):
        export(caller, data.draft(caller, data.read_import(caller, dataset_id, path)))
