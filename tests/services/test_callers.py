"""Who may do what: every service function that takes a caller, asked by every role and by a stranger."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlmodel import Session, SQLModel, select

from tensorant_app import services
from tensorant_app.db.datasets import Dataset, DatasetVersion, Import
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.domain.errors import Forbidden, NotFound
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.members import ALLOWED, OPERATOR_MAY, Caller, Permission, Role, operator
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.splits import Fractions
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import evaluations, examples, imports, organizations, projects, runs, versions
from tensorant_app.services.bases import BaseFacts
from tensorant_app.services.connections import store
from tests import factories
from trainer.contract import Base, Split

NOT_USE_CASES = {"audit.write_audit", "lookup.own_row"}
"""What use cases are made of: each asks for its permission before."""

FACTS = BaseFacts(Base("tests/tiny", "a" * 40, "/nowhere"), 1_000, 2048, "LlamaForCausalLM", ((8, 8),), 4_000)


@dataclass(frozen=True)
class World:
    """One thing of each kind in each state that a use case begins from, all of one organization."""

    owner: Caller
    organization_id: UUID
    project_id: UUID
    dataset_id: UUID
    receiving: UUID
    checking: UUID
    ready: UUID
    draft_version: UUID
    checked_version: UUID
    frozen_version: UUID
    baseline: UUID
    queued_evaluation: UUID
    draft_run: UUID
    queued_run: UUID
    scored_run: UUID


@dataclass(frozen=True)
class Case:
    permission: Permission
    act: Callable[[Session, Caller, World], object]
    is_own: bool = False
    """A stranger's act concerns their own organization, so that there is nothing to refuse."""


CASES: dict[str, Case] = {
    "organizations.create_organization": Case(
        Permission.OPERATE, lambda s, c, w: organizations.create_organization(s, c, "New")
    ),
    "organizations.add_member": Case(
        Permission.OPERATE, lambda s, c, w: organizations.add_member(s, c, w.organization_id, "a@b.example", Role.OWNER)
    ),
    "projects.create_project": Case(
        Permission.PREPARE, lambda s, c, w: projects.create_project(s, c, "New", FACTS), is_own=True
    ),
    "imports.create_dataset": Case(
        Permission.PREPARE, lambda s, c, w: imports.create_dataset(s, c, w.project_id, "New")
    ),
    "imports.start_import": Case(
        Permission.PREPARE, lambda s, c, w: imports.start_import(s, c, w.dataset_id, "new.jsonl")
    ),
    "imports.check_import": Case(Permission.PREPARE, lambda s, c, w: imports.check_import(s, c, w.receiving)),
    "imports.cancel_import": Case(Permission.PREPARE, lambda s, c, w: imports.cancel_import(s, c, w.checking)),
    "imports.show_import": Case(Permission.SEE, lambda s, c, w: imports.show_import(s, c, w.ready)),
    "imports.read_errors": Case(Permission.SEE, lambda s, c, w: imports.read_errors(s, c, w.ready)),
    "versions.create_version": Case(
        Permission.PREPARE, lambda s, c, w: versions.create_version(s, c, w.ready, shares=Fractions(), seed=1)
    ),
    "versions.check_version": Case(Permission.PREPARE, lambda s, c, w: versions.check_version(s, c, w.draft_version)),
    "versions.freeze_version": Case(
        Permission.PREPARE, lambda s, c, w: versions.freeze_version(s, c, w.checked_version)
    ),
    "versions.show_version": Case(Permission.SEE, lambda s, c, w: versions.show_version(s, c, w.draft_version)),
    "examples.read_page": Case(
        Permission.SEE, lambda s, c, w: examples.read_page(s, c, w.frozen_version, Split.TEST, start=9)
    ),
    "evaluations.create_baseline": Case(
        Permission.SPEND, lambda s, c, w: evaluations.create_baseline(s, c, w.frozen_version)
    ),
    "evaluations.cancel_evaluation": Case(
        Permission.STOP, lambda s, c, w: evaluations.cancel_evaluation(s, c, w.queued_evaluation)
    ),
    "evaluations.show_evaluation": Case(Permission.SEE, lambda s, c, w: evaluations.show_evaluation(s, c, w.baseline)),
    "runs.save_draft": Case(
        Permission.PREPARE,
        lambda s, c, w: runs.save_draft(
            s, c, name="New", version_id=w.frozen_version, baseline_id=w.baseline, settings={}
        ),
    ),
    "runs.launch_run": Case(Permission.SPEND, lambda s, c, w: runs.launch_run(s, c, w.draft_run)),
    "runs.cancel_run": Case(Permission.STOP, lambda s, c, w: runs.cancel_run(s, c, w.queued_run)),
    "runs.list_runs": Case(Permission.SEE, lambda s, c, w: runs.list_runs(s, c), is_own=True),
    "runs.show_run": Case(Permission.SEE, lambda s, c, w: runs.show_run(s, c, w.scored_run)),
    "runs.evaluation_of": Case(Permission.SEE, lambda s, c, w: runs.evaluation_of(s, c, w.scored_run)),
}


def use_cases() -> Iterator[str]:
    for found in pkgutil.iter_modules(services.__path__):
        module = importlib.import_module(f"tensorant_app.services.{found.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            is_here = function.__module__ == module.__name__ and not name.startswith("_")
            if is_here and "caller" in inspect.signature(function).parameters:
                yield f"{found.name}.{name}"


@pytest.fixture
def world(caller: Caller) -> World:
    assert caller.organization_id is not None
    run_id = factories.make_run(caller)
    with unit_of_work() as session:
        draft = session.get_one(Run, run_id)
        frozen = session.get_one(DatasetVersion, draft.version_id)
        project = session.get_one(Project, draft.project_id)
        dataset_id = frozen.dataset_id
        queued = factories.make_baseline(session, project, frozen, state=EvaluationState.QUEUED)
        found = World(
            owner=caller,
            organization_id=caller.organization_id,
            project_id=project.id,
            dataset_id=dataset_id,
            receiving=_import(session, dataset_id, ImportState.RECEIVING),
            checking=_import(session, dataset_id, ImportState.CHECKING),
            ready=frozen.import_id,
            draft_version=factories.make_version(session, project, state=VersionState.DRAFT).id,
            checked_version=factories.make_version(session, project, state=VersionState.DRAFT).id,
            frozen_version=frozen.id,
            baseline=draft.baseline_id,
            queued_evaluation=queued.id,
            draft_run=run_id,
            queued_run=_run(session, draft, state=RunState.QUEUED),
            scored_run=_run(session, draft, state=RunState.EVALUATING, evaluation_id=queued.id),
        )
    store().put(imports.source_key(found.receiving), b"{}")
    _write_frozen(str(frozen.content_sha256))
    return found


def callers(world: World) -> dict[str, Caller]:
    """One of each role of the organization, the operator, and the owner of another organization."""
    members = {role.value: factories.make_caller(role, organization_id=world.organization_id) for role in Role}
    return {**members, "operator": operator(), "stranger": factories.make_caller(name="Other")}


def outcome(case: Case, caller: Caller, world: World) -> str:
    """What a caller is told; whatever it is, the next one finds everything as it was."""
    before = rows()
    try:
        with unit_of_work() as session:
            case.act(session, caller, world)
            raise _Done
    except _Done:
        return "done"
    except (Forbidden, NotFound) as refusal:
        return type(refusal).__name__
    finally:
        assert rows() == before


def expected(case: Case, who: str) -> str:
    if who == "operator":
        return "done" if case.permission in OPERATOR_MAY else "Forbidden"
    role = Role.OWNER if who == "stranger" else Role(who)
    if role not in ALLOWED[case.permission]:
        return "Forbidden"
    return "NotFound" if who == "stranger" and not case.is_own else "done"


def rows() -> dict[str, list[str]]:
    """Every row of every table."""
    with reading() as session:
        return {
            table.name: sorted(str(tuple(row)) for row in session.execute(select(table)))  # type: ignore[call-overload]
            for table in SQLModel.metadata.sorted_tables
        }


def test_every_use_case_is_in_the_table() -> None:
    assert set(use_cases()) - NOT_USE_CASES == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_each_caller_is_let_through_or_refused_as_the_table_says(world: World, name: str) -> None:
    case = CASES[name]

    found = {who: outcome(case, caller, world) for who, caller in callers(world).items()}

    assert found == {who: expected(case, who) for who in found}


NAMING = [name for name, case in CASES.items() if case.permission is not Permission.OPERATE and not case.is_own]


@pytest.mark.parametrize("name", NAMING)
def test_what_does_not_exist_and_what_is_anothers_are_told_in_the_same_words(world: World, name: str) -> None:
    stranger = factories.make_caller(name="Other")
    ids = {field: uuid4() for field in World.__dataclass_fields__ if field != "owner"}
    nowhere = World(owner=world.owner, **ids)

    told = [_refusal(CASES[name], stranger, one) for one in (world, nowhere)]

    assert [_without_id(sentence) for sentence in told] == [_without_id(told[0])] * 2


def test_a_list_holds_nothing_of_another_organization(world: World) -> None:
    stranger = factories.make_caller(name="Other")
    own = factories.make_run(stranger)

    with reading() as session:
        assert [view.id for view in runs.list_runs(session, stranger)] == [own]
        assert len(runs.list_runs(session, world.owner)) == 3
        assert len(runs.list_runs(session, operator())) == 4


class _Done(Exception):
    """Takes back what a caller was allowed to do."""


def _refusal(case: Case, caller: Caller, world: World) -> str:
    with pytest.raises(NotFound) as refusal, unit_of_work() as session:
        case.act(session, caller, world)
    return refusal.value.message


def _without_id(sentence: str) -> str:
    return " ".join(word for word in sentence.split() if word.count("-") != 4)


def _import(session: Session, dataset_id: UUID, state: ImportState) -> UUID:
    dataset = session.get_one(Dataset, dataset_id)
    row = Import(
        id=uuid4(),
        created_at=now_of(session),
        organization_id=dataset.organization_id,
        dataset_id=dataset_id,
        file_name="tickets.jsonl",
        state=state,
    )
    session.add(row)
    return row.id


def _run(session: Session, like: Run, **values: Any) -> UUID:
    run = Run(**{**like.model_dump(), "id": uuid4(), **values})
    session.add(run)
    return run.id


def _write_frozen(content_sha256: str) -> None:
    """One row group is enough: the page lies beyond the end."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = store().fetch(versions.frozen_key(content_sha256))
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"row": [1], "example": ["{}"]}), folder / "test.parquet")
