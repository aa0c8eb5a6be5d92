"""Tables: an evaluation and its events. Its answers are a file in the store, named by its hash."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlmodel import Field, SQLModel

from tensorant_app.db.steps import StepEvent
from tensorant_app.db.types import JsonType, word_type
from tensorant_app.domain.evaluations import EvaluationKind, EvaluationState


class Evaluation(SQLModel, table=True):
    id: UUID = Field(primary_key=True)
    created_at: datetime
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    project_id: UUID = Field(foreign_key="project.id", index=True)
    version_id: UUID = Field(foreign_key="dataset_version.id", index=True)
    kind: EvaluationKind = Field(sa_type=word_type(EvaluationKind))
    run_id: UUID | None = Field(default=None, index=True)
    """No foreign key: a run names its baseline, and the two tables would need each other first."""
    baseline_id: UUID | None = Field(default=None, foreign_key="evaluation.id")
    base_revision: str
    state: EvaluationState = Field(sa_type=word_type(EvaluationState), index=True)
    maximum_runtime_hours: float = 2.0
    placement: dict[str, Any] | None = Field(default=None, sa_type=JsonType)
    """Where its machines are asked for: `Placement`. None: wherever the organization asks, the cheapest."""
    reason: str | None = None
    sentence: str | None = None
    attempt: int = 0
    losses: int = 0
    not_before: datetime | None = None
    """While queued it asks for no machine before then."""
    waits_since: datetime | None = None
    refusals: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    answers_key: str | None = None
    answers_sha256: str | None = None
    scores: dict[str, float] | None = Field(default=None, sa_type=JsonType)
    verdict: dict[str, Any] | None = Field(default=None, sa_type=JsonType)
    """`gate.Verdict` with the rule it was judged by, so that it can be recomputed from the answers."""


class EvaluationEvent(StepEvent, table=True):
    __tablename__ = "evaluation_event"

    subject_id: UUID = Field(foreign_key="evaluation.id", index=True)
