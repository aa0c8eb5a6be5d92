"""Imports: a file received into the store, read row by row in a process of its own, and its errors kept beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.steps import Cause
from tensorant_app.services.audit import write_audit
from tensorant_app.services.connections import store, tell_disk_trouble
from tensorant_app.services.lookup import own_row

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


def rows_key(import_id: UUID) -> str:
    return f"imports/{import_id}/rows.parquet"


def errors_key(import_id: UUID) -> str:
    return f"imports/{import_id}/errors.jsonl"


def warnings_key(import_id: UUID) -> str:
    """What is odd and blocks nothing, in the form of the errors; duplicates and contradictions stand first."""
    return f"imports/{import_id}/warnings.jsonl"


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
    dataset = own_row(session, caller, Dataset, dataset_id, "dataset")
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


def check_import(session: Session, caller: Caller, import_id: UUID) -> None:
    """The file is here whole: read it."""
    caller.require(Permission.PREPARE)
    row = own_row(session, caller, Import, import_id, "import")
    if store().size(source_key(row.id)) is None:
        raise Conflict(f"The file {row.file_name} has not arrived yet. Send it again.")
    step(session, row, LIFECYCLE, ImportEvent, verb="check", cause=Cause.MEMBER)
    promise(session, REACT, row.id)


def cancel_import(session: Session, caller: Caller, import_id: UUID) -> None:
    caller.require(Permission.PREPARE)
    row = own_row(session, caller, Import, import_id, "import")
    step(session, row, LIFECYCLE, ImportEvent, verb="cancel", cause=Cause.MEMBER)
    write_audit(session, caller, "imports.cancel", row.id, file_name=row.file_name)
    promise(session, REACT, row.id)


def base_of(session: Session, import_id: UUID) -> tuple[str, str]:
    """Name and revision of the project's base model; empty for an import that is gone."""
    row = session.get(Import, import_id)
    if row is None:
        return "", ""
    project = session.get_one(Project, session.get_one(Dataset, row.dataset_id).project_id)
    return project.base_repo_id, project.base_revision


def is_checking(session: Session, import_id: UUID) -> bool:
    row = session.get(Import, import_id)
    return row is not None and row.state is ImportState.CHECKING


def finish_import(session: Session, import_id: UUID, result: dict[str, Any]) -> None:
    """What the reading process found: counts, or why the file as a whole is refused."""
    row = session.get_one(Import, import_id)
    if row.state is not ImportState.CHECKING:
        return
    row.rows, row.accepted, row.rejected = result["rows"], result["accepted"], result["rejected"]
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
    ensure(session, REACT, session.exec(select(Import.id).where(col(Import.state) == ImportState.CHECKING)))


def _read_errors(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_file():
        with path.open(encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines)
