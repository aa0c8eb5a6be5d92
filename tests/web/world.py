"""Two organizations, a person of each role, one row of everything, and what each handler and route is called with."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlmodel import SQLModel, select

from tensorant_app import routes
from tensorant_app.db.datasets import Dataset, Import
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.runs import Adapter, Run
from tensorant_app.db.session import engines, now_of, reading, unit_of_work
from tensorant_app.db.sessions import SignIn
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.members import Role
from tensorant_app.domain.run_form import blank_form
from tensorant_app.domain.runs import RunState
from tensorant_app.pages.run_actions import LaunchCard
from tensorant_app.services.connections import store
from tensorant_app.services.evaluations import answers_key
from tensorant_app.services.imports import errors_key
from tensorant_app.services.sessions import digest
from tensorant_app.services.versions import frozen_key
from tests.factories import REPORT, make_run
from tests.people import Person, make_person, sign_in

ROLES = (Role.VIEWER, Role.MEMBER, Role.ADMIN, Role.OWNER)


@dataclass(frozen=True, slots=True)
class World:
    people: Mapping[Role, Person]
    """Of the organization that everything belongs to."""
    stranger: Person
    """The owner of another one."""
    project_id: UUID
    dataset_id: UUID
    import_id: UUID
    upload_id: UUID
    version_id: UUID
    baseline_id: UUID
    run_id: UUID


@dataclass(frozen=True, slots=True)
class Case:
    """How to call a handler or a route, and who is the least that may."""

    lowest: Role = Role.VIEWER
    arguments: Callable[[World, Person], list[Any]] = field(default=lambda world, person: [])
    variables: Callable[[World], dict[str, Any]] = field(default=lambda world: {})
    """What stands in the state before, such as the id in the page's address."""
    path: Callable[[World], str] = field(default=lambda world: "/")
    """The address that is open."""
    names_ours: bool = False
    """An argument or a variable names a row of the organization, so that another one's owner must be refused."""


def runs_of(world: World) -> str:
    return routes.runs(world.project_id)


def configure_of(world: World) -> str:
    return routes.configure(world.project_id)


HANDLERS: dict[str, Case] = {
    "AppState.enter": Case(),
    "ProjectState.open": Case(),
    **{
        f"RunsState.{name}": Case(arguments=lambda world, person, given=given: list(given), path=runs_of)
        for name, given in {"narrow": ("group", "live"), "sort_by": ("name",), "turn": (1,), "show_all": ()}.items()
    },
    "RunsState.load": Case(path=runs_of, names_ours=True),
    "RunsState.follow": Case(path=runs_of, names_ours=True),
    "ConfigureState.load": Case(path=configure_of, names_ours=True),
    "ConfigureState.check": Case(path=configure_of, names_ours=True),
    "ConfigureState.leave": Case(arguments=lambda world, person: ["epochs", "3"], path=configure_of),
    **{
        f"ConfigureState.{name}": Case(
            Role.MEMBER,
            arguments=lambda world, person, given=given: list(given),
            variables=lambda world: {"typed": form_of(world)},
            path=configure_of,
            names_ours=True,
        )
        for name, given in {
            "type_in": ("epochs", "5"),
            "choose": ("method", "qlora"),
            "switch_to": ("packing", False),
            "reset_field": ("epochs",),
            "use_preset": ("thorough",),
            "mend": ("warmup_ratio=0",),
            "start_over": (),
            "save": (),
        }.items()
    },
    **{
        f"RunActions.{name}": Case(arguments=lambda world, person, given=given: list(given))
        for name, given in {
            "set_launch_open": (True,),
            "score_after": (False,),
            "ask_rename": ("a", "b"),
            "set_rename_open": (True,),
        }.items()
    },
    "RunActions.ask_launch": Case(Role.MEMBER, lambda world, person: [str(world.run_id)], names_ours=True),
    "RunActions.copy": Case(Role.MEMBER, lambda world, person: [str(world.run_id)], names_ours=True),
    "RunActions.retry": Case(Role.MEMBER, lambda world, person: [str(failed_run(world))], names_ours=True),
    "RunActions.start": Case(
        Role.MEMBER,
        variables=lambda world: {"launch": LaunchCard(str(world.run_id), str(world.project_id))},
        names_ours=True,
    ),
    "RunActions.rename": Case(
        Role.MEMBER,
        lambda world, person: [{"new-name": "Better"}],
        variables=lambda world: {"renamed": str(world.run_id)},
        names_ours=True,
    ),
    "AccountState.load": Case(),
    "AccountState.end": Case(arguments=lambda world, person: [str(session_of(person))]),
    **{
        f"RunPageState.{name}": Case(path=lambda world: routes.run(world.project_id, world.run_id), names_ours=True)
        for name in ("load", "watch")
    },
    "RunPageState.cancel": Case(
        Role.MEMBER,
        variables=lambda world: queue(world),
        path=lambda world: routes.run(world.project_id, world.run_id),
        names_ours=True,
    ),
    "RunPageState.show_log_axis": Case(arguments=lambda world, person: [False]),
    **{
        f"ScorecardState.{name}": Case(
            arguments=lambda world, person, given=given: list(given),
            path=lambda world: routes.scorecard(world.project_id, world.baseline_id),
            names_ours=True,
        )
        for name, given in {"load": (), "watch": (), "unfold": (1,), "find": ("billing",)}.items()
    },
    "ScorecardState.cancel": Case(
        Role.MEMBER,
        variables=lambda world: queue(world),
        path=lambda world: routes.scorecard(world.project_id, world.baseline_id),
        names_ours=True,
    ),
    "EvaluationsState.load": Case(path=lambda world: routes.evaluations(world.project_id), names_ours=True),
}
"""Every event handler of every page state. A new one without its line here fails the walk."""

ROUTES: dict[str, Case] = {
    "GET /api/session": Case(),
    "POST /api/uploads": Case(Role.MEMBER, names_ours=True),
    "GET /api/uploads/{id}": Case(Role.MEMBER, names_ours=True),
    "PATCH /api/uploads/{id}": Case(Role.MEMBER, names_ours=True),
    "DELETE /api/uploads/{id}": Case(Role.MEMBER, names_ours=True),
    "GET /api/runs/{id}/adapter.zip": Case(names_ours=True),
    "GET /api/runs/{id}/job-files.zip": Case(names_ours=True),
    "GET /api/imports/{id}/errors.jsonl": Case(names_ours=True),
    "GET /api/evaluations/{id}/answers.jsonl": Case(names_ours=True),
}
"""Every route that asks who is calling."""

DOORS = {
    "POST /api/sign-in",
    "POST /api/sign-out",
    "POST /api/sign-out-everywhere",
    "POST /api/password",
    "GET /api/links/{token}",
    "POST /api/set-up",
    "POST /api/new-password",
}
"""Routes that decide by a password, a link or one's own cookie; test_sign_in.py holds them."""


def queue(world: World) -> dict[str, Any]:
    """Run and baseline wait, so that they can be cancelled."""
    with unit_of_work() as session:
        session.get_one(Run, world.run_id).state = RunState.QUEUED
        session.get_one(Evaluation, world.baseline_id).state = EvaluationState.QUEUED
    return {}


def form_of(world: World) -> dict[str, str]:
    """A form that can be saved."""
    return {**blank_form(), "name": "Next", "version": str(world.version_id), "baseline": str(world.baseline_id)}


def failed_run(world: World) -> UUID:
    with unit_of_work() as session:
        session.get_one(Run, world.run_id).state = RunState.FAILED
    return world.run_id


def make_world() -> World:
    owner, stranger = make_person(Role.OWNER), make_person(Role.OWNER)
    people = {role: make_person(role, organization_id=owner.organization_id) for role in ROLES[:-1]}
    run_id = make_run(owner.caller)
    with unit_of_work() as session:
        run = session.get_one(Run, run_id)
        dataset = session.exec(select(Dataset)).one()
        source = session.exec(select(Import)).one()
        shared = {"created_at": now_of(session), "organization_id": owner.organization_id}
        upload = Import(id=uuid4(), dataset_id=dataset.id, file_name="a", size=4, state=ImportState.RECEIVING, **shared)
        session.add(upload)
        session.add(
            Adapter(id=uuid4(), run_id=run_id, attempt=1, key="k", manifest={}, zip_key="adapters/x.zip", **shared)
        )
        baseline = session.get_one(Evaluation, run.baseline_id)
        baseline.answers_key, baseline.answers_sha256 = answers_key(baseline.id), "0" * 64
    store().put(answers_key(run.baseline_id), b"")
    store().put("adapters/x.zip", b"zip")
    store().put(errors_key(source.id), b"{}\n")
    _put_examples()
    return World(
        people=people | {Role.OWNER: owner},
        stranger=stranger,
        project_id=run.project_id,
        dataset_id=dataset.id,
        import_id=source.id,
        upload_id=upload.id,
        version_id=run.version_id,
        baseline_id=run.baseline_id,
        run_id=run_id,
    )


def ids_of(world: World) -> set[str]:
    """What nobody else may ever see."""
    things = (world.project_id, world.dataset_id, world.import_id, world.version_id, world.baseline_id, world.run_id)
    return {str(thing) for thing in (*things, world.people[Role.OWNER].organization_id)}


def rows() -> dict[str, list[tuple[Any, ...]]]:
    """Everything in every table, but when a session was last seen."""
    with engines().read.connect() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(sa.select(*_steady(table)))))  # type: ignore[misc]
            for table in SQLModel.metadata.sorted_tables
        }


def session_of(person: Person) -> UUID:
    """Another browser of the same person."""
    token = sign_in(person.email).partition("=")[2]
    with reading() as session:
        return session.exec(select(SignIn.id).where(SignIn.token_sha256 == digest(token))).one()


def _steady(table: sa.Table) -> list[sa.Column[Any]]:
    return [column for column in table.columns if column.name != "last_seen_at"]


def _put_examples() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"row": [1], "example": ["{}"]}), file)
    for split in ("train", "validation", "test"):
        store().put(f"{frozen_key(REPORT['content_sha256'])}/{split}.parquet", file.getvalue())
