"""What a run will take, before it is saved: rows, tokens, steps, and its time by the pace of runs like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement
from sqlmodel import Session, col, select

from tensorant_app.db.datasets import Dataset, DatasetVersion
from tensorant_app.db.machines import Machine
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.domain.connections import RUNPOD
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.place_form import read_placement
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.readiness import memory_needed
from tensorant_app.domain.run_form import read_settings
from tensorant_app.domain.runs import RunPurpose, RunState
from tensorant_app.services.lookup import own_row
from tensorant_app.services.plans import options_of
from trainer.contract import Outcome, Plan, Split

_LOOKED_AT = 5
"""So many of the newest similar runs are measured by."""
_SPREAD = 0.15
"""One machine is not equally busy every day: the range is at least so wide to each side."""
_SPEED_UP = 0.8
"""n GPUs are n to this power as fast as one, until it is measured."""
_MEASURED = (RunState.ADAPTER_READY, RunState.EVALUATING, RunState.COMPLETED, RunState.NO_GAIN)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds for each training token, of past runs."""

    low: float
    high: float
    runs: int


@dataclass(frozen=True, slots=True)
class Estimate:
    rows: int
    tokens_per_epoch: int
    plan: Plan
    epochs: int
    effective_batch: int
    memory: int
    """Bytes that model, adapter and optimizer need."""
    shortest: timedelta | None
    longest: timedelta | None
    source: str
    """Where the time comes from."""


def estimate_form(session: Session, caller: Caller, project_id: UUID, typed: Mapping[str, str]) -> Estimate | None:
    """None while the form has no usable settings or no version of this project."""
    caller.require(Permission.SEE)
    project = own_row(session, caller, Project, project_id, "project")
    try:
        settings, place = read_settings(typed), read_placement(typed)
        version_id = UUID(typed.get("version", ""))
    except (Invalid, ValueError):
        return None
    version = session.get(DatasetVersion, version_id)
    if version is None or session.get_one(Dataset, version.dataset_id).project_id != project.id:
        return None
    return estimate(session, project, version, settings, place)


def estimate_run(session: Session, caller: Caller, run_id: UUID) -> Estimate:
    caller.require(Permission.SEE)
    run = own_row(session, caller, Run, run_id, "run")
    project = session.get_one(Project, run.project_id)
    version = session.get_one(DatasetVersion, run.version_id)
    return estimate(session, project, version, RunSettings.of(run.settings), Placement.of(run.placement or {}))


def estimate(
    session: Session, project: Project, version: DatasetVersion, settings: RunSettings, place: Placement
) -> Estimate:
    report = version.report or {}
    rows, tokens = _training_part(report)
    pace = pace_of(session, project.id, settings.method, place)
    work = tokens * settings.epochs
    return Estimate(
        rows=rows,
        tokens_per_epoch=tokens,
        plan=Plan.of(rows, options_of(settings), place.gpu_count),
        epochs=settings.epochs,
        effective_batch=settings.effective_batch * place.gpu_count,
        memory=memory_needed(project.base_parameters, settings.method),
        shortest=timedelta(seconds=pace.low * work) if pace else None,
        longest=timedelta(seconds=pace.high * work) if pace else None,
        source=_source(pace),
    )


def pace_of(session: Session, project_id: UUID, method: str, place: Placement) -> Pace | None:
    """By the newest runs of this project, method and kind of machine that trained to their end."""
    found = session.exec(
        select(Run.settings, Machine.result, DatasetVersion.report, Machine.gpu_count)
        .join(Machine, (col(Machine.subject_id) == col(Run.id)) & (col(Machine.attempt) == col(Run.attempt)))
        .join(DatasetVersion, col(DatasetVersion.id) == col(Run.version_id))
        .where(
            Run.project_id == project_id,
            Run.purpose == RunPurpose.FULL,
            col(Run.state).in_(_MEASURED),
            Machine.use == Use.RUN,
            *_alike(place),
        )
        .order_by(col(Run.created_at).desc())
        .limit(4 * _LOOKED_AT)
    )
    paces = [
        pace * (count / place.gpu_count) ** _SPEED_UP
        for settings, result, report, count in found
        if (pace := _pace(settings, result, report, method))
    ]
    return _spread(paces[:_LOOKED_AT])


def _alike(place: Placement) -> tuple[ColumnElement[bool], ...]:
    """A rented GPU says nothing of this computer, nor of another type."""
    if place.provider != RUNPOD:
        return (col(Machine.provider) != RUNPOD,)
    return col(Machine.provider) == RUNPOD, col(Machine.gpu_type).in_(place.gpu_types[:1])


def _pace(
    settings: Mapping[str, Any], result: Mapping[str, Any] | None, report: Mapping[str, Any] | None, method: str
) -> float | None:
    if result is None or result.get("outcome") != Outcome.DONE or settings.get("method") != method:
        return None
    tokens = _training_part(report or {})[1] * int(settings["epochs"])
    return float(result["seconds"]) / tokens if tokens else None


def _training_part(report: Mapping[str, Any]) -> tuple[int, int]:
    """Rows and tokens of the training split."""
    rows = report.get("rows", {}).get(Split.TRAIN.value, 0)
    tokens = report.get("mask", {}).get("tokens", {}).get(Split.TRAIN.value, 0)
    return int(rows), int(tokens)


def _spread(paces: Sequence[float]) -> Pace | None:
    if not paces:
        return None
    return Pace(min(paces) * (1 - _SPREAD), max(paces) * (1 + _SPREAD), len(paces))


def _source(pace: Pace | None) -> str:
    if pace is None:
        return "No measurement yet: no run of this project has trained to its end."
    return "from 1 similar run" if pace.runs == 1 else f"from {pace.runs} similar runs"
