"""What people take home: the adapter, the files a run was trained from, and the errors of an import. All audited."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from sqlmodel import Session, select

from tensorant_app.db.datasets import DatasetVersion, Import
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Adapter, Run
from tensorant_app.domain.errors import Conflict, NotFound
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.runs import RunPurpose
from tensorant_app.services.audit import write_audit
from tensorant_app.services.connections import store
from tensorant_app.services.image_files import IMAGES
from tensorant_app.services.imports import bad_rows_key, errors_key
from tensorant_app.services.lookup import own_row
from tensorant_app.services.row_files import Sink, read_bytes, read_pieces
from tensorant_app.services.versions import frozen_key
from trainer.contract import Split

_TAKEN_HOME = (Split.TRAIN, Split.VALIDATION)
"""Never the test rows: who trains on them elsewhere could not be measured here any more."""
_PIECE = 1 << 16
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Download:
    """A file of the store under the name it is saved as."""

    path: Path
    file_name: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """Several files in one archive."""

    texts: dict[str, str]
    examples: dict[str, Path]
    """Name in the archive → Parquet file; a name that ends in .jsonl makes lines of its examples."""
    file_name: str
    images: Path | None = None
    """Where the images lie that the rows name; they come along in a folder of their own."""

    @property
    def is_archive(self) -> bool:
        return self.file_name.endswith(".zip")


def adapter_zip(session: Session, caller: Caller, run_id: UUID) -> Download:
    """A trial's says in its name that it only diagnoses, as its card and manifest do."""
    caller.require(Permission.SEE)
    run = own_row(session, caller, Run, run_id, "run")
    adapter = session.exec(select(Adapter).where(Adapter.run_id == run.id)).one_or_none()
    if adapter is None or adapter.zip_key is None:
        raise NotFound(f"The run {run.name} has no adapter yet.")
    write_audit(session, caller, "adapters.download", adapter.id, run_id=str(run.id), sha256=adapter.zip_sha256)
    kind = "diagnostic-adapter" if run.purpose is RunPurpose.TRIAL else "adapter"
    return Download(file_of(adapter.zip_key), f"{slug(run.name)}-{kind}.zip")


def job_files(session: Session, caller: Caller, run_id: UUID) -> Bundle:
    """Training and validation examples and the configuration."""
    caller.require(Permission.SEE)
    run = own_row(session, caller, Run, run_id, "run")
    version = session.get_one(DatasetVersion, run.version_id)
    project = session.get_one(Project, run.project_id)
    assert version.content_sha256 is not None
    folder = frozen_key(version.content_sha256)
    write_audit(session, caller, "runs.download_job_files", run.id)
    configuration = {
        "run": {"id": str(run.id), "name": run.name, "created_at": run.created_at.isoformat()},
        "base": {"repo_id": project.base_repo_id, "revision": project.base_revision},
        "dataset": {
            "version": version.number,
            "content_sha256": version.content_sha256,
            "split": version.split,
            "merge_system": version.merge_system,
        },
        "purpose": run.purpose.value,
        "settings": run.settings,
        **({"trial": run.trial} if run.trial else {}),
        "gate": run.gate,
    }
    return Bundle(
        {"configuration.json": json.dumps(configuration, indent=2, ensure_ascii=False) + "\n"},
        {f"{split.value}.jsonl": file_of(f"{folder}/{split.value}.parquet") for split in _TAKEN_HOME},
        f"{slug(run.name)}-job-files.zip",
    )


def import_errors(session: Session, caller: Caller, import_id: UUID) -> Download:
    """One JSON object a line for every fault of every rejected row."""
    caller.require(Permission.SEE)
    row = own_row(session, caller, Import, import_id, "import")
    write_audit(session, caller, "imports.download_errors", row.id)
    return Download(file_of(errors_key(row.id)), f"{slug(Path(row.file_name).stem)}-errors.jsonl")


def import_bad_rows(session: Session, caller: Caller, import_id: UUID) -> Download:
    """One JSON object a line for every rejected row: its number, its reasons, and the row as it stands in the file."""
    caller.require(Permission.SEE)
    row = own_row(session, caller, Import, import_id, "import")
    key = bad_rows_key(row.id)
    if store().size(key) is None:
        raise NotFound(f"No rejected rows are kept of {row.file_name}. Import the file again to have them.")
    write_audit(session, caller, "imports.download_bad_rows", row.id)
    return Download(file_of(key), f"{slug(Path(row.file_name).stem)}-bad-rows.jsonl")


def answers(session: Session, caller: Caller, evaluation_id: UUID) -> Download:
    """One JSON object a line for every test row, as the model answered it."""
    caller.require(Permission.SEE)
    row = own_row(session, caller, Evaluation, evaluation_id, "evaluation")
    if row.answers_key is None:
        raise NotFound("This evaluation has no answers yet.")
    write_audit(session, caller, "evaluations.download", row.id, sha256=row.answers_sha256)
    return Download(file_of(row.answers_key), f"{row.kind.value}-{str(row.id)[:13]}-answers.jsonl")


def stream_zip(files: Bundle) -> Iterator[bytes]:
    """The archive piece by piece, made while it is read: nothing lies on the disk and little in memory."""
    sink, carried = Sink(), set[str]() if files.images else None
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, text in files.texts.items():
            archive.writestr(_entry(name), text)
        for name, path in files.examples.items():
            yield from _packed(archive, sink, name, read_pieces(name, path, carried))
        for image in sorted(carried or ()):
            assert files.images is not None
            yield from _packed(archive, sink, f"{IMAGES}/{image}", read_bytes(files.images / image))
    yield sink.take()


def _packed(archive: zipfile.ZipFile, sink: Sink, name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    with archive.open(_entry(name), "w", force_zip64=True) as entry:
        for piece in pieces:
            entry.write(piece)
            if sink.held >= _PIECE:
                yield sink.take()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _ZIP_TIME)
    # Parquet and images are packed already, and Parquet that is stored as it is can be read inside the archive.
    entry.compress_type = zipfile.ZIP_DEFLATED if name.endswith((".jsonl", ".json")) else zipfile.ZIP_STORED
    return entry


def file_of(key: str) -> Path:
    """A file of the store, or a sentence where it is gone."""
    path = store().fetch(key)
    if not path.is_file():
        raise Conflict("This file is not in the store any more. Ask the operator to bring it back.")
    return path


def slug(name: str) -> str:
    """A name for a file on any system."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "tensorant"
