"""Starting an evaluation: what it would cost and where, and the launch itself, of a baseline or of a ready adapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.projects import Project
from tensorant_app.db.promise import promise
from tensorant_app.db.runs import Run
from tensorant_app.domain.connections import ConnectionKind
from tensorant_app.domain.errors import Conflict, Refused
from tensorant_app.domain.evaluations import LIFECYCLE
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.money import FREE, HourlyRate
from tensorant_app.domain.offers import Judged
from tensorant_app.domain.place_form import type_placement
from tensorant_app.domain.readiness import ANSWERING, Verdict
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.scorings import BLANK, Wish, complaints, read_wish
from tensorant_app.domain.steps import Cause
from tensorant_app.domain.trials import require_usable
from tensorant_app.services import evaluations, gpus, rented_checks, runs
from tensorant_app.services.audit import write_audit
from tensorant_app.services.connections import find_connection
from tensorant_app.services.datasets import leaks_of
from tensorant_app.services.lookup import own_row
from tensorant_app.services.prices import RentedLaunch, rented_at, require_price
from tensorant_app.services.slots import SlotsView, show_slots


@dataclass(frozen=True, slots=True)
class ScoringView:
    """Everything that the person who starts an evaluation should know."""

    project_id: UUID
    name: str
    """The run whose adapter is scored; empty for a baseline."""
    typed: Mapping[str, str]
    """The dialog's fields, with a GPU where none was chosen yet."""
    wrong: Mapping[str, str]
    """Field → what is wrong with it as typed."""
    is_connected: bool
    """An account and a network volume: an evaluation's machine reads and writes its files there."""
    offers: Sequence[Judged]
    rented: RentedLaunch | None
    """None where it is answered on this computer, free, or where the fields cannot be read."""
    problem: str
    """Why the chosen GPU cannot be rented now."""
    slots: SlotsView
    leaks: str = ""
    """Of an adapter's version: rows that stand on two sides of its splits, in words."""


def show_scoring(session: Session, caller: Caller, project_id: UUID, typed: Mapping[str, str]) -> ScoringView:
    """Of a baseline, with the dialog's fields as typed; {} as it begins."""
    caller.require(Permission.SPEND)
    project = own_row(session, caller, Project, project_id, "project")
    begun = typed or (gpus.default_place(session, project, dict(BLANK)) if _has_volume(session, project) else BLANK)
    return _view(session, caller, project, begun, "")


def show_adapter_scoring(session: Session, caller: Caller, run_id: UUID, typed: Mapping[str, str]) -> ScoringView:
    """Of a run's ready adapter. It is answered where the run's files lie; only the GPU and the limits are free."""
    caller.require(Permission.SPEND)
    run = _ready_run(session, caller, run_id)
    place = type_placement(evaluations.place_of_adapter(session, run))
    begun = {**BLANK, **{name: text for name, text in place.items() if name in BLANK}, **typed}
    project = session.get_one(Project, run.project_id)
    view = _view(session, caller, project, {**begun, "provider": place["provider"]}, run.name)
    return replace(view, leaks=leaks_of(session.get_one(DatasetVersion, run.version_id)))


def score_base(
    session: Session,
    caller: Caller,
    version_id: UUID,
    typed: Mapping[str, str],
    *,
    shown_price: HourlyRate | None = None,
) -> UUID:
    """Start a baseline where the dialog says, at the price that it showed."""
    caller.require(Permission.SPEND)
    version = own_row(session, caller, DatasetVersion, version_id, "version")
    wish = read_wish(typed)
    evaluation_id = evaluations.create_baseline(session, caller, version.id)
    row = session.get_one(Evaluation, evaluation_id)
    _place(session, caller, row, wish, shown_price)
    return row.id


def score_adapter(
    session: Session, caller: Caller, run_id: UUID, typed: Mapping[str, str], *, shown_price: HourlyRate | None = None
) -> UUID:
    """Start the evaluation of a ready adapter: one that was left out at the launch, or failed, or was cancelled."""
    caller.require(Permission.SPEND)
    run = _ready_run(session, caller, run_id)
    wish = read_wish(typed)
    if wish.placement.provider != type_placement(evaluations.place_of_adapter(session, run))["provider"]:
        raise Conflict("An adapter is scored where its run's files lie. Reload the page and confirm again.")
    run.evaluation_id = evaluations.create_for_run(session, run, Cause.MEMBER)
    row = session.get_one(Evaluation, run.evaluation_id)
    _place(session, caller, row, wish, shown_price)
    promise(session, runs.REACT, run.id)
    return row.id


def _ready_run(session: Session, caller: Caller, run_id: UUID) -> Run:
    run = own_row(session, caller, Run, run_id, "run")
    require_usable(run.purpose)
    if run.state is not RunState.ADAPTER_READY:
        raise Conflict(f"This run is {run.state.value.replace('_', ' ')}: only a ready adapter can be scored.")
    evaluation = session.get(Evaluation, run.evaluation_id) if run.evaluation_id else None
    if evaluation is not None and evaluation.state not in LIFECYCLE.final:
        raise Conflict("This adapter is being scored already.")
    return run


def _view(session: Session, caller: Caller, project: Project, typed: Mapping[str, str], name: str) -> ScoringView:
    asked = {**typed, "gpu_count": "1", "method": ANSWERING}
    known = gpus.list_gpus(session, caller, project.id, asked)
    typed = gpus.complete_form(session, caller, project.id, asked)
    wrong = complaints(typed)
    wish = read_wish(typed) if not wrong else None
    judged = next((one for one in known.judged if one.offer.gpu_type == typed["gpu_type"]), None)
    return ScoringView(
        project.id,
        name,
        {field: typed[field] for field in BLANK},
        wrong,
        known.is_connected and _has_volume(session, project),
        known.judged,
        rented_at(session, project, ANSWERING, wish.placement, wish.runtime) if wish else None,
        judged.sentence if judged else known.trouble,
        show_slots(session, caller),
    )


def _place(session: Session, caller: Caller, row: Evaluation, wish: Wish, shown: HourlyRate | None) -> None:
    """Where it is answered, once everything that a launch depends on was looked at."""
    price = FREE
    if wish.is_rented:
        project = session.get_one(Project, row.project_id)
        gpus.require_usable(session, project, ANSWERING, wish.placement)
        _require_rentable(session, project, session.get_one(DatasetVersion, row.version_id), wish)
        rented = rented_at(session, project, ANSWERING, wish.placement, wish.runtime)
        price = require_price(rented, shown, what="evaluation")
    row.placement = wish.placement.as_values()
    row.maximum_runtime_hours = wish.runtime / timedelta(hours=1)
    write_audit(
        session,
        caller,
        "evaluations.launch",
        row.id,
        price_micros=price.per_hour.micros,
        hours=row.maximum_runtime_hours,
        gpu=wish.placement.gpu_types[0] if wish.placement.gpu_types else "",
    )


def _require_rentable(session: Session, project: Project, version: DatasetVersion, wish: Wish) -> None:
    """The checks of a run's launch that hold for any rented machine."""
    facts = rented_checks.read_rented(session, project, version, ANSWERING, wish.placement)
    assert facts is not None
    if facts.carried is not None:
        raise Refused(
            "An evaluation on RunPod needs a network volume.",
            ["The owner connects one under Connections; or choose this computer."],
        )
    found = [
        *rented_checks.check_account(facts),
        *rented_checks.check_machine(facts, wish.runtime),
        rented_checks.check_image(),
    ]
    if reasons := [one.sentence for one in found if one.verdict is Verdict.REFUSE]:
        raise Refused("The evaluation cannot start as chosen.", reasons)


def _has_volume(session: Session, project: Project) -> bool:
    return find_connection(session, project.organization_id, ConnectionKind.RUNPOD_STORAGE) is not None
