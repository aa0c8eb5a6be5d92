"""Drafts: the form that is not saved yet, the draft made of it, and drafts made from runs that were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlmodel import Session, col, func, select

from tensorant_app.db.datasets import Dataset, DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import DraftForm, Run
from tensorant_app.db.session import now_of
from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.evaluations import EvaluationKind, EvaluationState
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.place_form import NOT_BEFORE, read_placement, type_placement
from tensorant_app.domain.run_form import (
    LONGEST_TEXT,
    NAME,
    PURPOSE,
    blank_form,
    complaints,
    read_settings,
    read_trial,
    type_settings,
)
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import gpus, runs, trials
from tensorant_app.services.audit import write_audit
from tensorant_app.services.lookup import own_row

LONGEST_NAME = 100
"""Characters of a run's name."""


@dataclass(frozen=True, slots=True)
class VersionChoice:
    id: UUID
    label: str
    rows: Mapping[str, int]
    """Split → rows."""


@dataclass(frozen=True, slots=True)
class BaselineChoice:
    id: UUID
    version_id: UUID
    label: str


@dataclass(frozen=True, slots=True)
class FormView:
    """The form as it was typed last, and what can be chosen in it."""

    typed: Mapping[str, str]
    kept_at: datetime | None
    """When it was last kept; None where nothing is typed yet."""
    versions: Sequence[VersionChoice]
    baselines: Sequence[BaselineChoice]
    base_repo_id: str
    base_revision: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft that was just made, and where it lies."""

    id: UUID
    project_id: UUID


def show_form(session: Session, caller: Caller, project_id: UUID) -> FormView:
    """What this member typed last in this project, or the defaults with the newest version and its baseline."""
    caller.require(Permission.SEE)
    project = own_row(session, caller, Project, project_id, "project")
    versions, baselines = _versions(session, project), _baselines(session, project)
    kept = _kept(session, caller, project_id)
    typed = {**blank_form(), NAME: _suggest_name(session, project, versions)}
    if versions:
        own = [choice for choice in baselines if choice.version_id == versions[0].id]
        typed |= {"version": str(versions[0].id), "baseline": str(own[0].id) if own else ""}
    typed = {**typed, **kept.fields} if kept else gpus.default_place(session, project, typed)
    at = kept.updated_at if kept else None
    return FormView(typed, at, versions, baselines, project.base_repo_id, project.base_revision)


def keep_form(session: Session, caller: Caller, project_id: UUID, typed: Mapping[str, str]) -> datetime:
    """Keep it as typed, right or wrong; when that was."""
    caller.require(Permission.PREPARE)
    project = own_row(session, caller, Project, project_id, "project")
    if caller.member_id is None:
        raise Invalid({NAME: "A form belongs to a member; act as one."})
    known = blank_form()
    fields = {name: text[:LONGEST_TEXT] for name, text in typed.items() if name in known}
    kept = _kept(session, caller, project_id)
    if kept is None:
        kept = DraftForm(
            member_id=caller.member_id,
            project_id=project.id,
            organization_id=project.organization_id,
            updated_at=now_of(session),
            fields=fields,
        )
    kept.fields, kept.updated_at = fields, now_of(session)
    session.add(kept)
    return kept.updated_at


def forget_form(session: Session, caller: Caller, project_id: UUID) -> None:
    """Begin anew from the defaults."""
    caller.require(Permission.PREPARE)
    own_row(session, caller, Project, project_id, "project")
    kept = _kept(session, caller, project_id)
    if kept is not None:
        session.delete(kept)


def save_form(session: Session, caller: Caller, project_id: UUID, typed: Mapping[str, str]) -> UUID:
    """The draft made of the form, or `Invalid` with every field that cannot be used; the form is done with then."""
    caller.require(Permission.PREPARE)
    own_row(session, caller, Project, project_id, "project")
    wrong = complaints(typed, now_of(session))
    version = _chosen_version(session, typed.get("version", ""), project_id)
    baseline = _chosen_baseline(session, typed.get("baseline", ""), project_id)
    wrong |= _name_complaint(typed.get(NAME, ""))
    if version is None:
        wrong["version"] = "Choose a frozen dataset version."
    if baseline is None:
        wrong["baseline"] = "Choose a completed baseline of this version; evaluate the base model where there is none."
    if wrong or version is None or baseline is None:
        raise Invalid(wrong)
    bounds = read_trial(typed)
    run_id = runs.save_draft(
        session,
        caller,
        name=typed[NAME],
        version_id=version,
        baseline_id=baseline,
        settings=read_settings(typed).as_values(),
        trial=bounds.as_values() if bounds else None,
        placement=read_placement(typed).as_values(),
    )
    forget_form(session, caller, project_id)
    return run_id


def rename_run(session: Session, caller: Caller, run_id: UUID, name: str) -> None:
    """The one thing of a saved run that may change."""
    caller.require(Permission.PREPARE)
    run = own_row(session, caller, Run, run_id, "run")
    if wrong := _name_complaint(name):
        raise Invalid(wrong)
    run.name = name.strip()
    write_audit(session, caller, "runs.rename", run.id)


def create_retry_draft(session: Session, caller: Caller, run_id: UUID) -> Draft:
    """The same settings as a new draft, once no machine of the failed or cancelled run may still work."""
    caller.require(Permission.PREPARE)
    run = own_row(session, caller, Run, run_id, "run")
    if run.state not in {RunState.FAILED, RunState.CANCELLED}:
        raise Conflict("Only a failed or cancelled run can be tried again. Configure another like this instead.")
    if runs.holds_machine(session, run.id):
        raise Conflict("The run's machine is not proved released yet. Try again when its badge is gone.")
    draft = runs.save_draft(
        session,
        caller,
        name=_retry_name(session, run),
        version_id=run.version_id,
        baseline_id=run.baseline_id,
        settings=run.settings,
        trial=run.trial,
        trial_id=run.trial_id,
        margin=run.gate.get("margin", 0.0),
        placement=run.placement,
    )
    write_audit(session, caller, "runs.retry", draft, of=str(run.id))
    return Draft(draft, run.project_id)


def create_full_draft(session: Session, caller: Caller, run_id: UUID) -> Draft:
    """The full run that a completed trial measured: from the base model, with the settings stored beside the trial."""
    caller.require(Permission.PREPARE)
    run = own_row(session, caller, Run, run_id, "run")
    trials.require_finished(session, run)
    draft = runs.save_draft(
        session,
        caller,
        name=_free_name(session, run.project_id, f"{run.name} full"),
        version_id=run.version_id,
        baseline_id=run.baseline_id,
        settings=run.settings,
        trial_id=run.id,
        margin=run.gate.get("margin", 0.0),
        placement=run.placement,
    )
    write_audit(session, caller, "runs.full_draft", draft, trial=str(run.id))
    return Draft(draft, run.project_id)


def copy_to_form(session: Session, caller: Caller, run_id: UUID) -> UUID:
    """Fill this member's form with a run's settings; the project where it lies."""
    caller.require(Permission.PREPARE)
    run = own_row(session, caller, Run, run_id, "run")
    chosen = {"version": str(run.version_id), "baseline": str(run.baseline_id), PURPOSE: run.purpose.value}
    name = _free_name(session, run.project_id, run.name)
    typed = type_settings({**run.settings, **(run.trial or {})}) | type_placement(run.placement) | {NOT_BEFORE: ""}
    keep_form(session, caller, run.project_id, {**blank_form(), **typed, **chosen, NAME: name})
    return run.project_id


def _kept(session: Session, caller: Caller, project_id: UUID) -> DraftForm | None:
    own = select(DraftForm).where(DraftForm.member_id == caller.member_id, DraftForm.project_id == project_id)
    return session.exec(own).one_or_none()


def _versions(session: Session, project: Project) -> list[VersionChoice]:
    """Frozen ones, the newest first."""
    found = session.exec(
        select(DatasetVersion, Dataset.name)
        .join(Dataset, col(Dataset.id) == col(DatasetVersion.dataset_id))
        .where(Dataset.project_id == project.id, DatasetVersion.state == VersionState.FROZEN)
        .where(col(DatasetVersion.deleted_at).is_(None))
        .order_by(col(DatasetVersion.created_at).desc())
    )
    return [
        VersionChoice(version.id, f"{name} v{version.number}", (version.report or {}).get("rows", {}))
        for version, name in found
    ]


def _baselines(session: Session, project: Project) -> list[BaselineChoice]:
    """Completed ones of the project's base revision, the newest first."""
    found = session.exec(
        select(Evaluation, DatasetVersion.number)
        .join(DatasetVersion, col(DatasetVersion.id) == col(Evaluation.version_id))
        .where(
            Evaluation.project_id == project.id,
            Evaluation.kind == EvaluationKind.BASELINE,
            Evaluation.state == EvaluationState.COMPLETED,
            Evaluation.base_revision == project.base_revision,
        )
        .order_by(col(Evaluation.created_at).desc())
    )
    model = project.base_repo_id.rpartition("/")[2]
    return [
        BaselineChoice(row.id, row.version_id, f"{model} on v{number}{_score_words(row.scores)}")
        for row, number in found
    ]


def _score_words(scores: Mapping[str, float] | None) -> str:
    exact = (scores or {}).get("exact_match")
    return "" if exact is None else f", {exact * 100:.1f} % exact"


def _suggest_name(session: Session, project: Project, versions: Sequence[VersionChoice]) -> str:
    """Such as tickets-v7-r24: the data, and how many runs there will be."""
    count = session.exec(select(func.count()).select_from(Run).where(Run.project_id == project.id)).one()
    data = versions[0].label.lower().replace(" ", "-") if versions else project.name.lower().replace(" ", "-")
    return f"{data}-r{count + 1}"[:LONGEST_NAME]


def _chosen_version(session: Session, text: str, project_id: UUID) -> UUID | None:
    """None for anything but a version of this project, so that nothing is learned about other people's."""
    version = session.get(DatasetVersion, key) if (key := _id_in(text)) else None
    if version is None or version.deleted_at is not None:
        return None
    if session.get_one(Dataset, version.dataset_id).project_id != project_id:
        return None
    return version.id


def _chosen_baseline(session: Session, text: str, project_id: UUID) -> UUID | None:
    baseline = session.get(Evaluation, key) if (key := _id_in(text)) else None
    return baseline.id if baseline is not None and baseline.project_id == project_id else None


def _id_in(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _name_complaint(name: str) -> dict[str, str]:
    if not name.strip():
        return {NAME: "A run needs a name."}
    if len(name.strip()) > LONGEST_NAME:
        return {NAME: f"A name has at most {LONGEST_NAME} characters; this one has {len(name.strip())}."}
    return {}


def _retry_name(session: Session, run: Run) -> str:
    return _free_name(session, run.project_id, f"{run.name.partition(' retry')[0]} retry")


def _free_name(session: Session, project_id: UUID, wanted: str) -> str:
    """`wanted`, or with the first number that no run of the project has."""
    own = select(Run.name).where(Run.project_id == project_id, col(Run.name).startswith(wanted, autoescape=True))
    taken = set(session.exec(own))
    names = (wanted, *(f"{wanted} {number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)[:LONGEST_NAME]
