"""Deleting versions, imports and datasets: only what nothing uses, and never what still may be used.

Files go afterwards, by a job.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db.datasets import Dataset, DatasetVersion, Import
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
from tensorant_app.services.lookup import hold_row, own_row
from tensorant_app.services.overlays import files_with
from tensorant_app.services.versions import draft_key, frozen_key

REACT = "deletions.react"
_SHOWN = 20


class Deletable(StrEnum):
    VERSION = "version"
    IMPORT = "import"
    DATASET = "dataset"


@dataclass(frozen=True, slots=True)
class Deletion:
    """What somebody should know before something is deleted for good."""

    kind: Deletable
    name: str
    uses: Sequence[str]
    """Why it is kept, in sentences; empty where it can be deleted."""
    bytes: int
    """Of the store that are given back."""
    imports: int = 0
    versions: int = 0
    """Of a dataset, deleted with it."""


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
        *(f"Run {run.name} ({run.state.value.replace('_', ' ')}) uses it." for run in runs),
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


def show_deletion(session: Session, caller: Caller, kind: Deletable, row_id: UUID) -> Deletion:
    """What uses it, and what deleting it gives back."""
    caller.require(Permission.SEE)
    match kind:
        case Deletable.VERSION:
            version = own_row(session, caller, DatasetVersion, row_id, "version")
            uses = uses_of_version(session, version.id)
            return Deletion(kind, f"Version {version.number}", uses, _freed(session, [], [version]))
        case Deletable.IMPORT:
            source = own_row(session, caller, Import, row_id, "import")
            return Deletion(kind, source.file_name, uses_of_import(session, source), _freed(session, [source], []))
        case Deletable.DATASET:
            dataset = own_row(session, caller, Dataset, row_id, "dataset")
            imports, versions = _content(session, dataset.id)
            uses = [*_at_work(imports, versions), *_uses_of_dataset(session, versions)]
            freed = _freed(session, imports, versions)
            return Deletion(kind, dataset.name, uses, freed, len(imports), len(versions))


def delete(session: Session, caller: Caller, kind: Deletable, row_id: UUID) -> int:
    """One of the three, by its kind; the bytes that its job gives back."""
    acts = {Deletable.VERSION: delete_version, Deletable.IMPORT: delete_import, Deletable.DATASET: delete_dataset}
    return acts[kind](session, caller, row_id)


def delete_version(session: Session, caller: Caller, version_id: UUID) -> int:
    """For good. Its number is not given again."""
    caller.require(Permission.DECIDE)
    version = hold_row(session, caller, DatasetVersion, version_id, "version")
    _refuse_at_work(_at_work([], [version]))
    _refuse_used(f"Version {version.number}", uses_of_version(session, version.id))
    freed = _freed(session, [], [version])
    _delete(session, version)
    write_audit(session, caller, "versions.delete", version.id, content_sha256=version.content_sha256, bytes=freed)
    return freed


def delete_import(session: Session, caller: Caller, import_id: UUID) -> int:
    """The file as it was sent, its rows and its errors, for good."""
    caller.require(Permission.DECIDE)
    source = hold_row(session, caller, Import, import_id, "import")
    _refuse_at_work(_at_work([source], []))
    _refuse_used(f"The file {source.file_name}", uses_of_import(session, source))
    freed = _freed(session, [source], [])
    _delete(session, source)
    write_audit(session, caller, "imports.delete", source.id, file_name=source.file_name, bytes=freed)
    return freed


def delete_dataset(session: Session, caller: Caller, dataset_id: UUID) -> int:
    """With its files and its versions, for good, or none of them."""
    caller.require(Permission.DECIDE)
    dataset = hold_row(session, caller, Dataset, dataset_id, "dataset")
    imports, versions = _content(session, dataset.id)
    for row in (*imports, *versions):
        session.refresh(row, with_for_update=True)
    _refuse_at_work(_at_work(imports, versions))
    _refuse_used(f"The dataset {dataset.name}", _uses_of_dataset(session, versions))
    freed = _freed(session, imports, versions)
    for row in (*imports, *versions):
        _delete(session, row)
    dataset.deleted_at = now_of(session)
    write_audit(
        session,
        caller,
        "datasets.delete",
        dataset.id,
        name=dataset.name,
        imports=len(imports),
        versions=len(versions),
        bytes=freed,
    )
    return freed


def stored_in(session: Session, caller: Caller, dataset_id: UUID) -> int:
    """Bytes of all files of a dataset: what was imported, and its versions."""
    caller.require(Permission.SEE)
    dataset = own_row(session, caller, Dataset, dataset_id, "dataset")
    imports, versions = _content(session, dataset.id)
    return sum(_bytes_of(key) for key in {*_keys(imports, versions), *_contents(versions)})


def _content(session: Session, dataset_id: UUID) -> tuple[Sequence[Import], Sequence[DatasetVersion]]:
    """All of it that is not deleted yet, in one order for everybody who holds it."""
    imports = select(Import).where(Import.dataset_id == dataset_id, col(Import.deleted_at).is_(None))
    versions = select(DatasetVersion).where(
        DatasetVersion.dataset_id == dataset_id, col(DatasetVersion.deleted_at).is_(None)
    )
    return (
        session.exec(imports.order_by(col(Import.id))).all(),
        session.exec(versions.order_by(col(DatasetVersion.number))).all(),
    )


def _at_work(imports: Sequence[Import], versions: Sequence[DatasetVersion]) -> list[str]:
    busy = (VersionState.CHECKING, VersionState.FREEZING)
    return [
        *(
            f"The file {one.file_name} is {one.state.value}. Cancel the import, then delete it."
            for one in imports
            if one.state not in IMPORTS.final
        ),
        *(
            f"Version {one.number} is being worked on. Wait until that is done, then delete it."
            for one in versions
            if one.state in busy or one.safety_asked_at is not None
        ),
    ]


def _uses_of_dataset(session: Session, versions: Sequence[DatasetVersion]) -> list[str]:
    return [f"Version {one.number}: {use}" for one in versions for use in uses_of_version(session, one.id)]


def _freed(session: Session, imports: Sequence[Import], versions: Sequence[DatasetVersion]) -> int:
    """Content that another version has as well stays."""
    gone = [one.id for one in versions]
    contents = {
        frozen_key(one.content_sha256)
        for one in versions
        if one.content_sha256 and not _is_content_used(session, one.content_sha256, without=gone)
    }
    return sum(_bytes_of(key) for key in {*_keys(imports, versions), *contents})


def _keys(imports: Sequence[Import], versions: Sequence[DatasetVersion]) -> list[str]:
    return [*(folder_key(one.id) for one in imports), *(draft_key(one.id) for one in versions)]


def _contents(versions: Sequence[DatasetVersion]) -> set[str]:
    return {frozen_key(one.content_sha256) for one in versions if one.content_sha256}


def _bytes_of(key: str) -> int:
    return sum(path.stat().st_size for path in store().fetch(key).rglob("*") if path.is_file())


def _refuse_at_work(at_work: Sequence[str]) -> None:
    if at_work:
        raise Conflict(at_work[0])


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


def _is_content_used(session: Session, content_sha256: str, without: Collection[UUID] = ()) -> bool:
    alive = select(DatasetVersion).where(
        col(DatasetVersion.deleted_at).is_(None),
        col(DatasetVersion.state).in_([VersionState.FREEZING, VersionState.FROZEN]),
    )
    return any(
        content_sha256 in (version.content_sha256, (version.report or {}).get("content_sha256"))
        for version in session.exec(alive)
        if version.id not in without
    )


def _aside(folder: Path) -> Path:
    """The folder under another name; an earlier try may have left it there."""
    aside = folder.with_name(f".deleted-{folder.name}")
    if folder.is_dir() and not aside.exists():
        folder.rename(aside)
    return aside
