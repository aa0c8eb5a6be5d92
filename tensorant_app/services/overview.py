"""A project at a glance: what waits for a person, what runs, how far the first path is, and what came of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from tensorant_app.db.datasets import Dataset, DatasetVersion, Import
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of
from tensorant_app.domain.connections import ConnectionKind
from tensorant_app.domain.evaluations import LIFECYCLE, EvaluationKind, EvaluationState
from tensorant_app.domain.gate import Decision
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.runs import KEEPS_MACHINE, RunState
from tensorant_app.domain.spend import NOTHING, Spend
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import connecting, machines, strays
from tensorant_app.services.budgets import Budget, budget_of
from tensorant_app.services.connecting import ConnectionView
from tensorant_app.services.datasets import VersionLine, frozen_versions
from tensorant_app.services.lookup import own_row
from tensorant_app.services.machine_views import in_doubt
from tensorant_app.services.overlays import counts_of
from tensorant_app.services.slots import SlotsView, show_slots
from tensorant_app.services.spend import machine_spends

_LIVE = frozenset({RunState.QUEUED, *KEEPS_MACHINE, RunState.EVALUATING})
_MOST = 10


class Thing(StrEnum):
    """What a line of "Needs you" is about, and so where it leads."""

    RUN = "run"
    IMPORT = "import"
    VERSION = "version"
    STRAY = "stray"


@dataclass(frozen=True, slots=True)
class Need:
    """Something that goes on only when a person acts."""

    thing: Thing
    id: UUID
    title: str
    sentence: str
    verb: str
    is_urgent: bool = False


@dataclass(frozen=True, slots=True)
class RunGlance:
    id: UUID
    name: str
    state: RunState
    sentence: str | None
    created_at: datetime
    step: int
    total_steps: int
    validation_loss: float | None
    passed: bool | None
    """What the gate said; None without a verdict."""
    difference: float | None
    """Adapter minus baseline, in points, where there is a verdict."""
    spend: Spend


@dataclass(frozen=True, slots=True)
class OverviewView:
    needs: Sequence[Need]
    live: Sequence[RunGlance]
    recent: Sequence[RunGlance]
    has_data: bool
    """Some file was imported."""
    newest: VersionLine | None
    """The newest frozen version."""
    rows: dict[str, int]
    """Split → rows of that version."""
    baseline: dict[str, float] | None
    """Its completed baseline's scores."""
    compute: ConnectionView | None
    """The organization's account, where one is connected."""
    slots: SlotsView
    budget: Budget
    is_scoring: bool
    """No baseline is complete yet, and one is on its way."""


def show_overview(session: Session, caller: Caller, project_id: UUID) -> OverviewView:
    caller.require(Permission.SEE)
    project = own_row(session, caller, Project, project_id, "project")
    runs = select(Run).where(Run.project_id == project.id).order_by(col(Run.created_at).desc())
    live = session.exec(runs.where(col(Run.state).in_(list(_LIVE))).limit(_MOST)).all()
    recent = session.exec(runs.where(col(Run.state).not_in(list(_LIVE))).limit(_MOST)).all()
    costs = machine_spends(session, Use.RUN, [run.id for run in (*live, *recent)])
    newest = next(iter(frozen_versions(session, caller, project.id)), None)
    baseline = _newest_baseline(session, newest, {EvaluationState.COMPLETED})
    return OverviewView(
        needs=[*_stray_needs(session, caller), *_run_needs(session, project.id), *_data_needs(session, project.id)],
        live=[_glance(session, run, costs.get(run.id, NOTHING)) for run in live],
        recent=[_glance(session, run, costs.get(run.id, NOTHING)) for run in recent],
        has_data=session.exec(_imports(project.id).limit(1)).first() is not None,
        newest=newest,
        rows=_rows(session, newest),
        baseline=baseline.scores if baseline else None,
        compute=_compute(session, caller),
        slots=show_slots(session, caller),
        budget=budget_of(session, project),
        is_scoring=baseline is None
        and _newest_baseline(session, newest, set(EvaluationState) - LIFECYCLE.final) is not None,
    )


def _compute(session: Session, caller: Caller) -> ConnectionView | None:
    found = connecting.list_connections(session, caller)
    return next((one for one in found if one.kind is ConnectionKind.RUNPOD_COMPUTE), None)


def _stray_needs(session: Session, caller: Caller) -> list[Need]:
    """Machines of the organization's account that cost and that nothing here works with."""
    found = [one for one in strays.list_strays(session, caller) if not one.is_ending]
    price = [f" for {one.rate}" if one.rate else "" for one in found]
    return [
        Need(Thing.STRAY, one.id, "A machine that no run knows", f"{one.name} runs{cost}.", "Decide", is_urgent=True)
        for one, cost in zip(found[:_MOST], price, strict=False)
    ]


_WAITING = {
    RunState.NEEDS_RECOVERY: ("needs recovery", "It stopped; what it saved is safe.", "Recover"),
    RunState.PAUSED: ("is paused", "It goes on from its last checkpoint when somebody resumes it.", "Open"),
    RunState.ADAPTER_READY: (
        "is not scored",
        "The adapter is ready, and nothing says yet whether it is better.",
        "Open",
    ),
    RunState.DRAFT: ("is a draft", "It costs nothing until it is launched.", "Open"),
}
"""State → what is said of a run in it, and the button."""


def _run_needs(session: Session, project_id: UUID) -> list[Need]:
    """The urgent ones first: a machine that may cost money, then a run that stopped."""
    newest = select(Run).where(Run.project_id == project_id).order_by(col(Run.created_at).desc()).limit(_MOST)
    doubtful = session.exec(newest.where(col(Run.id).in_(in_doubt(Use.RUN, now_of(session))))).all()
    needs = [
        Need(
            Thing.RUN,
            run.id,
            f"{run.name}: its launch is being checked",
            "Nobody knows yet whether its machine exists, and costs. It is looked for.",
            "Look",
            is_urgent=True,
        )
        for run in doubtful
    ]
    for run in session.exec(newest.where(col(Run.state).in_(list(_WAITING)))):
        words, why, verb = _WAITING[run.state]
        urgent = run.state is RunState.NEEDS_RECOVERY
        needs.append(Need(Thing.RUN, run.id, f"{run.name} {words}", run.sentence or why, verb, urgent))
    return sorted(needs, key=lambda need: not need.is_urgent)


def _data_needs(session: Session, project_id: UUID) -> list[Need]:
    """Drafts of versions, and imports whose rows nobody has used or mended yet."""
    needs = []
    drafts = select(DatasetVersion).join(Dataset, col(Dataset.id) == col(DatasetVersion.dataset_id))
    for version in session.exec(
        drafts.where(
            Dataset.project_id == project_id,
            DatasetVersion.state == VersionState.DRAFT,
            col(DatasetVersion.deleted_at).is_(None),
        )
        .order_by(col(DatasetVersion.created_at).desc())
        .limit(_MOST)
    ):
        why = version.problem or ("Checked; freeze it to use it." if version.report else "It is not checked yet.")
        needs.append(Need(Thing.VERSION, version.id, f"Version {version.number} is a draft", why, "Open"))
    used = select(DatasetVersion.import_id).where(col(DatasetVersion.deleted_at).is_(None))
    unused = _imports(project_id).where(Import.state == ImportState.READY, col(Import.id).not_in(used))
    for row in session.exec(unused.order_by(col(Import.created_at).desc()).limit(_MOST)):
        wrong = counts_of(session, row).with_errors
        errors = f"{wrong:,} of {row.rows:,} rows have errors" if wrong else "Every row is ready"
        title = f"{row.file_name} is not in any version yet"
        needs.append(Need(Thing.IMPORT, row.id, title, f"{errors}; make a version of it.", "Review"))
    return needs


def _imports(project_id: UUID) -> SelectOfScalar[Import]:
    return (
        select(Import)
        .join(Dataset, col(Dataset.id) == col(Import.dataset_id))
        .where(Dataset.project_id == project_id, col(Import.deleted_at).is_(None))
    )


def _glance(session: Session, run: Run, spend: Spend) -> RunGlance:
    machine = machines.machine_of(session, Use.RUN, run.id, run.attempt)
    status = machine.status if machine else None
    evaluation = session.get(Evaluation, run.evaluation_id) if run.evaluation_id else None
    verdict = evaluation.verdict if evaluation else None
    return RunGlance(
        run.id,
        run.name,
        run.state,
        run.sentence,
        run.created_at,
        status.step if status else 0,
        status.total_steps if status else 0,
        status.validation_loss if status else None,
        verdict["decision"] == Decision.PASSED if verdict else None,
        100 * verdict["difference"] if verdict else None,
        spend,
    )


def _rows(session: Session, newest: VersionLine | None) -> dict[str, int]:
    report = session.get_one(DatasetVersion, newest.id).report if newest else None
    return dict(report["rows"]) if report else {}


def _newest_baseline(
    session: Session, newest: VersionLine | None, states: Collection[EvaluationState]
) -> Evaluation | None:
    if newest is None:
        return None
    query = select(Evaluation).where(
        Evaluation.version_id == newest.id,
        Evaluation.kind == EvaluationKind.BASELINE,
        col(Evaluation.state).in_(list(states)),
    )
    return session.exec(query.order_by(col(Evaluation.created_at).desc()).limit(1)).first()
