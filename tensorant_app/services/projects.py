"""Projects: one base model and what is tuned from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import InvalidOperation
from uuid import UUID

from sqlmodel import Session, col, func, select

from tensorant_app.db import clock
from tensorant_app.db.accounts import Account
from tensorant_app.db.connections import Connection
from tensorant_app.db.datasets import Dataset, DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.machines import HOLDS_SLOT, MachineState, Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.money import Money
from tensorant_app.domain.prompts import read_prompts
from tensorant_app.domain.versions import VersionState
from tensorant_app.services.audit import write_audit
from tensorant_app.services.bases import BaseFacts
from tensorant_app.services.budgets import Budget, budget_of
from tensorant_app.services.lookup import own_row

_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[0-9a-f]{40}")
LONGEST_NAME = 80
PAGE_ROWS = 50
_MOST_IN_SWITCHER = 50
_RELEASE_IS_LATE = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class ProjectView:
    id: UUID
    name: str
    base_repo_id: str
    base_revision: str
    base_parameters: int
    created_at: datetime
    sample_prompts: Sequence[str]


@dataclass(frozen=True, slots=True)
class ProjectLine:
    """A project in the list."""

    project: ProjectView
    runs: int
    last_run_at: datetime | None
    newest_version: int | None
    """Of the frozen ones."""


@dataclass(frozen=True, slots=True)
class Unreleased:
    """A machine that may still be paid for although nobody wants it."""

    id: UUID
    name: str
    use: Use
    subject_id: UUID
    project_id: UUID | None
    """Where its run or evaluation is shown."""
    has_failed: bool
    """The delete call was refused or is not confirmed: a person can send it again."""
    gpu_type: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around every page."""

    project: ProjectView | None
    projects: Sequence[ProjectView]
    runs: int
    """Of this project."""
    running: int
    """Machines of the organization that are at work."""
    rate: Money
    """Of those machines together, an hour, as far as their prices are known."""
    unreleased: Sequence[Unreleased]
    refused_key: str | None
    """Why the account cannot be looked at, where its key was refused: nothing there can be seen or released."""


def look_around(session: Session, caller: Caller, project_id: UUID | None) -> Surroundings:
    """For the frame of a page, inside a project or outside of any."""
    caller.require(Permission.SEE)
    project = own_row(session, caller, Project, project_id, "project") if project_id else None
    others = select(Project).where(Project.organization_id == caller.organization_id)
    newest = others.order_by(col(Project.created_at).desc()).limit(_MOST_IN_SWITCHER)
    count = select(func.count()).select_from(Run)
    held = select(Machine).where(
        Machine.organization_id == caller.organization_id, col(Machine.state).in_(list(HOLDS_SLOT))
    )
    unreleased = [late for machine in session.exec(held) if (late := _unreleased(session, machine, now_of(session)))]
    at_work = [MachineState.ASKED, MachineState.HELD]
    working = held.where(col(Machine.state).in_(at_work), col(Machine.release_wanted_at).is_(None))
    machines = session.exec(working).all()
    return Surroundings(
        project=view(project) if project else None,
        projects=[view(other) for other in session.exec(newest)],
        runs=session.exec(count.where(Run.project_id == project.id)).one() if project else 0,
        running=len(machines),
        rate=Money.total(machine.rate.per_hour for machine in machines if machine.rate),
        unreleased=unreleased,
        refused_key=_refused_key(session, caller),
    )


def list_projects(session: Session, caller: Caller, *, start: int = 0) -> tuple[list[ProjectLine], int]:
    """Up to 50, newest first, and how many there are in all."""
    caller.require(Permission.SEE)
    own = select(Project).where(Project.organization_id == caller.organization_id)
    total = session.exec(select(func.count()).select_from(own.subquery())).one()
    page = own.order_by(col(Project.created_at).desc(), col(Project.id)).offset(start).limit(PAGE_ROWS)
    return [_line(session, project) for project in session.exec(page)], total


def show_project(session: Session, caller: Caller, project_id: UUID) -> ProjectView:
    caller.require(Permission.SEE)
    return view(own_row(session, caller, Project, project_id, "project"))


def last_project(session: Session, caller: Caller) -> UUID | None:
    """The one somebody last started a run in, else the newest one."""
    caller.require(Permission.SEE)
    mine = Project.organization_id == caller.organization_id
    used = select(Run.project_id).where(Run.organization_id == caller.organization_id)
    latest = session.exec(used.order_by(col(Run.created_at).desc()).limit(1)).first()
    newest = select(Project.id).where(mine).order_by(col(Project.created_at).desc()).limit(1)
    return latest or session.exec(newest).first()


def rename_project(session: Session, caller: Caller, project_id: UUID, name: str) -> None:
    caller.require(Permission.PREPARE)
    project = own_row(session, caller, Project, project_id, "project")
    _require_name(name)
    project.name = name.strip()
    session.add(project)
    write_audit(session, caller, "projects.rename", project.id)


def pin_prompts(session: Session, caller: Caller, project_id: UUID, text: str) -> None:
    """One prompt a line, at most 8; each run launched from now on answers them at its checkpoints."""
    caller.require(Permission.PREPARE)
    project = own_row(session, caller, Project, project_id, "project")
    project.sample_prompts = read_prompts(text)
    session.add(project)
    write_audit(session, caller, "projects.pin_prompts", project.id, count=len(project.sample_prompts))


def show_budget(session: Session, caller: Caller, project_id: UUID) -> Budget:
    """Of this month."""
    caller.require(Permission.SEE)
    return budget_of(session, own_row(session, caller, Project, project_id, "project"))


def set_budget(session: Session, caller: Caller, project_id: UUID, typed: str) -> None:
    """Dollars a calendar month, at least $1; nothing typed: no limit."""
    caller.require(Permission.ADMINISTER)
    project = own_row(session, caller, Project, project_id, "project")
    before, project.monthly_budget = project.monthly_budget, _read_budget(typed)
    session.add(project)
    write_audit(
        session,
        caller,
        "projects.budget",
        project.id,
        before_micros=before.micros if before else None,
        after_micros=project.monthly_budget.micros if project.monthly_budget else None,
    )


def _read_budget(typed: str) -> Money | None:
    text = typed.strip().lstrip("$").replace(",", "").strip()
    if not text:
        return None
    try:
        budget = Money.dollars(text)
    except (InvalidOperation, ValueError, OverflowError):
        raise Invalid(
            {"budget": "A monthly budget is an amount of dollars, such as 200; leave it empty for none."}
        ) from None
    if not Money.dollars(1) <= budget <= Money.dollars(10_000_000):
        raise Invalid({"budget": "A monthly budget is at least $1 and at most $10,000,000."})
    return budget


def view(project: Project) -> ProjectView:
    return ProjectView(
        project.id,
        project.name,
        project.base_repo_id,
        project.base_revision,
        project.base_parameters,
        project.created_at,
        tuple(project.sample_prompts),
    )


def _require_name(name: str) -> None:
    if not name.strip():
        raise Invalid({"name": "A project needs a name."})
    if len(name.strip()) > LONGEST_NAME:
        raise Invalid({"name": f"A name has at most {LONGEST_NAME} characters."})


def _line(session: Session, project: Project) -> ProjectLine:
    runs = select(func.count(), func.max(Run.created_at)).where(Run.project_id == project.id)
    number, latest = session.exec(runs).one()
    versions = (
        select(func.max(DatasetVersion.number))
        .join(Dataset, col(Dataset.id) == col(DatasetVersion.dataset_id))
        .where(Dataset.project_id == project.id, DatasetVersion.state == VersionState.FROZEN)
    )
    return ProjectLine(view(project), number, latest, session.exec(versions).one())


def _unreleased(session: Session, machine: Machine, now: datetime) -> Unreleased | None:
    since = machine.release_wanted_at or machine.release_sent_at
    if since is None or (machine.state is not MachineState.RELEASE_FAILED and now - since < _RELEASE_IS_LATE):
        return None
    project_id = _project_of(session, machine)
    has_failed = machine.state is MachineState.RELEASE_FAILED
    return Unreleased(
        machine.id, machine.name, machine.use, machine.subject_id, project_id, has_failed, machine.gpu_type, since
    )


def _project_of(session: Session, machine: Machine) -> UUID | None:
    """Where its run or evaluation is shown; None of a deployment's."""
    if machine.use is Use.RUN:
        run = session.get(Run, machine.subject_id)
        return run.project_id if run else None
    evaluation = session.get(Evaluation, machine.subject_id) if machine.use is Use.EVALUATION else None
    return evaluation.project_id if evaluation else None


def _refused_key(session: Session, caller: Caller) -> str | None:
    """Of an account that is connected now."""
    query = (
        select(Account.problem)
        .join(Connection, col(Connection.id) == col(Account.id))
        .where(Account.organization_id == caller.organization_id, col(Account.is_refused).is_(True))
    )
    return session.exec(query).first()


def create_project(session: Session, caller: Caller, name: str, facts: BaseFacts) -> UUID:
    """`facts` come from `bases.inspect_base`, looked at before the transaction began."""
    caller.require(Permission.PREPARE)
    wrong = {}
    if not name.strip():
        wrong["name"] = "A project needs a name."
    if not _REPO_ID.fullmatch(facts.base.repo_id):
        wrong["base_repo_id"] = f"{facts.base.repo_id!r} is not a model's name; it looks like organization/name."
    if not _REVISION.fullmatch(facts.base.revision):
        wrong["base_revision"] = "A base model's revision is 40 hexadecimal digits, never a branch or a tag."
    if wrong or caller.organization_id is None:
        raise Invalid(wrong or {"organization": "A project belongs to an organization; act as one of its members."})
    at = now_of(session)
    project = Project(
        id=clock.new_id(at),
        created_at=at,
        organization_id=caller.organization_id,
        name=name.strip(),
        base_repo_id=facts.base.repo_id,
        base_revision=facts.base.revision,
        base_parameters=facts.parameters,
    )
    session.add(project)
    write_audit(session, caller, "projects.create", project.id, base=facts.base.repo_id)
    return project.id
