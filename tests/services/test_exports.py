"""What is handed out of a version is what is trained, and comes back the same."""

from __future__ import annotations

import io
import json
import random
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from sqlmodel import select
from typer.testing import CliRunner

from tensorant_app.cli import app
from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.members import Caller
from tensorant_app.domain.splits import Counts
from tensorant_app.services import downloads, exports, import_images, imports, row_files
from tensorant_app.services.connections import store
from tensorant_app.services.downloads import Bundle
from tests import data
from tests.pictures import as_url, pack, photograph, picture
from trainer.contract import Split

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


PARTS = [{"type": "image_url", "image_url": {"url": as_url(picture(colour="green"))}}, {"type": "text", "text": "And?"}]


def pictured_rows() -> list[dict[str, Any]]:
    named = [
        {**data.chat(f"<image>Où est-ce, {n} ?\n<image>", "« Là-bas » 🙂"), "images": ["é/shared.jpg", f"é/{n}.png"]}
        for n in range(9)
    ]
    return [*named, data.chat(PARTS), data.chat("no image")]  # type: ignore[arg-type]


class TestImages:
    """Rows and images leave in one archive, and come back as the same rows."""

    @pytest.fixture
    def vision(self, caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UUID:
        data.work_inside(monkeypatch)
        return data.make_vision_dataset(caller, tmp_path / "vision")

    @pytest.fixture
    def version_id(self, caller: Caller, vision: UUID, tmp_path: Path) -> UUID:
        files = {f"é/{n}.png": picture(size=(20 + n, 20)) for n in range(9)} | {"é/shared.jpg": photograph(6)}
        import_id = data.read_import(caller, vision, pack(tmp_path / "rows.zip", pictured_rows(), files))
        version_id = data.draft(caller, import_id)
        assert data.check(caller, version_id).report is not None
        return version_id

    @staticmethod
    def send(caller: Caller, version_id: UUID, folder: Path, **asked: str) -> Path:
        found = export(caller, version_id, **asked)
        path = folder / found.file_name
        path.write_bytes(b"".join(downloads.stream_zip(found)))
        return path

    @staticmethod
    def hashes(import_id: UUID) -> list[str]:
        found: list[str] = pq.read_table(store().fetch(imports.rows_key(import_id))).column("sha256").to_pylist()
        return sorted(found)

    @pytest.mark.parametrize("kind", ["jsonl", "parquet"])
    def test_an_exported_version_imports_again_as_the_same_rows_and_images(
        self, caller: Caller, vision: UUID, version_id: UUID, tmp_path: Path, kind: str
    ) -> None:
        with reading() as session:
            first = session.get_one(DatasetVersion, version_id).import_id

        again = data.read_import(caller, vision, self.send(caller, version_id, tmp_path, kind=kind))

        view = data.show_import(caller, again)
        assert (view.accepted, view.rejected, view.reason) == (11, 0, None)
        assert self.hashes(again) == self.hashes(first)
        assert [path.name for path in sorted(import_images.image_folder(again).iterdir())] == [
            path.name for path in sorted(import_images.image_folder(first).iterdir())
        ]

    @pytest.mark.parametrize("kind", ["jsonl", "parquet"])
    def test_splits_that_go_out_and_in_again_make_a_version_of_the_same_content(
        self, caller: Caller, vision: UUID, version_id: UUID, tmp_path: Path, kind: str
    ) -> None:
        once = self.version_of_splits(caller, vision, version_id, tmp_path / "once", "jsonl")
        twice = self.version_of_splits(caller, vision, once, tmp_path / "twice", kind)

        first, second = (data.show_version(caller, one).report for one in (once, twice))
        assert first is not None
        assert second is not None
        assert first.content_sha256 == second.content_sha256
        assert first.rows == {"train": 6, "validation": 2, "test": 3}

    def version_of_splits(self, caller: Caller, vision: UUID, version_id: UUID, folder: Path, kind: str) -> UUID:
        folder.mkdir()
        sent = {s: self.send(caller, version_id, folder, kind=kind, split=s.value) for s in Split}
        read = {split: data.read_import(caller, vision, path) for split, path in sent.items()}
        made = data.draft(caller, read.pop(Split.TRAIN), shares=Counts(validation=0, test=0), files=read)
        data.check(caller, made)
        return made

    def test_an_archive_holds_the_images_that_its_rows_name_and_no_other(
        self, caller: Caller, version_id: UUID, tmp_path: Path
    ) -> None:
        data.freeze(caller, version_id)

        with zipfile.ZipFile(self.send(caller, version_id, tmp_path, split="test")) as archive:
            rows, *images = archive.namelist()
            lines = [json.loads(line) for line in archive.read(rows).decode().splitlines()]
            assert archive.testzip() is None
        named = {part["image"] for line in lines for part in line["messages"][0]["content"] if part["type"] == "image"}
        assert rows == "test.jsonl"
        assert sorted(named) == images
        assert all(name.startswith("images/") for name in images)

    def test_an_export_is_streamed_and_little_of_it_is_ever_in_memory(self, caller: Caller, version_id: UUID) -> None:
        found = export(caller, version_id)
        assert found.images is not None
        with zipfile.ZipFile(io.BytesIO(b"".join(downloads.stream_zip(found)))) as archive:
            name = next(one for one in archive.namelist() if one.startswith("images/")).removeprefix("images/")
        (found.images / name).unlink()
        (found.images / name).write_bytes(random.Random(1).randbytes(40 * 1024 * 1024))

        tracemalloc.start()
        longest, total = 0, 0
        for piece in downloads.stream_zip(found):
            longest, total = max(longest, len(piece)), total + len(piece)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert total > 40 * 1024 * 1024
        assert longest < 1024 * 1024
        assert peak < 8 * 1024 * 1024

    def test_the_command_writes_the_same_archive(self, caller: Caller, version_id: UUID, tmp_path: Path) -> None:
        shown = CliRunner().invoke(app, ["data", "export", str(version_id), "--to", str(tmp_path / "out")])

        assert shown.exit_code == 0, shown.output
        (path,) = (tmp_path / "out").iterdir()
        assert shown.output.split() == [str(path)]
        assert path.read_bytes() == self.send(caller, version_id, tmp_path).read_bytes()
