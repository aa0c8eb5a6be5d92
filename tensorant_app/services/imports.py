"""Imports: a file received into the store, read row by row in a process of its own, and its errors kept beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db import clock
from tensorant_app.db.datasets import Dataset, Import, ImportEvent
from tensorant_app.db.projects import Project
from tensorant_app.db.promise import ensure, promise
from tensorant_app.db.session import now_of
from tensorant_app.db.steps import begin, step
from tensorant_app.domain.errors import Conflict, Invalid, Refused
from tensorant_app.domain.imports import LIFECYCLE, ImportState
from tensorant_app.domain.layouts import ColumnMapping, as_stored
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.steps import Cause
from tensorant_app.services.audit import write_audit
from tensorant_app.services.connections import store, tell_disk_trouble
from tensorant_app.services.lookup import hold_row, own_row

REACT = "imports.react"


@dataclass(frozen=True, slots=True)
class ImportView:
    id: UUID
    file_name: str
    state: ImportState
    rows: int
    accepted: int
    rejected: int
    reason: str | None


def source_key(import_id: UUID) -> str:
    return f"imports/{import_id}/source.jsonl"


def folder_key(import_id: object) -> str:
    """All that lies in the store of it."""
    return f"imports/{import_id}"


def rows_key(import_id: UUID) -> str:
    return f"imports/{import_id}/rows.parquet"


def errors_key(import_id: UUID) -> str:
    return f"imports/{import_id}/errors.jsonl"


def warnings_key(import_id: UUID) -> str:
    """What is odd and blocks nothing, in the form of the errors; duplicates and contradictions stand first."""
    return f"imports/{import_id}/warnings.jsonl"


def bad_rows_key(import_id: UUID) -> str:
    """The rejected rows as they stand in the file, with their reasons."""
    return f"imports/{import_id}/bad_rows.jsonl"


def preview_key(import_id: UUID) -> str:
    """What the first rows of an upload show."""
    return f"imports/{import_id}/preview.json"


def create_dataset(session: Session, caller: Caller, project_id: UUID, name: str) -> UUID:
    caller.require(Permission.PREPARE)
    project = own_row(session, caller, Project, project_id, "project")
    if not name.strip():
        raise Invalid({"name": "A dataset needs a name."})
    at = now_of(session)
    dataset = Dataset(
        id=clock.new_id(at),
        created_at=at,
        organization_id=project.organization_id,
        project_id=project.id,
        name=name.strip(),
    )
    session.add(dataset)
    write_audit(session, caller, "datasets.create", dataset.id)
    return dataset.id


def start_import(session: Session, caller: Caller, dataset_id: UUID, file_name: str) -> UUID:
    """The import that will receive a file; the file goes into the store under `source_key`."""
    caller.require(Permission.PREPARE)
    dataset = hold_row(session, caller, Dataset, dataset_id, "dataset")
    at = now_of(session)
    row = Import(
        id=clock.new_id(at),
        created_at=at,
        organization_id=dataset.organization_id,
        dataset_id=dataset.id,
        file_name=file_name,
        state=ImportState.RECEIVING,
    )
    begin(session, row, ImportEvent, verb="receive", cause=Cause.MEMBER)
    write_audit(session, caller, "imports.receive", row.id, file_name=file_name)
    return row.id


def receive_file(import_id: UUID, path: Path) -> None:
    """Copy a file of this computer into the store; nothing is left half-received."""
    if not path.is_file():
        raise Invalid({"file": f"There is no file {path}. Look at its name and folder."})
    try:
        store().put(source_key(import_id), path)
    except OSError as error:
        raise Refused(f"The file {path.name} could not be received.", [tell_disk_trouble(error)]) from error


def await_person(session: Session, caller: Caller, import_id: UUID) -> None:
    """An upload is here whole: look at its first rows, and read it when a person says how."""
    caller.require(Permission.PREPARE)
    row = own_row(session, caller, Import, import_id, "import")
    row.arrived = True
    promise(session, REACT, row.id)


def check_import(session: Session, caller: Caller, import_id: UUID, *, mapping: ColumnMapping | None = None) -> None:
    """The file is here whole: read it, in the layout that it shows unless a mapping says another."""
    caller.require(Permission.PREPARE)
    row = own_row(session, caller, Import, import_id, "import")
    if store().size(source_key(row.id)) is None:
        raise Conflict(f"The file {row.file_name} has not arrived yet. Send it again.")
    row.mapping = as_stored(mapping) if mapping else None
    step(session, row, LIFECYCLE, ImportEvent, verb="check", cause=Cause.MEMBER)
    write_audit(session, caller, "imports.check", row.id, mapping=json.dumps(row.mapping) if row.mapping else None)
    promise(session, REACT, row.id)


def give_up(session: Session, row: Import) -> None:
    """Nobody has sent a byte of it for long."""
    sentence = "No byte of it came for a week."
    step(session, row, LIFECYCLE, ImportEvent, verb="cancel", cause=Cause.WORKER, sentence=sentence)
    promise(session, REACT, row.id)


def cancel_import(session: Session, caller: Caller, import_id: UUID) -> None:
    """Its reading ends within seconds, and then what has arrived of the file is removed."""
    caller.require(Permission.PREPARE)
    row = own_row(session, caller, Import, import_id, "import")
    step(session, row, LIFECYCLE, ImportEvent, verb="cancel", cause=Cause.MEMBER)
    write_audit(session, caller, "imports.cancel", row.id, file_name=row.file_name)
    promise(session, REACT, row.id)


@dataclass(frozen=True, slots=True)
class ImportWork:
    """What the worker has to do for an import."""

    state: ImportState
    """RECEIVING: look at its first rows; CHECKING: read it."""
    mapping: Mapping[str, Any] | None
    base: tuple[str, str]
    """Name and revision of the project's base model, whose control tokens are looked for."""


def work_on(session: Session, import_id: UUID) -> ImportWork | None:
    """None where nothing is wanted any more."""
    row = session.get(Import, import_id)
    if row is None or not _is_wanted(row):
        return None
    return ImportWork(row.state, row.mapping, base_of(session, row))


def is_thrown_away(session: Session, import_id: UUID) -> bool:
    """It was cancelled, and what has arrived of it is still here."""
    row = session.get(Import, import_id)
    return row is not None and row.state is ImportState.CANCELLED and row.files_gone_at is None


def note_thrown_away(session: Session, import_id: UUID) -> None:
    session.get_one(Import, import_id).files_gone_at = now_of(session)


def base_of(session: Session, row: Import) -> tuple[str, str]:
    """Name and revision of its project's base model."""
    project = session.get_one(Project, session.get_one(Dataset, row.dataset_id).project_id)
    return project.base_repo_id, project.base_revision


def _is_wanted(row: Import) -> bool:
    waits = row.state is ImportState.RECEIVING and row.arrived and not row.previewed
    return waits or row.state is ImportState.CHECKING


def finish_preview(session: Session, import_id: UUID, refused: str | None) -> None:
    """Its first rows lie in the store, or no mapping can make rows of the file."""
    row = session.get_one(Import, import_id)
    if row.state is not ImportState.RECEIVING or row.previewed:
        return
    row.previewed = True
    if refused is not None:
        row.reason = refused
        step(session, row, LIFECYCLE, ImportEvent, verb="fail", cause=Cause.WORKER, sentence=refused)


def finish_import(session: Session, import_id: UUID, result: dict[str, Any]) -> None:
    """What the reading process found: counts, or why the file as a whole is refused."""
    row = session.get_one(Import, import_id)
    if row.state is not ImportState.CHECKING:
        return
    row.rows, row.accepted, row.rejected = result["rows"], result["accepted"], result["rejected"]
    row.warnings, row.format = result.get("warnings", 0), result.get("format", "")
    row.reason = result["refused"]
    verb = "fail" if row.reason else "done"
    step(session, row, LIFECYCLE, ImportEvent, verb=verb, cause=Cause.WORKER, sentence=row.reason)


def show_import(session: Session, caller: Caller, import_id: UUID) -> ImportView:
    caller.require(Permission.SEE)
    row = own_row(session, caller, Import, import_id, "import")
    return ImportView(row.id, row.file_name, row.state, row.rows, row.accepted, row.rejected, row.reason)


def read_errors(session: Session, caller: Caller, import_id: UUID) -> Iterator[dict[str, Any]]:
    """Every fault of every rejected row: row, line, path, code, message."""
    show_import(session, caller, import_id)
    return _read_errors(store().fetch(errors_key(import_id)))


def promise_all(session: Session) -> None:
    """What the rows call for, whatever became of the promises."""
    waits = (col(Import.state) == ImportState.RECEIVING) & col(Import.arrived) & ~col(Import.previewed)
    thrown_away = (col(Import.state) == ImportState.CANCELLED) & col(Import.files_gone_at).is_(None)
    wanted = (col(Import.state) == ImportState.CHECKING) | waits | thrown_away
    ensure(session, REACT, session.exec(select(Import.id).where(wanted)))


def _read_errors(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_file():
        with path.open(encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines)
