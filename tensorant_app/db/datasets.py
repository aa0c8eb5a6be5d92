"""Tables: a dataset, the files imported into it, and its versions."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, UniqueConstraint
from sqlmodel import Field, SQLModel

from tensorant_app.db.steps import StepEvent
from tensorant_app.db.types import JsonType, word_type
from tensorant_app.domain.edits import EditKind
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.versions import VersionState


class Dataset(SQLModel, table=True):
    id: UUID = Field(primary_key=True)
    created_at: datetime
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    project_id: UUID = Field(foreign_key="project.id", index=True)
    name: str
    deleted_at: datetime | None = None


class Import(SQLModel, table=True):
    """One file, read row by row. Its rows and its errors are files in the store under `imports/<id>/`."""

    id: UUID = Field(primary_key=True)
    created_at: datetime
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    dataset_id: UUID = Field(foreign_key="dataset.id", index=True)
    file_name: str
    size: int | None = Field(default=None, sa_type=BigInteger)
    """Bytes, as announced by an upload; None where the file was on this computer."""
    state: ImportState = Field(sa_type=word_type(ImportState), index=True)
    arrived: bool = False
    """An upload is here whole and waits for a person to say how it is to be read."""
    previewed: bool = False
    """Its first rows were looked at; what they show is a file in the store."""
    mapping: dict[str, Any] | None = Field(default=None, sa_type=JsonType)
    """Layout and columns, where a person chose them: `domain.layouts.as_stored`."""
    format: str = ""
    """As it was read, such as `alpaca:csv+zip`."""
    rows: int = 0
    accepted: int = 0
    rejected: int = 0
    warnings: int = 0
    reason: str | None = None
    """The sentence where the file was refused."""
    deleted_at: datetime | None = None
    files_gone_at: datetime | None = None
    """What lay in the store of it is removed."""


class RowEdit(SQLModel, table=True):
    """One step of a person's editing; rows are only ever added, and `domain.edits` says what they come to."""

    __tablename__ = "row_edit"

    id: int | None = Field(default=None, primary_key=True)
    at: datetime
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    import_id: UUID = Field(foreign_key="import.id", index=True)
    who: str
    """E-mail address at that time, or `operator`."""
    kind: EditKind = Field(sa_type=word_type(EditKind))
    rows: list[int] = Field(sa_type=JsonType)
    example: str = ""
    was_rejected: bool = False
    source_id: UUID | None = Field(default=None, foreign_key="import.id")
    added: int = 0
    undoes: int | None = None


class DatasetVersion(SQLModel, table=True):
    """A snapshot of imported rows, split; frozen, it never changes and its files are named by their content."""

    __tablename__ = "dataset_version"
    __table_args__ = (UniqueConstraint("dataset_id", "number"),)

    id: UUID = Field(primary_key=True)
    created_at: datetime
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    dataset_id: UUID = Field(foreign_key="dataset.id", index=True)
    import_id: UUID = Field(foreign_key="import.id")
    number: int
    """1, 2, 3 … within the dataset."""
    state: VersionState = Field(sa_type=word_type(VersionState), index=True)
    split: dict[str, Any] = Field(sa_type=JsonType)
    """Shares and seed, as `domain.splits` takes them."""
    edit_id: int = 0
    """The last edit of its rows that the check took in; 0 where there was none."""
    merge_system: bool = False
    """The system text stands before the first user text, in masks, baselines, runs and evaluations alike."""
    report: dict[str, Any] | None = Field(default=None, sa_type=JsonType)
    """What the check found: `services.versions.Report`."""
    problem: str | None = None
    """Why the last check or freeze stopped half-way."""
    safety_asked_at: datetime | None = None
    """Somebody wants the frozen rows looked through once more, by the safety settings of now."""
    content_sha256: str | None = None
    """Names the frozen files: `versions/<content_sha256>/` in the store."""
    deleted_at: datetime | None = None
    files_gone_at: datetime | None = None
    """What lay in the store of it is removed."""


class VersionEvent(StepEvent, table=True):
    __tablename__ = "version_event"

    subject_id: UUID = Field(foreign_key="dataset_version.id", index=True)


class ImportEvent(StepEvent, table=True):
    __tablename__ = "import_event"

    subject_id: UUID = Field(foreign_key="import.id", index=True)
