"""The baselines of a project as its page lists them: what was scored, how far it is, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlmodel import Session, col, func, select

from tensorant_app.db.datasets import Dataset, DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.projects import Project
from tensorant_app.domain.evaluations import LIFECYCLE, EvaluationKind, EvaluationState
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.spend import NOTHING, Spend
from tensorant_app.services import machines
from tensorant_app.services.lookup import own_row
from tensorant_app.services.spend import machine_spends

PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class BaselineLine:
    id: UUID
    dataset: str
    version_id: UUID
    version: int
    state: EvaluationState
    sentence: str | None
    done: int
    total: int
    """Test rows answered so far, of so many; 0 of 0 before the machine speaks."""
    scores: Mapping[str, float] | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    spend: Spend

    @property
    def is_live(self) -> bool:
        return self.state not in LIFECYCLE.final


def list_baselines(
    session: Session, caller: Caller, project_id: UUID, *, start: int = 0
) -> tuple[list[BaselineLine], int]:
    """Up to 50, newest first, and how many there are."""
    caller.require(Permission.SEE)
    own_row(session, caller, Project, project_id, "project")
    where = (Evaluation.project_id == project_id, Evaluation.kind == EvaluationKind.BASELINE)
    total = session.exec(select(func.count()).select_from(Evaluation).where(*where)).one()
    page = (
        select(Evaluation, DatasetVersion.number, Dataset.name)
        .join(DatasetVersion, col(DatasetVersion.id) == col(Evaluation.version_id))
        .join(Dataset, col(Dataset.id) == col(DatasetVersion.dataset_id))
        .where(*where)
        .order_by(col(Evaluation.created_at).desc(), col(Evaluation.id))
        .offset(start)
        .limit(PAGE_ROWS)
    )
    found = session.exec(page).all()
    spends = machine_spends(session, Use.EVALUATION, [row.id for row, _, _ in found])
    return [_line(session, row, number, name, spends.get(row.id, NOTHING)) for row, number, name in found], total


def _line(session: Session, row: Evaluation, number: int, dataset: str, spend: Spend) -> BaselineLine:
    machine = None
    if row.state not in LIFECYCLE.final:
        machine = machines.machine_of(session, Use.EVALUATION, row.id, row.attempt)
    status = machine.status if machine else None
    return BaselineLine(
        row.id,
        dataset,
        row.version_id,
        number,
        row.state,
        row.sentence,
        status.done if status else 0,
        status.total if status else 0,
        row.scores,
        row.created_at,
        row.started_at,
        row.ended_at,
        spend,
    )
