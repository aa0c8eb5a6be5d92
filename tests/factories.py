"""Rows with honest defaults, each made by one call; keyword arguments override."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlmodel import Session, select

from tensorant_app.db.accounts import StrayMachine
from tensorant_app.db.connections import Connection
from tensorant_app.db.datasets import Dataset, DatasetVersion, Import
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.domain.connections import LAST_FOUR_OF, ConnectionKind, ConnectionState
from tensorant_app.domain.evaluations import EvaluationKind, EvaluationState
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller, Role, operator
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.runs import RunPurpose, RunState
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import machines, organizations
from tensorant_app.services.machines import Order
from tensorant_app.services.sealing import seal

BASE, REVISION = "tests/tiny-llama", "a" * 40
ACCOUNT = UUID(int=7)
"""The compute connection that fake machines are rented from."""
SECRETS: dict[ConnectionKind, dict[str, str]] = {
    ConnectionKind.RUNPOD_COMPUTE: {"api_key": "rpa_THESECRETKEY00001234"},
    ConnectionKind.RUNPOD_STORAGE: {"access_key": "user_THEACCESSKEY0001", "secret_key": "rps_THESTORAGEKEY0005678"},
}
RULE: dict[str, Any] = {
    "metric": "exact",
    "margin": 0.0,
    "resamples": 2000,
    "seed": 42,
    "min_rows": 50,
    "guards": {},
}
REPORT: dict[str, Any] = {
    "rows": {"train": 80, "validation": 10, "test": 60},
    "labels": ["no", "yes"],
    "safety": [],
    "warnings": [],
    "mask": {
        "rows": 150,
        "tokens": {"train": 8000, "validation": 1000, "test": 6000},
        "trained_tokens": {"train": 160, "validation": 20, "test": 120},
        "longest": 120,
        "errors": [],
        "tokenizer_sha256": "t" * 64,
        "template_sha256": "u" * 64,
    },
    "content_sha256": "c" * 64,
}


def make_caller(role: Role = Role.OWNER, *, name: str = "Acme", organization_id: UUID | None = None) -> Caller:
    """A member of a new organization, or of the given one."""
    with unit_of_work() as session:
        organization = organization_id or organizations.create_organization(session, operator(), name)
        email = f"{role}-{uuid4().hex[:6]}@example.com"
        organizations.add_member(session, operator(), organization, email, role)
    with reading() as session:
        return organizations.caller_of(session, email)


def make_project(session: Session, organization_id: UUID) -> Project:
    project = Project(
        id=uuid4(),
        created_at=now_of(session),
        organization_id=organization_id,
        name="Tickets",
        base_repo_id=BASE,
        base_revision=REVISION,
        base_parameters=1_000,
    )
    session.add(project)
    session.flush()
    return project


def make_version(
    session: Session, project: Project, *, state: VersionState = VersionState.FROZEN, **report: Any
) -> DatasetVersion:
    """Frozen by default, with a clean report; `report` keys override it."""
    at = now_of(session)
    shared = {"created_at": at, "organization_id": project.organization_id}
    dataset = Dataset(id=uuid4(), project_id=project.id, name="Tickets", **shared)
    source = Import(id=uuid4(), dataset_id=dataset.id, file_name="tickets.jsonl", state=ImportState.READY, **shared)
    version = DatasetVersion(
        id=uuid4(),
        dataset_id=dataset.id,
        import_id=source.id,
        number=1,
        state=state,
        split={"fractions": {"train": 0.8, "validation": 0.1, "test": 0.1}, "seed": 42},
        report={**REPORT, **report},
        content_sha256=REPORT["content_sha256"] if state is VersionState.FROZEN else None,
        **shared,
    )
    for row in (dataset, source, version):
        session.add(row)
        session.flush()
    return version


def make_baseline(
    session: Session,
    project: Project,
    version: DatasetVersion,
    *,
    state: EvaluationState = EvaluationState.COMPLETED,
    kind: EvaluationKind = EvaluationKind.BASELINE,
) -> Evaluation:
    evaluation = Evaluation(
        id=uuid4(),
        created_at=now_of(session),
        organization_id=project.organization_id,
        project_id=project.id,
        version_id=version.id,
        kind=kind,
        base_revision=project.base_revision,
        state=state,
        scores={"exact_match": 0.1, "token_f1": 0.2, "likelihood": 0.3},
    )
    session.add(evaluation)
    session.flush()
    return evaluation


def make_run(caller: Caller, *, state: RunState = RunState.DRAFT, **values: Any) -> UUID:
    """A run with all it needs, in a state of one's choice."""
    assert caller.organization_id is not None
    with unit_of_work() as session:
        project = make_project(session, caller.organization_id)
        version = make_version(session, project)
        baseline = make_baseline(session, project, version)
        run = Run(
            **{
                "id": uuid4(),
                "created_at": now_of(session),
                "organization_id": caller.organization_id,
                "project_id": project.id,
                "version_id": version.id,
                "baseline_id": baseline.id,
                "created_by": caller.member_id,
                "name": "First",
                "purpose": RunPurpose.FULL,
                "state": state,
                "settings": RunSettings().as_values(),
                "gate": RULE,
                **values,
            }
        )
        session.add(run)
        return run.id


def connect(
    session: Session,
    organization_id: UUID,
    kind: ConnectionKind = ConnectionKind.RUNPOD_COMPUTE,
    state: ConnectionState = ConnectionState.OK,
    **values: Any,
) -> Connection:
    """An account that works; `SECRETS` are its credentials."""
    at, shown = now_of(session), {"data_center": "EU-RO-1", "volume_id": "vol123abc"}
    is_storage = kind is ConnectionKind.RUNPOD_STORAGE
    row = Connection(
        id=uuid4(),
        created_at=at,
        organization_id=organization_id,
        kind=kind,
        sealed="",
        last_four=SECRETS[kind][LAST_FOUR_OF[kind]][-4:],
        shown=shown if is_storage else {},
        changed_at=at,
        state=state,
        **values,
    )
    row.sealed = seal(session, row.id, kind, SECRETS[kind])
    session.add(row)
    session.flush()
    return row


def make_stray(session: Session, organization_id: UUID, account_id: UUID, **values: Any) -> StrayMachine:
    """A machine in the account that no row knows."""
    now = now_of(session)
    row = StrayMachine(
        id=uuid4(),
        organization_id=organization_id,
        account_id=account_id,
        **{
            "name": f"tune-{uuid4()}",
            "provider_id": f"pod{uuid4().hex[:8]}",
            "provider_status": "RUNNING",
            "rate": HourlyRate.dollars("0.86"),
            "first_seen_at": now - timedelta(hours=2),
            "seen_at": now,
            **values,
        },
    )
    session.add(row)
    session.flush()
    return row


def make_order(
    organization_id: UUID, subject_id: UUID, now: datetime, *, attempt: int = 1, use: Use = Use.RUN
) -> Order:
    deadline = now + timedelta(hours=6)
    return Order(organization_id, use, subject_id, attempt, "fake", "fake", deadline, connection_id=ACCOUNT)


def make_scorer(caller: Caller, project_id: UUID, version_id: UUID) -> UUID:
    """An evaluation whose machine was asked for half an hour ago, and has not been found since."""
    assert caller.organization_id is not None
    with unit_of_work() as session:
        project, version = session.get_one(Project, project_id), session.get_one(DatasetVersion, version_id)
        row = make_baseline(session, project, version, state=EvaluationState.LAUNCHING)
        row.attempt, then = 1, now_of(session) - timedelta(minutes=30)
        order = make_order(caller.organization_id, row.id, then, use=Use.EVALUATION)
        machines.ask_machine(session, order, "evaluate")
        machine = session.exec(select(Machine).where(Machine.subject_id == row.id)).one()
        machine.ask_sent_at = machine.answer_lost_at = machine.absent_since = then
        machine.absent_looks, machine.rate = 9, HourlyRate.dollars("1.72")
        return row.id


def ask_machine(caller: Caller, run_id: UUID, now: datetime, *, attempt: int = 1) -> UUID:
    """The intent of a machine for a run, as its job writes it."""
    assert caller.organization_id is not None
    with unit_of_work() as session:
        machines.ask_machine(session, make_order(caller.organization_id, run_id, now, attempt=attempt), "train")
    with reading() as session:
        machine = machines.machine_of(session, Use.RUN, run_id, attempt)
    assert machine is not None
    return machine.id
