"""Two organizations, a person of each role, one row of everything, and what each handler and route is called with."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from sqlmodel import select

from tensorant_app import routes
from tensorant_app.db import clock
from tensorant_app.db.datasets import Dataset, DatasetVersion, Import
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Adapter, Run
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.db.sessions import SignIn
from tensorant_app.domain.connections import ConnectionKind
from tensorant_app.domain.datasets import Record, Row, read_record
from tensorant_app.domain.errors import Conflict
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.layouts import ColumnMapping, Layout
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.members import Role
from tensorant_app.domain.run_form import blank_form
from tensorant_app.domain.runs import RunPurpose, RunState
from tensorant_app.domain.trials import TrialSettings
from tensorant_app.domain.versions import KEYS, VersionState
from tensorant_app.pages.import_mapper import FieldRow
from tensorant_app.pages.import_rows import PickedRow
from tensorant_app.pages.launch_words import LaunchCard
from tensorant_app.services import edits, safety
from tensorant_app.services.batches import table_of
from tensorant_app.services.connections import find_connection, store
from tensorant_app.services.evaluations import answers_key
from tensorant_app.services.image_cleaning import clean
from tensorant_app.services.image_files import THUMBNAILS
from tensorant_app.services.import_rows import FoundRows
from tensorant_app.services.imports import bad_rows_key, errors_key, preview_key, rows_key, source_key
from tensorant_app.services.sessions import digest
from tensorant_app.services.versions import frozen_key
from tensorant_app.settings import get_settings
from tests.factories import REPORT, ask_machine, connect, make_baseline, make_run, make_scorer, make_stray, make_version
from tests.people import Person, make_person, sign_in
from tests.pictures import picture
from tests.plain_base import make_plain_base
from trainer.contract import MASK, Split

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
    path: Callable[[World], str] = field(default=lambda world: "/")
    """The address that is open; it may make what it names."""
    variables: Callable[[World], dict[str, Any]] = field(default=lambda world: {})
    """What stands in the state before, such as the id in the page's address."""
    names_ours: bool = False
    """An argument or a variable names a row of the organization, so that another one's owner must be refused."""


def _in(place: str = "") -> Callable[[World], str]:
    """An address inside the organization's project."""
    return lambda world: f"/projects/{world.project_id}{place.format(world=world)}"


_FORM = {"kind": "fractions", "train": "0.8", "validation": "0.1", "test": "0.1", "seed": "42"}
_EXAMPLE = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]}
_MESSAGES = FieldRow("messages", "Messages", "messages", "")
_IMPORT = _in("/data/imports/{world.import_id}")
_VERSION = _in("/data/versions/{world.version_id}")

DATA_HANDLERS: dict[str, Case] = {
    "HomeState.go": Case(),
    "ProjectState.open": Case(path=_in(), names_ours=True),
    "ProjectState.watch": Case(path=_in(), names_ours=True),
    "ProjectsState.load": Case(),
    "NewProjectState.load": Case(),
    "NewProjectState.create": Case(Role.MEMBER, lambda world, person: [{"name": "New", "base": put_base()}]),
    "ProjectSettingsState.load": Case(path=_in("/settings"), names_ours=True),
    "ProjectSettingsState.rename": Case(
        Role.MEMBER, lambda world, person: [{"name": "Other"}], _in("/settings"), names_ours=True
    ),
    "ProjectSettingsState.pin": Case(
        Role.MEMBER, lambda world, person: [{"prompts": "Hello"}], _in("/settings"), names_ours=True
    ),
    "ProjectSettingsState.save_budget": Case(
        Role.ADMIN, lambda world, person: [{"budget": "200"}], _in("/settings"), names_ours=True
    ),
    "SafetyState.load": Case(path=_in("/settings")),
    "SafetyState.save_words": Case(Role.ADMIN, lambda world, person: [{"words": "falcon"}], _in("/settings")),
    "SafetyState.save_address": Case(
        Role.ADMIN, lambda world, person: [{"url": "https://a.example.com", "seconds": "60"}], _in("/settings")
    ),
    "SafetyState.save_token": Case(
        Role.ADMIN,
        lambda world, person: [{"token": "secret-token-1234", "header": "X-API-Key"}],
        lambda world: settings_with_classifier(world),
    ),
    "OverviewState.load": Case(path=_in(), names_ours=True),
    "OverviewState.watch": Case(path=_in(), names_ours=True),
    "DataState.load": Case(path=_in("/data"), names_ours=True),
    "DataState.watch": Case(path=_in("/data"), names_ours=True),
    "DataState.create": Case(
        Role.MEMBER, lambda world, person: [{"dataset-name": "More"}], _in("/data"), names_ours=True
    ),
    "DataState.choose": Case(
        arguments=lambda world, person: [str(world.dataset_id)], path=_in("/data"), names_ours=True
    ),
    "ImportPageState.load": Case(path=_IMPORT, names_ours=True),
    "ImportPageState.watch": Case(path=_IMPORT, names_ours=True),
    "ImportPageState.ask_cancel": Case(arguments=lambda world, person: [True], path=_IMPORT, names_ours=True),
    "ImportPageState.cancel": Case(Role.MEMBER, path=_in("/data/imports/{world.upload_id}"), names_ours=True),
    "ImportPageState.make_version": Case(Role.MEMBER, lambda world, person: [_FORM], _IMPORT, names_ours=True),
    "FindingsState.load": Case(path=_IMPORT, names_ours=True),
    "EditorState.load": Case(path=_IMPORT, names_ours=True),
    "EditorState.pick": Case(arguments=lambda world, person: [2], path=_IMPORT, names_ours=True),
    "EditorState.edit": Case(
        arguments=lambda world, person: [True],
        path=_IMPORT,
        variables=lambda world: {"picked": PickedRow(2)},
        names_ours=True,
    ),
    "EditorState.search": Case(
        arguments=lambda world, person: [{"import-search": "Hi"}], path=_IMPORT, names_ours=True
    ),
    "EditorState.save": Case(
        Role.MEMBER,
        lambda world, person: [{"row-text": json.dumps(_EXAMPLE)}],
        _IMPORT,
        lambda world: {"picked": PickedRow(2)},
        names_ours=True,
    ),
    "EditorState.leave_out": Case(
        Role.MEMBER, path=_IMPORT, variables=lambda world: {"picked": PickedRow(2)}, names_ours=True
    ),
    "EditorState.put_back": Case(
        Role.MEMBER,
        path=lambda world: left_out_in(world),
        variables=lambda world: {"picked": PickedRow(2)},
        names_ours=True,
    ),
    "EditorState.undo": Case(
        Role.MEMBER,
        path=lambda world: left_out_in(world),
        variables=lambda world: {"picked": PickedRow(2)},
        names_ours=True,
    ),
    "EditorState.choose_kind": Case(arguments=lambda world, person: ["html"], path=_IMPORT, names_ours=True),
    "EditorState.ask_all": Case(
        arguments=lambda world, person: [""],
        path=lambda world: f"{left_out_in(world)}?show=left_out",
        names_ours=True,
    ),
    "EditorState.close_question": Case(arguments=lambda world, person: [False], path=_IMPORT, names_ours=True),
    "EditorState.act_on_all": Case(
        Role.MEMBER, path=_IMPORT, variables=lambda world: {"_found": FoundRows((2,), 0)}, names_ours=True
    ),
    "EditorState.append": Case(
        Role.MEMBER,
        lambda world, person: [{"other-file": other_import(world)}],
        _IMPORT,
        lambda world: {"picked": PickedRow(2)},
        names_ours=True,
    ),
    "MapperState.load": Case(path=_IMPORT, names_ours=True),
    "MapperState.choose_layout": Case(arguments=lambda world, person: ["chat"], path=_IMPORT, names_ours=True),
    "MapperState.choose_column": Case(
        arguments=lambda world, person: ["messages", "messages"], path=_IMPORT, names_ours=True
    ),
    "MapperState.start": Case(
        Role.MEMBER,
        path=lambda world: waiting_import(world),
        variables=lambda world: {"layout": "chat", "fields_of_layout": [_MESSAGES]},
        names_ours=True,
    ),
    "VersionPageState.load": Case(path=_VERSION, names_ours=True),
    "VersionPageState.watch": Case(path=_VERSION, names_ours=True),
    "VersionPageState.check": Case(Role.MEMBER, path=lambda world: draft_path(world), names_ours=True),
    "VersionPageState.merge_system": Case(
        Role.MEMBER, lambda world, person: [True], lambda world: draft_path(world), names_ours=True
    ),
    "VersionPageState.look_again": Case(Role.MEMBER, path=_VERSION, names_ours=True),
    "ComparisonState.load": Case(path=_VERSION, names_ours=True),
    "ComparisonState.compare": Case(
        arguments=lambda world, person: [other_version(world)], path=_VERSION, names_ours=True
    ),
    "DeletionState.ask": Case(arguments=lambda world, person: [True], path=_VERSION, names_ours=True),
    "DeletionState.ask_dataset": Case(
        arguments=lambda world, person: [str(world.dataset_id)], path=_in("/data"), names_ours=True
    ),
    "DeletionState.delete": Case(Role.ADMIN, path=lambda world: draft_path(world), names_ours=True),
    "VersionPageState.ask_freeze": Case(arguments=lambda world, person: [True], path=_VERSION, names_ours=True),
    "VersionPageState.freeze": Case(Role.MEMBER, path=lambda world: draft_path(world), names_ours=True),
    "VersionPageState.cancel_check": Case(Role.MEMBER, path=lambda world: checking_path(world), names_ours=True),
    "TokensState.load": Case(path=_VERSION, names_ours=True),
    "TokensState.ask": Case(arguments=lambda world, person: ["4,096"], path=_VERSION, names_ours=True),
    "RowsState.load": Case(path=_VERSION, names_ours=True),
    "RowsState.search": Case(arguments=lambda world, person: [{"rows-search": "Hi"}], path=_VERSION, names_ours=True),
    "RowsState.count": Case(path=_in("/data/versions/{world.version_id}?q=Hi"), names_ours=True),
    "RowsState.pick": Case(arguments=lambda world, person: [1], path=_VERSION, names_ours=True),
    "BaselineState.load": Case(path=_in("/baseline"), names_ours=True),
    "BaselineState.watch": Case(path=_in("/baseline"), names_ours=True),
    "ScoringState.close": Case(),
    "ScoringState.set_open": Case(arguments=lambda world, person: [True]),
    "ScoringState.ask_base": Case(Role.MEMBER, path=_in("/baseline"), names_ours=True),
    "ScoringState.ask_adapter": Case(
        Role.MEMBER, lambda world, person: [str(ready_run(world))], path=_in("/baseline"), names_ours=True
    ),
    "ScoringState.choose": Case(
        Role.MEMBER, lambda world, person: ["hours", "3"], path=_in("/baseline"), names_ours=True
    ),
    "ScoringState.start": Case(
        Role.MEMBER, path=_in("/baseline"), variables=lambda world: {"version": str(world.version_id)}, names_ours=True
    ),
    "BaselineState.ask_cancel": Case(
        arguments=lambda world, person: [str(world.baseline_id)], path=_in("/baseline"), names_ours=True
    ),
    "BaselineState.cancel": Case(
        Role.MEMBER,
        path=_in("/baseline"),
        variables=lambda world: {"asks_cancel": live_baseline(world)},
        names_ours=True,
    ),
}
"""Those of projects, data and baselines."""


def runs_of(world: World) -> str:
    return routes.runs(world.project_id)


def configure_of(world: World) -> str:
    return routes.configure(world.project_id)


def configure_with_account(world: World) -> str:
    connection_of(world)
    with unit_of_work() as session:
        stranger = world.stranger.organization_id
        if find_connection(session, stranger, ConnectionKind.RUNPOD_COMPUTE) is None:
            connect(session, stranger)
    return configure_of(world)


RUN_HANDLERS: dict[str, Case] = {
    **{
        f"RunsState.{name}": Case(arguments=lambda world, person, given=given: list(given), path=runs_of)
        for name, given in {"narrow": ("group", "live"), "sort_by": ("name",), "turn": (1,), "show_all": ()}.items()
    },
    "RunsState.load": Case(path=runs_of, names_ours=True),
    "RunsState.follow": Case(path=runs_of, names_ours=True),
    "ConfigureState.load": Case(path=configure_of, names_ours=True),
    "ConfigureState.check": Case(path=configure_of, names_ours=True),
    "GpuListState.load": Case(path=configure_of, names_ours=True),
    "GpuListState.show": Case(path=configure_of, names_ours=True),
    "GpuListState.watch": Case(path=configure_of, names_ours=True),
    "GpuListState.refresh": Case(Role.MEMBER, path=configure_with_account),
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
            "close": (),
            "ask_rename": ("a", "b"),
            "set_rename_open": (True,),
        }.items()
    },
    "RunActions.ask_launch": Case(Role.MEMBER, lambda world, person: [str(world.run_id)], names_ours=True),
    "RunActions.copy": Case(Role.MEMBER, lambda world, person: [str(world.run_id)], names_ours=True),
    "RunActions.retry": Case(Role.MEMBER, lambda world, person: [str(failed_run(world))], names_ours=True),
    "RunActions.full_draft": Case(Role.MEMBER, lambda world, person: [str(finished_trial(world))], names_ours=True),
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
    **{
        f"RecoveryState.{name}": Case(
            Role.MEMBER,
            arguments=lambda world, person, given=given: list(given),
            path=lambda world, state=state: run_in(world, state),
            names_ours=True,
        )
        for name, state, given in (
            ("pause", RunState.TRAINING, ()),
            ("resume", RunState.PAUSED, ()),
            ("verify", RunState.NEEDS_RECOVERY, ()),
            ("confirm_absent", RunState.LAUNCHING, ()),
        )
    },
    "LimitState.extend": Case(
        Role.MEMBER,
        lambda world, person: [{"maximum_runtime_hours": "12"}],
        lambda world: run_in(world, RunState.NEEDS_RECOVERY),
        names_ours=True,
    ),
    "MachineActions.retry_cleanup": Case(
        Role.MEMBER, lambda world, person: [str(machine_in(world, MachineState.RELEASE_FAILED))], names_ours=True
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
    **{
        f"EvaluationMachineState.{name}": Case(path=lambda world: evaluation_in_doubt(world), names_ours=True)
        for name in ("load", "watch")
    },
    "EvaluationMachineState.confirm_absent": Case(
        Role.MEMBER, path=lambda world: evaluation_in_doubt(world), names_ours=True
    ),
    "EvaluationsState.load": Case(path=lambda world: routes.evaluations(world.project_id), names_ours=True),
}
"""Those of runs, their form, their page and scorecards."""

KEY = {"api_key": "rpa_PASTEDBYSOMEBODY1234"}
S3_KEYS = {
    "data_center": "EU-RO-1",
    "volume_id": "vol123abc",
    "access_key": "user_PASTEDBYSOMEBODY",
    "secret_key": "rps_PASTEDBYSOMEBODY1234",
}

ACCOUNT_HANDLERS: dict[str, Case] = {
    "ConnectionsState.load": Case(),
    "ConnectionsState.watch": Case(),
    "ConnectionsState.edit": Case(arguments=lambda world, person: ["runpod_compute"]),
    "ConnectionsState.save_compute": Case(Role.OWNER, lambda world, person: [KEY]),
    "ConnectionsState.save_storage": Case(Role.OWNER, lambda world, person: [S3_KEYS]),
    "ConnectionsState.recheck": Case(Role.OWNER, lambda world, person: [connection_of(world)], names_ours=True),
    "ConnectionsState.ask_remove": Case(arguments=lambda world, person: ["some", "RunPod compute"]),
    "ConnectionsState.remove": Case(
        Role.OWNER, variables=lambda world: {"asks_remove": connection_of(world)}, names_ours=True
    ),
    "ConnectionsState.ask_slots": Case(arguments=lambda world, person: [True]),
    "StraysState.load": Case(),
    "StraysState.watch": Case(),
    "StraysState.ask_terminate": Case(arguments=lambda world, person: ["some", "tune-x"]),
    "StraysState.terminate": Case(Role.MEMBER, variables=lambda world: {"ending": stray_of(world)}, names_ours=True),
    "ConnectionsState.save_slots": Case(Role.ADMIN, lambda world, person: [{"slots": "3"}]),
}
"""Those of outside accounts."""

HANDLERS: dict[str, Case] = (
    DATA_HANDLERS
    | RUN_HANDLERS
    | ACCOUNT_HANDLERS
    | {
        "AppState.enter": Case(),
        "AccountState.load": Case(),
        "AccountState.end": Case(arguments=lambda world, person: [str(session_of(person))]),
    }
)
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
    "GET /api/imports/{id}/bad-rows.jsonl": Case(names_ours=True),
    "GET /api/versions/{id}/rows": Case(names_ours=True),
    "GET /api/evaluations/{id}/answers.jsonl": Case(names_ours=True),
    "GET /api/versions/{id}/images/{name}": Case(names_ours=True),
    "GET /api/imports/{id}/images/{name}": Case(names_ours=True),
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
    store().put(errors_key(source.id), b'{"row": 1, "line": 1, "path": "", "code": "not_json", "message": "No."}\n')
    store().put(bad_rows_key(source.id), b"{}\n")
    put_rows(source.id)
    put_examples(frozen_key(REPORT["content_sha256"]))
    store().put(f"imports/{source.id}/{THUMBNAILS}/{'0' * 64}.webp", clean(picture(size=(320, 200))).thumbnail)
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


def session_of(person: Person) -> UUID:
    """Another browser of the same person."""
    token = sign_in(person.email).partition("=")[2]
    with reading() as session:
        return session.exec(select(SignIn.id).where(SignIn.token_sha256 == digest(token))).one()


def queue(world: World) -> dict[str, Any]:
    """Run and baseline wait, so that they can be cancelled."""
    with unit_of_work() as session:
        session.get_one(Run, world.run_id).state = RunState.QUEUED
        session.get_one(Evaluation, world.baseline_id).state = EvaluationState.QUEUED
    return {}


def form_of(world: World) -> dict[str, str]:
    """A form that can be saved."""
    return {**blank_form(), "name": "Next", "version": str(world.version_id), "baseline": str(world.baseline_id)}


def run_in(world: World, state: RunState) -> str:
    """The page of the run in this state; one at work has a machine that nobody finds."""
    with unit_of_work() as session:
        run = session.get_one(Run, world.run_id)
        run.state, run.attempt = state, 1
    if state is RunState.LAUNCHING:
        machine_in(world, MachineState.ASKED)
    return routes.run(world.project_id, world.run_id)


def evaluation_in_doubt(world: World) -> str:
    """The page of an evaluation whose machine was asked for long ago and not found."""
    scored = make_scorer(world.people[Role.OWNER].caller, world.project_id, world.version_id)
    return routes.scorecard(world.project_id, scored)


def machine_in(world: World, state: MachineState) -> UUID:
    """The run's machine, asked for long ago and not found; made once."""
    with reading() as session:
        known = session.exec(select(Machine.id).where(Machine.subject_id == world.run_id)).first()
    machine_id = known or ask_machine(world.people[Role.OWNER].caller, world.run_id, clock.now())
    with unit_of_work() as session:
        row, long_ago = session.get_one(Machine, machine_id), now_of(session) - timedelta(minutes=30)
        row.state, row.ask_sent_at, row.absent_since, row.absent_looks = state, long_ago, long_ago, 9
    return machine_id


def stray_of(world: World) -> str:
    """A machine of the organization's account that no row knows."""
    account, organization_id = UUID(connection_of(world)), world.people[Role.OWNER].organization_id
    with unit_of_work() as session:
        return str(make_stray(session, organization_id, account).id)


def waiting_import(world: World) -> str:
    """The page of an upload whose first rows can be seen."""
    put_preview(world.upload_id)
    return f"/projects/{world.project_id}/data/imports/{world.upload_id}"


def put_preview(import_id: UUID) -> None:
    """A table of which no layout is recognised waits to be mapped."""
    rows = [[1, 1, _EXAMPLE]]
    found = {"kind": "jsonl", "wrapping": "", "columns": ["messages"], "mapping": None, "question": "Which?"}
    store().put(preview_key(import_id), json.dumps({**found, "records": rows}).encode())
    store().put(source_key(import_id), json.dumps(rows[0][2]).encode())
    with unit_of_work() as session:
        row = session.get_one(Import, import_id)
        row.arrived = row.previewed = True


def left_out_in(world: World) -> str:
    """The page of a file of which somebody left out a row."""
    with suppress(Conflict), unit_of_work() as session:
        edits.leave_out(session, world.people[Role.OWNER].caller, world.import_id, [2])
    return f"/projects/{world.project_id}/data/imports/{world.import_id}"


def settings_with_classifier(world: World) -> str:
    """Of both organizations: an address is asked."""
    for person in (world.people[Role.OWNER], world.stranger):
        with unit_of_work() as session:
            safety.set_address(session, person.caller, "https://a.example.com", "60")
    return f"/projects/{world.project_id}/settings"


def other_import(world: World) -> str:
    """Another file of the dataset that was read; made once a person."""
    with unit_of_work() as session:
        source = session.get_one(Import, world.import_id)
        other = Import(**source.model_dump() | {"id": uuid4(), "file_name": "more.jsonl"})
        session.add(other)
    put_rows(other.id)
    return str(other.id)


def put_rows(import_id: UUID, count: int = 3, *, rejected: Collection[int] = ()) -> None:
    """What the reading of a file of a few rows leaves in the store."""
    good = [n for n in range(1, count + 1) if n not in rejected]
    with unit_of_work() as session:
        row = session.get_one(Import, import_id)
        row.rows, row.accepted, row.rejected = count, len(good), len(rejected)
    rows = [read_record(Record(n, n, json.dumps(_EXAMPLE)), ColumnMapping(Layout.CHAT)) for n in good]
    file = io.BytesIO()
    pq.write_table(table_of([one for one in rows if isinstance(one, Row)]), file)
    store().put(rows_key(import_id), file.getvalue())


def other_version(world: World) -> str:
    """Of the same dataset and the same rows."""
    with unit_of_work() as session:
        version = session.get_one(DatasetVersion, world.version_id)
        values = {
            **version.model_dump(),
            "id": uuid4(),
            "number": 1_000 + len(session.exec(select(DatasetVersion)).all()),
        }
        session.add(DatasetVersion(**values))
        return str(values["id"])


def failed_run(world: World) -> UUID:
    with unit_of_work() as session:
        session.get_one(Run, world.run_id).state = RunState.FAILED
    return world.run_id


def connection_of(world: World) -> str:
    """An account of the organization that works; made once."""
    organization_id = world.people[Role.OWNER].organization_id
    with unit_of_work() as session:
        known = find_connection(session, organization_id, ConnectionKind.RUNPOD_COMPUTE)
        return str((known or connect(session, organization_id)).id)


def finished_trial(world: World) -> UUID:
    with unit_of_work() as session:
        run = session.get_one(Run, world.run_id)
        run.purpose, run.trial, run.state = RunPurpose.TRIAL, TrialSettings().as_values(), RunState.COMPLETED
    return world.run_id


def draft_path(world: World) -> str:
    """The page of a draft that was checked and found clean."""
    with unit_of_work() as session:
        project = session.get_one(Project, world.project_id)
        draft = make_version(session, project, state=VersionState.DRAFT)
        return f"/projects/{project.id}/data/versions/{draft.id}"


def ready_run(world: World) -> UUID:
    """Its adapter has no score."""
    return make_run(world.people[Role.OWNER].caller, state=RunState.ADAPTER_READY, attempt=1)


def checking_path(world: World) -> str:
    """The page of a version whose rows are being read."""
    with unit_of_work() as session:
        project = session.get_one(Project, world.project_id)
        version = make_version(session, project, state=VersionState.CHECKING)
        return f"/projects/{project.id}/data/versions/{version.id}"


def live_baseline(world: World) -> str:
    """One that waits for its machine."""
    with unit_of_work() as session:
        version = session.get_one(DatasetVersion, world.version_id)
        project = session.get_one(Project, world.project_id)
        return str(make_baseline(session, project, version, state=EvaluationState.QUEUED).id)


def put_base() -> str:
    """A base model on this computer; what the form of a new project sends for it."""
    folder = get_settings().bases_dir / "plain"
    base = make_plain_base(folder)
    return f"{base.repo_id}@{base.revision}"


def put_examples(folder: str, lengths: Sequence[int] = (2,)) -> None:
    """A row of each length in each split, with its mask."""
    content = [{"type": "image", "image": f"{'0' * 64}.png"}, {"type": "text", "text": "Hi"}]
    example = json.dumps({"messages": [{"role": "user", "content": content}]})
    rows = [*range(1, len(lengths) + 1)]
    for split in Split:
        _put_table(f"{folder}/{split.value}.parquet", {"row": rows, "example": [example] * len(rows)})
    places = [(split.value, row) for split in Split for row in rows]
    keys = {
        "split": [split for split, _ in places],
        "row": [row for _, row in places],
        "sha256": [bytes(32)] * len(places),
        "question_key": [bytes(16)] * len(places),
    }
    _put_table(f"{folder}/{KEYS}", keys)
    mask = [
        {"split": split.value, "row": row, "tokens": tokens, "longest": tokens, "trained_tokens": 1 + tokens // 9}
        for split in Split
        for row, tokens in zip(rows, lengths, strict=True)
    ]
    shared = {"text": "Hi Ho", "spans": "[[3, 5]]", "error": None}
    _put_table(f"{folder}/{MASK}", {name: [{**line, **shared}[name] for line in mask] for name in mask[0] | shared})


def _put_table(key: str, columns: dict[str, list[Any]]) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    store().put(key, file.getvalue())
