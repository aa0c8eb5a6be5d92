"""What a run will take, before it is saved: rows, tokens, steps, and its time by a trial, runs like it, or a formula."""

from __future__ import annotations

import os
from collections.abc import Mapping
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
from tensorant_app.domain.estimates import EACH_MORE, Source, formula_pace, sway
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.place_form import read_placement
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.readiness import memory_needed
from tensorant_app.domain.run_form import read_settings
from tensorant_app.domain.runs import RunPurpose, RunState
from tensorant_app.services import trials
from tensorant_app.services.lookup import own_row
from tensorant_app.services.plans import options_of, sequences_of
from trainer.contract import Outcome, Plan, Split

_LOOKED_AT = 5
"""So many of the newest similar runs are measured by."""
_SPREAD = 0.15
"""One machine is not equally busy every day: the range is at least so wide to each side."""
_MEASURED = (RunState.ADAPTER_READY, RunState.EVALUATING, RunState.COMPLETED, RunState.NO_GAIN)


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
    source: Source
    source_words: str
    """Where the time comes from."""
    sway: str
    """What pulls it up or down."""


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
    time = _time(session, project, version, settings, place, tokens * settings.epochs)
    return Estimate(
        rows=rows,
        tokens_per_epoch=tokens,
        plan=Plan.of(sequences_of(report), options_of(settings), place.gpu_count),
        epochs=settings.epochs,
        effective_batch=settings.effective_batch * place.gpu_count,
        memory=memory_needed(project.base_parameters, settings.method),
        shortest=timedelta(seconds=time.low) if tokens else None,
        longest=timedelta(seconds=time.high) if tokens else None,
        source=time.source,
        source_words=time.words,
        sway=sway(settings),
    )


@dataclass(frozen=True, slots=True)
class _Time:
    """Seconds of a whole run, and where they come from."""

    low: float
    high: float
    source: Source
    words: str


def _time(
    session: Session, project: Project, version: DatasetVersion, settings: RunSettings, place: Placement, tokens: int
) -> _Time:
    """By this run's trial where there was one, else by runs like it, else by the formula."""
    if measured := trials.prediction_for(session, version.id, settings, place):
        return _Time(measured.low, measured.high, Source.TRIAL, "from this run's trial, optimizer steps only")
    paces = paces_of(session, project.id, settings.method, place)
    if paces:
        words = "from 1 similar run" if len(paces) == 1 else f"from {len(paces)} similar runs"
        low, high = min(paces) * (1 - _SPREAD), max(paces) * (1 + _SPREAD)
        return _Time(low * tokens, high * tokens, Source.RUNS, words)
    if place.provider == RUNPOD and place.gpu_types:
        pace = formula_pace(project.base_parameters, settings, place.gpu_types[0], place.gpu_count)
    else:
        pace = formula_pace(project.base_parameters, settings, None, len(os.sched_getaffinity(0)))
    words = "by formula, nothing was measured yet; a small training trial measures it"
    return _Time(pace.low * tokens, pace.high * tokens, Source.FORMULA, words)


def paces_of(session: Session, project_id: UUID, method: str, place: Placement) -> list[float]:
    """Seconds for each token, of the newest runs of this project, method and kind of machine that trained to their end."""
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
        pace * (count / place.gpu_count) ** EACH_MORE
        for settings, result, report, count in found
        if (pace := _pace(settings, result, report, method))
    ]
    return paces[:_LOOKED_AT]


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
