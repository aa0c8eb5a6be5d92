"""Small training trials: what their machine wrote, what it means for the full run, and the full draft made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Run
from tensorant_app.domain.connections import LOCAL, RUNPOD
from tensorant_app.domain.errors import Conflict
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.runs import LIFECYCLE, RunPurpose, RunState
from tensorant_app.domain.trials import TrialSettings, cost_of
from tensorant_app.providers.base import FileStore
from tensorant_app.services import machines, runs
from tensorant_app.services.lookup import own_row
from tensorant_app.services.machine_views import read_file
from tensorant_app.services.machines import MachineView
from trainer.contract import TRIAL, Prediction, TrialLimits, TrialReport, load

_UNTIMED = frozenset(
    {
        *(
            "maximum_runtime_hours",
            "learning_rate",
            "schedule",
            "warmup_ratio",
            "weight_decay",
            "max_grad_norm",
            "seed",
        ),
        *("checkpoint_unit", "checkpoint_every_epochs", "checkpoint_every_steps", "evaluate_at_checkpoints"),
        *("alpha", "early_stop", "early_stop_patience", "adapter_from"),
    }
)
"""Settings that change what is learned, or when it must end, and not how long a step takes."""
NEVER_SPOKE = (
    "Its machine ended before it could measure anything: starting it, or downloading the base model, took all its time."
)
NOT_YET = "The report comes when the trial has ended."
CANCELLED = "It was cancelled before its end, so there is no report."


@dataclass(frozen=True, slots=True)
class TrialView:
    """A trial as its run's page, and the command line, show it."""

    bounds: TrialSettings
    report: TrialReport | None
    missing: str
    """Why there is no report at all; empty where there is one."""
    price: HourlyRate | None
    """Of its machine; None where it is not known."""
    cost: tuple[Money, Money] | None
    """Of the full run's optimizer steps, from the 10 % to the 90 % bound."""
    refusal: str
    """Why no full draft can be made of it now; empty where one can."""


def limits_of(bounds: TrialSettings, settings: RunSettings) -> TrialLimits:
    """As the trainer reads them."""
    return TrialLimits(
        bounds.trial_rows,
        bounds.trial_validation_rows,
        bounds.trial_steps,
        bounds.trial_seed,
        bounds.trial_minutes,
        settings.maximum_runtime_hours,
    )


def read_report(volume: FileStore, machine: MachineView) -> TrialReport | None:
    """What the machine wrote so far, as far as it can be read; no session open."""
    return read_file(volume, f"{machine.outputs_key}/{TRIAL}", TrialReport)


def show_trial(session: Session, caller: Caller, run_id: UUID) -> TrialView | None:
    """The training trial report of a run; None for a run that is no trial."""
    caller.require(Permission.SEE)
    run = own_row(session, caller, Run, run_id, "run")
    if run.trial is None:
        return None
    report = _stored(run.trial_report)
    price = _price(machines.machine_of(session, Use.RUN, run.id, run.attempt))
    predicted = report.prediction if report else None
    return TrialView(
        bounds=TrialSettings.of(run.trial),
        report=report,
        missing="" if report else _why_none(run),
        price=price,
        cost=cost_of(price, predicted.low, predicted.high) if price and predicted else None,
        refusal=_refusal(session, run),
    )


def require_finished(session: Session, run: Run) -> None:
    """A full draft is made of a completed trial whose machine is proved gone."""
    if sentence := _refusal(session, run):
        raise Conflict(sentence)


def prediction_for(session: Session, version_id: UUID, settings: RunSettings, place: Placement) -> Prediction | None:
    """What the newest trial of this version measured, on such a machine, for settings that take the same time."""
    wanted = _timed(settings.as_values())
    rented = col(Machine.gpu_type).in_(place.gpu_types[:1])
    found = (
        select(Run.settings, Run.trial_report)
        .join(Machine, (col(Machine.subject_id) == col(Run.id)) & (col(Machine.attempt) == col(Run.attempt)))
        .where(
            Run.version_id == version_id,
            Run.purpose == RunPurpose.TRIAL,
            Run.state == RunState.COMPLETED,
            col(Run.trial_report).is_not(None),
            Machine.use == Use.RUN,
            Machine.gpu_count == place.gpu_count,
            rented if place.provider == RUNPOD else col(Machine.provider) != RUNPOD,
        )
    )
    for stored, report in session.exec(found.order_by(col(Run.created_at).desc()).limit(20)):
        if _timed(stored) == wanted and (measured := _stored(report)) and measured.prediction:
            return measured.prediction
    return None


def _timed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in _UNTIMED}


def _stored(report: Mapping[str, Any] | None) -> TrialReport | None:
    return load(TrialReport, json.dumps(report)) if report else None


def _price(machine: MachineView | None) -> HourlyRate | None:
    """Of the whole machine; this computer costs nothing."""
    if machine is None:
        return None
    return HourlyRate(Money(0)) if machine.provider == LOCAL else machine.rate


def _why_none(run: Run) -> str:
    if run.state is RunState.CANCELLED and run.attempt:
        return CANCELLED
    if run.state in LIFECYCLE.final:
        return NEVER_SPOKE if run.attempt else "It was never started, so nothing was measured."
    return NOT_YET


def _refusal(session: Session, run: Run) -> str:
    if run.purpose is not RunPurpose.TRIAL:
        return "Only a small training trial has the settings of a full run stored beside it."
    if run.state is not RunState.COMPLETED:
        return "The full training draft can be made once the trial is completed."
    if runs.holds_machine(session, run.id):
        return "The trial's machine is not proved released yet. The draft can be made when it is."
    return ""
