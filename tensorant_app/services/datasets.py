"""Datasets as pages show them: what a project has, its imports and its versions, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, func, select

from tensorant_app.db.datasets import Dataset, DatasetVersion, Import
from tensorant_app.db.projects import Project
from tensorant_app.domain.errors import NotFound
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.leakage import leak_sentences, read_repeats
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.versions import VersionState
from tensorant_app.services.bases import reads_images
from tensorant_app.services.connections import store
from tensorant_app.services.lookup import own_row
from tensorant_app.services.overlays import EditedCounts, counts_of
from tensorant_app.services.versions import files_key
from tensorant_app.services.work import progress_of
from tensorant_app.settings import get_settings

PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class DatasetLine:
    id: UUID
    name: str


@dataclass(frozen=True, slots=True)
class ImportLine:
    id: UUID
    file_name: str
    size: int | None
    state: ImportState
    rows: int
    accepted: int
    rejected: int
    ready: int
    """Rows that a version is made of, after all edits."""
    with_errors: int
    """Rejected rows that nobody has mended or left out."""
    reason: str | None
    created_at: datetime
    warnings: int
    format: str
    """As it was read, such as `alpaca:csv+zip`; empty before."""
    arrived: bool
    """An upload is here whole."""
    waits: bool
    """Its first rows can be seen, and a person says how it is read."""


@dataclass(frozen=True, slots=True)
class VersionLine:
    id: UUID
    number: int
    state: VersionState
    problem: str | None
    rows: int | None
    """None before it was checked."""
    longest: int | None
    errors: int
    file_name: str
    created_at: datetime
    content_sha256: str | None
    leaks: str
    """Rows on two sides of its splits, in words."""


@dataclass(frozen=True, slots=True)
class DataView:
    """One dataset of a project, and the others to choose from."""

    datasets: Sequence[DatasetLine]
    dataset: DatasetLine | None
    imports: Sequence[ImportLine]
    import_count: int
    versions: Sequence[VersionLine]
    version_count: int
    reads_images: bool = False
    """Of a vision project: rows may bring images."""
    upload_limit: int = 0
    """Bytes of one file."""

    @property
    def is_moving(self) -> bool:
        """Something here changes by itself."""
        moving = (ImportState.RECEIVING, ImportState.CHECKING)
        at_work = (VersionState.CHECKING, VersionState.FREEZING)
        return any(i.state in moving for i in self.imports) or any(v.state in at_work for v in self.versions)


def show_data(
    session: Session,
    caller: Caller,
    project_id: UUID,
    *,
    dataset_id: UUID | None = None,
    imports_from: int = 0,
    versions_from: int = 0,
) -> DataView:
    """The dataset asked for, else the newest one."""
    caller.require(Permission.SEE)
    project = own_row(session, caller, Project, project_id, "project")
    is_vision = reads_images(project.base_repo_id, project.base_revision)
    alive = select(Dataset).where(Dataset.project_id == project_id, col(Dataset.deleted_at).is_(None))
    all_of_it = alive.order_by(col(Dataset.created_at).desc())
    datasets = [DatasetLine(dataset.id, dataset.name) for dataset in session.exec(all_of_it)]
    chosen = next((one for one in datasets if one.id == dataset_id), None) if dataset_id else next(iter(datasets), None)
    if chosen is None:
        if dataset_id is not None:
            raise NotFound(f"There is no dataset {dataset_id} in this project.")
        return DataView((), None, (), 0, (), 0, is_vision, get_settings().max_upload_bytes)
    return DataView(
        datasets,
        chosen,
        _imports(session, chosen.id, imports_from),
        session.exec(
            select(func.count())
            .select_from(Import)
            .where(Import.dataset_id == chosen.id, col(Import.deleted_at).is_(None))
        ).one(),
        _versions(session, col(DatasetVersion.dataset_id) == chosen.id, versions_from),
        session.exec(
            select(func.count()).where(DatasetVersion.dataset_id == chosen.id, col(DatasetVersion.deleted_at).is_(None))
        ).one(),
        is_vision,
        get_settings().max_upload_bytes,
    )


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a version's rows come from and how they are divided."""

    dataset: DatasetLine
    source: ImportLine
    split: Mapping[str, Any]
    created_at: datetime
    stored: int
    """Bytes of its files; 0 before it was checked."""
    counts: EditedCounts
    """Of its file, after the edits that its last check took in; of now before there was one."""


def origin_of(session: Session, caller: Caller, version_id: UUID) -> Origin:
    caller.require(Permission.SEE)
    version = own_row(session, caller, DatasetVersion, version_id, "version")
    dataset = session.get_one(Dataset, version.dataset_id)
    source = session.get_one(Import, version.import_id)
    return Origin(
        DatasetLine(dataset.id, dataset.name),
        import_line(session, source),
        version.split,
        version.created_at,
        stored_bytes(version),
        counts_of(session, source, None if version.report is None else version.edit_id),
    )


def stored_bytes(version: DatasetVersion) -> int:
    """What a version's files take: its last check's, or the frozen ones."""
    if version.report is None:
        return 0
    folder = store().fetch(files_key(version))
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0


@dataclass(frozen=True, slots=True)
class ImportPage:
    """An import with what was made of it."""

    line: ImportLine
    progress: tuple[int, str] | None
    """Percent and step, while it is read."""
    dataset: DatasetLine
    versions: Sequence[VersionLine]
    others: Sequence[ImportLine]
    """Files of the dataset that are ready as well, the newest first."""


def show_import_page(session: Session, caller: Caller, import_id: UUID) -> ImportPage:
    caller.require(Permission.SEE)
    row = own_row(session, caller, Import, import_id, "import")
    dataset = session.get_one(Dataset, row.dataset_id)
    versions = _versions(session, col(DatasetVersion.import_id) == row.id, 0)
    progress = progress_of(row.id) if row.state is ImportState.CHECKING else None
    ready = [one for one in _imports(session, dataset.id, 0) if one.state is ImportState.READY and one.id != row.id]
    return ImportPage(import_line(session, row), progress, DatasetLine(dataset.id, dataset.name), versions, ready)


def other_ready_imports(session: Session, caller: Caller, import_id: UUID) -> list[ImportLine]:
    """Files of the same dataset that were read whole, newest first; at most 50."""
    caller.require(Permission.SEE)
    row = own_row(session, caller, Import, import_id, "import")
    others = select(Import).where(
        Import.dataset_id == row.dataset_id,
        Import.id != row.id,
        Import.state == ImportState.READY,
        col(Import.deleted_at).is_(None),
    )
    newest = others.order_by(col(Import.created_at).desc()).limit(PAGE_ROWS)
    return [import_line(session, one) for one in session.exec(newest)]


def frozen_versions(session: Session, caller: Caller, project_id: UUID) -> list[VersionLine]:
    """What a baseline or a run of this project can use, newest first; at most 50."""
    caller.require(Permission.SEE)
    own_row(session, caller, Project, project_id, "project")
    ids = select(Dataset.id).where(Dataset.project_id == project_id)
    mine = col(DatasetVersion.dataset_id).in_(ids) & (col(DatasetVersion.state) == VersionState.FROZEN)
    return _versions(session, mine, 0)


def import_line(session: Session, row: Import) -> ImportLine:
    counts = counts_of(session, row)
    return ImportLine(
        row.id,
        row.file_name,
        row.size,
        row.state,
        row.rows,
        row.accepted,
        row.rejected,
        counts.ready,
        counts.with_errors,
        row.reason,
        row.created_at,
        row.warnings,
        row.format,
        row.arrived,
        row.previewed and row.state is ImportState.RECEIVING,
    )


def _imports(session: Session, dataset_id: UUID, start: int) -> list[ImportLine]:
    page = (
        select(Import)
        .where(Import.dataset_id == dataset_id, col(Import.deleted_at).is_(None))
        .order_by(col(Import.created_at).desc(), col(Import.id))
    )
    return [import_line(session, row) for row in session.exec(page.offset(start).limit(PAGE_ROWS))]


def _versions(session: Session, where: Any, start: int) -> list[VersionLine]:
    page = (
        select(DatasetVersion, Import.file_name)
        .join(Import, col(Import.id) == col(DatasetVersion.import_id))
        .where(where, col(DatasetVersion.deleted_at).is_(None))
        .order_by(col(DatasetVersion.created_at).desc(), col(DatasetVersion.id))
    )
    return [_version_line(row, name) for row, name in session.exec(page.offset(start).limit(PAGE_ROWS))]


def _version_line(row: DatasetVersion, file_name: str) -> VersionLine:
    report = row.report or {}
    mask = report.get("mask", {})
    return VersionLine(
        row.id,
        row.number,
        row.state,
        row.problem,
        sum(report["rows"].values()) if report else None,
        mask.get("longest"),
        max(mask.get("refused", 0), len(mask.get("errors", ()))),
        file_name,
        row.created_at,
        row.content_sha256,
        leaks_of(row),
    )


def leaks_of(version: DatasetVersion) -> str:
    """How many rows stand on two sides of its splits, and in which ways, in words; nothing where none does."""
    return " ".join(leak_sentences(map(read_repeats, (version.report or {}).get("repeats", ()))))
