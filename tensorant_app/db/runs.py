"""Tables: a training run, its events, its adapter, its folded curves, and the form of the next one."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Index, UniqueConstraint
from sqlmodel import Field, SQLModel

from tensorant_app.db.steps import StepEvent
from tensorant_app.db.types import JsonType, word_type
from tensorant_app.domain.runs import AdapterUploadState, RunPurpose, RunState


class Run(SQLModel, table=True):
    # A page of the list reads its fifty rows and no more: order, counts and filters are answered by an index alone.
    __table_args__ = (
        Index(None, "project_id", "created_at", "id"),
        Index(None, "project_id", "state", "name", "id"),
        Index(None, "project_id", "version_id"),
        Index(None, "project_id", "created_by"),
    )

    id: UUID = Field(primary_key=True)
    created_at: datetime
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    project_id: UUID = Field(foreign_key="project.id")
    version_id: UUID = Field(foreign_key="dataset_version.id")
    baseline_id: UUID = Field(foreign_key="evaluation.id")
    created_by: UUID | None = Field(default=None, foreign_key="member.id")
    name: str
    purpose: RunPurpose = Field(sa_type=word_type(RunPurpose))
    state: RunState = Field(sa_type=word_type(RunState), index=True)
    settings: dict[str, Any] = Field(sa_type=JsonType)
    """`RunSettings`, fixed when the draft was saved."""
    placement: dict[str, Any] | None = Field(default=None, sa_type=JsonType)
    """Where its machines are asked for: `Placement`. None: wherever the organization asks, the cheapest."""
    gate: dict[str, Any] = Field(sa_type=JsonType)
    """`GateRule`, fixed when the draft was saved."""
    trial: dict[str, Any] | None = Field(default=None, sa_type=JsonType)
    """`TrialSettings` of a small training trial; `settings` are then those of the full run that it measures."""
    trial_report: dict[str, Any] | None = Field(default=None, sa_type=JsonType)
    """`TrialReport`, as its machine last wrote it."""
    trial_id: UUID | None = None
    """The trial that a full draft was made from. No foreign key: the table would name itself."""
    evaluates: bool = True
    """Score the adapter as soon as it is ready."""
    reason: str | None = None
    sentence: str | None = None
    """Why it is where it is, for people."""
    findings: list[dict[str, Any]] | None = Field(default=None, sa_type=JsonType)
    """The readiness checks as last looked at."""
    attempt: int = 0
    """The current attempt's number; 0 before the first."""
    losses: int = 0
    queued_at: datetime | None = None
    not_before: datetime | None = None
    """While queued it asks for no machine before then."""
    waits_since: datetime | None = None
    """The first refusal for capacity of this launch."""
    refusals: int = 0
    """Machines in a row that were refused for capacity; the next one is asked of the next GPU choice."""
    runtime_limit_hours: float | None = None
    """A longer maximum runtime than its settings', set by a member; all attempts together."""
    pause_wanted_at: datetime | None = None
    verify_wanted_at: datetime | None = None
    """Somebody asked to look for a finished adapter on the volume."""
    started_at: datetime | None = None
    """The first machine was asked for."""
    seconds_used: float = 0.0
    """Runtime of the attempts that ended, against the maximum runtime."""
    ended_at: datetime | None = None
    evaluation_id: UUID | None = Field(default=None, foreign_key="evaluation.id")
    """The evaluation that scores its adapter."""


class RunEvent(StepEvent, table=True):
    __tablename__ = "run_event"

    subject_id: UUID = Field(foreign_key="run.id", index=True)


class Adapter(SQLModel, table=True):
    """The packaged result of a run, verified against its manifest."""

    id: UUID = Field(primary_key=True)
    created_at: datetime
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    run_id: UUID = Field(foreign_key="run.id", unique=True)
    attempt: int
    key: str
    """Folder on the volume."""
    manifest: dict[str, Any] = Field(sa_type=JsonType)
    zip_key: str | None = None
    """The download in the store, made once."""
    zip_sha256: str | None = None


class AdapterUpload(SQLModel, table=True):
    """An `adapter.zip` that a person carries over from a machine's own disk."""

    __tablename__ = "adapter_upload"

    id: UUID = Field(primary_key=True)
    created_at: datetime
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    run_id: UUID = Field(foreign_key="run.id", index=True)
    created_by: UUID | None = Field(default=None, foreign_key="member.id")
    size: int = Field(sa_type=BigInteger)
    state: AdapterUploadState = Field(sa_type=word_type(AdapterUploadState))
    reason: str | None = None
    """Why it was refused, as a sentence."""


class Curve(SQLModel, table=True):
    """A folded metric of one attempt: at most 600 buckets of minimum and maximum, and how far the file was read."""

    __table_args__ = (UniqueConstraint("run_id", "attempt", "name"),)

    id: int | None = Field(default=None, primary_key=True)
    run_id: UUID = Field(foreign_key="run.id", index=True)
    attempt: int
    name: str
    width: int = 1
    """Steps in each bucket; doubled whenever there are too many buckets."""
    buckets: list[list[float]] = Field(sa_type=JsonType)
    """[first step, minimum, maximum, last value] each."""
    read_to: int = 0
    """Bytes of `metrics.jsonl` folded so far."""


class DraftForm(SQLModel, table=True):
    """What a member typed into Configure and has not saved yet; it survives Back, time-out and another browser."""

    __tablename__ = "draft_form"
    __table_args__ = (UniqueConstraint("member_id", "project_id"),)

    id: int | None = Field(default=None, primary_key=True)
    member_id: UUID = Field(foreign_key="member.id", index=True)
    project_id: UUID = Field(foreign_key="project.id", index=True)
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    updated_at: datetime
    fields: dict[str, Any] = Field(sa_type=JsonType)
    """As typed, not yet checked."""
