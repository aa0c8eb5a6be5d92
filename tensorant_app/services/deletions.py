"""Deleting versions and imports: only what nothing uses, and never what still may be used; files go afterwards, by a job."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db.datasets import DatasetVersion, Import
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.promise import ensure, promise
from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of, reading
from tensorant_app.domain.errors import Conflict, Refused
from tensorant_app.domain.imports import LIFECYCLE as IMPORTS
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.versions import VersionState
from tensorant_app.services.audit import write_audit
from tensorant_app.services.connections import store
from tensorant_app.services.imports import folder_key
from tensorant_app.services.lookup import hold_row
from tensorant_app.services.overlays import files_with
from tensorant_app.services.versions import draft_key, frozen_key

REACT = "deletions.react"
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Remains:
    """What lies in the store of a row that was deleted."""

    folders: Sequence[str]
    content_sha256: str | None = None
    """Of a frozen version: its folder may be another version's as well."""


def uses_of_version(session: Session, version_id: UUID) -> list[str]:
    """What refers to it, as sentences' parts."""
    runs = session.exec(select(Run).where(col(Run.version_id) == version_id).order_by(col(Run.created_at)))
    evaluations = session.exec(
        select(Evaluation).where(col(Evaluation.version_id) == version_id).order_by(col(Evaluation.created_at))
    )
    return [
        *(f"Run {run.name} is {run.state.value.replace('_', ' ')}." for run in runs),
        *(f"An evaluation ({one.kind.value}) of it is {one.state.value}." for one in evaluations),
    ]


def uses_of_import(session: Session, source: Import) -> list[str]:
    """Versions made of it, also those in which it is the file of one split, and files that its rows were added to."""
    mine = select(DatasetVersion).where(
        col(DatasetVersion.dataset_id) == source.dataset_id, col(DatasetVersion.deleted_at).is_(None)
    )
    made = [
        f"Version {version.number} is made of it."
        for version in session.exec(mine.order_by(col(DatasetVersion.number)))
        if source.id == version.import_id or str(source.id) in version.split.get("files", {}).values()
    ]
    return [*made, *(f"Its rows were added to the file {name}." for name in files_with(session, source.id))]


def delete_version(session: Session, caller: Caller, version_id: UUID) -> None:
    """For good. Its number is not given again."""
    caller.require(Permission.DECIDE)
    version = hold_row(session, caller, DatasetVersion, version_id, "version")
    if version.state in (VersionState.CHECKING, VersionState.FREEZING) or version.safety_asked_at is not None:
        raise Conflict(f"Version {version.number} is being worked on. Wait until that is done, then delete it.")
    _refuse_used(f"Version {version.number}", uses_of_version(session, version.id))
    _delete(session, version)
    write_audit(session, caller, "versions.delete", version.id, content_sha256=version.content_sha256)


def delete_import(session: Session, caller: Caller, import_id: UUID) -> None:
    """The file as it was sent, its rows and its errors, for good."""
    caller.require(Permission.DECIDE)
    source = hold_row(session, caller, Import, import_id, "import")
    if source.state not in IMPORTS.final:
        raise Conflict(f"The file {source.file_name} is {source.state.value}. Cancel the import, then delete it.")
    _refuse_used(f"The file {source.file_name}", uses_of_import(session, source))
    _delete(session, source)
    write_audit(session, caller, "imports.delete", source.id, file_name=source.file_name)


def _refuse_used(what: str, uses: Sequence[str]) -> None:
    if uses:
        more = [f"… and {len(uses) - _SHOWN:,} more."] if len(uses) > _SHOWN else []
        raise Refused(f"{what} is in use, so it is kept:", [*uses[:_SHOWN], *more])


def _delete(session: Session, row: Any) -> None:
    row.deleted_at = now_of(session)
    promise(session, REACT, row.id)


def read_remains(session: Session, row_id: UUID) -> Remains | None:
    """None where there is nothing left to remove."""
    version = session.get(DatasetVersion, row_id)
    row = version or session.get(Import, row_id)
    if row is None or row.deleted_at is None or row.files_gone_at is not None:
        return None
    if version is None:
        return Remains([folder_key(row_id)])
    return Remains([draft_key(row_id)], version.content_sha256)


def remove_files(remains: Remains) -> None:
    """Whole folders, renamed first: whoever looks finds all of one or nothing. Harmless to repeat."""
    for key in remains.folders:
        shutil.rmtree(_aside(store().fetch(key)), ignore_errors=True)
    if remains.content_sha256 is None:
        return
    folder = store().fetch(frozen_key(remains.content_sha256))
    aside = _aside(folder)
    # Who freezes the same content from now on finds no folder and makes a new one; who found it before is seen here.
    with reading() as session:
        is_used = _is_content_used(session, remains.content_sha256)
    if is_used and aside.is_dir() and not folder.exists():
        aside.rename(folder)
    shutil.rmtree(aside, ignore_errors=True)


def finish(session: Session, row_id: UUID) -> None:
    row = session.get(DatasetVersion, row_id) or session.get_one(Import, row_id)
    row.files_gone_at = now_of(session)


def promise_all(session: Session) -> None:
    """What the rows call for, whatever became of the promises."""
    for table in (DatasetVersion, Import):
        left = col(table.deleted_at).is_not(None) & col(table.files_gone_at).is_(None)
        ensure(session, REACT, session.exec(select(table.id).where(left)))


def _is_content_used(session: Session, content_sha256: str) -> bool:
    alive = select(DatasetVersion).where(
        col(DatasetVersion.deleted_at).is_(None),
        col(DatasetVersion.state).in_([VersionState.FREEZING, VersionState.FROZEN]),
    )
    return any(
        content_sha256 in (version.content_sha256, (version.report or {}).get("content_sha256"))
        for version in session.exec(alive)
    )


def _aside(folder: Path) -> Path:
    """The folder under another name; an earlier try may have left it there."""
    aside = folder.with_name(f".deleted-{folder.name}")
    if folder.is_dir() and not aside.exists():
        folder.rename(aside)
    return aside
