"""An organization with everything in every state, for a console whose worker does not run: nothing moves by itself.

`python -m tests.e2e.scene` fills the data folder of the environment and prints who is there, and the places by name.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlmodel import select

from tensorant_app import routes
from tensorant_app.db import clock, migrate
from tensorant_app.db.datasets import DatasetVersion, Import
from tensorant_app.db.machines import Machine
from tensorant_app.db.organizations import Organization
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of, unit_of_work
from tensorant_app.domain.connections import ConnectionKind
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.members import Role
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import connecting
from tensorant_app.services.connecting import CheckResult, ConnectionState
from tensorant_app.services.connections import store
from tensorant_app.services.imports import errors_key, warnings_key
from tensorant_app.services.versions import draft_key, frozen_key
from tensorant_app.settings import get_settings
from tests.factories import REPORT, ask_machine, connect, make_baseline, make_project
from tests.people import Person
from tests.trained import score_run, started, train
from tests.web.world import World, make_world, put_base, put_examples, put_preview, put_rows
from trainer.contract import PROGRESS

_SAFETY = {"row": 7, "path": "messages[0].content", "code": "card", "message": "Row 7: a payment card number."}
_REFUSED = {"split": "train", "row": 9, "message": "The template refuses two user messages in a row."}


def main() -> None:
    migrate.upgrade()
    put_base()
    world = make_world()
    people = {role.value: person.cookies for role, person in world.people.items()}
    print(json.dumps({"cookies": people | {"stranger": world.stranger.cookies}, "places": places(world)}))


def places(world: World) -> dict[str, str]:
    owner, project = world.people[Role.OWNER], world.project_id
    _name(world)
    _connect(owner)
    with unit_of_work() as session:
        empty = make_project(session, owner.organization_id).id
    return {
        **_general(project, empty),
        **_data(world),
        **_runs(world, owner),
        "unreleased": _unreleased(world.stranger),
        "missing": routes.runs(uuid4()),
    }


def _name(world: World) -> None:
    """As a person would have called things."""
    with unit_of_work() as session:
        session.get_one(Project, world.project_id).name = "Support triage"
        session.get_one(Run, world.run_id).name = "triage-v1-r16"


def _connect(owner: Person) -> None:
    """One account whose check went well, and one that was refused."""
    checks = {
        ConnectionKind.RUNPOD_COMPUTE: CheckResult(ConnectionState.OK, "The key may create Pods.", None),
        ConnectionKind.RUNPOD_STORAGE: CheckResult(ConnectionState.FAILED, "The volume cannot be written.", None),
    }
    with unit_of_work() as session:
        for kind, found in checks.items():
            connecting.note_check(session, connect(session, owner.organization_id, kind).id, None, found)


def _general(project: UUID, empty: UUID) -> dict[str, str]:
    return {
        "sign-in": routes.SIGN_IN,
        "set-up": routes.SET_UP,
        "new-password": routes.NEW_PASSWORD,
        "account": routes.ACCOUNT,
        "projects": routes.PROJECTS,
        "new-project": routes.NEW_PROJECT,
        "overview": routes.overview(project),
        "data": routes.data(project),
        "baseline": routes.baseline(project),
        "runs": routes.runs(project),
        "configure": routes.configure(project),
        "evaluations": routes.evaluations(project),
        "settings": routes.project_settings(project),
        "connections": routes.CONNECTIONS,
        "overview-empty": routes.overview(empty),
        "data-empty": routes.data(empty),
        "baseline-empty": routes.baseline(empty),
        "runs-empty": routes.runs(empty),
        "configure-empty": routes.configure(empty),
        "evaluations-empty": routes.evaluations(empty),
    }


def _data(world: World) -> dict[str, str]:
    project = world.project_id
    checking = _import(world, "emails.jsonl", ImportState.CHECKING)
    work = get_settings().store_dir / f".work-{checking}-x"
    work.mkdir()
    (work / PROGRESS).write_text('{"done": 37, "total": 100}')
    reason = "No row of the file can be trained on. Read the list of errors, mend the file, and import it again."
    faulty = _import(world, "tickets-2026.jsonl", ImportState.READY)
    _put_errors(faulty)
    put_rows(faulty, 4312, rejected=range(8, 82))
    versions = {
        "version-draft": _version(world, 2, VersionState.DRAFT),
        "version-checking": _version(world, 3, VersionState.CHECKING),
        "version-checked": _version(world, 4, VersionState.DRAFT, {}),
        "version-refused": _version(
            world, 5, VersionState.DRAFT, {"safety": [_SAFETY], "mask": {**REPORT["mask"], "errors": [_REFUSED]}}
        ),
    }
    for folder in (frozen_key(REPORT["content_sha256"]), *map(draft_key, versions.values())):
        put_examples(folder, [*(90 + n * n % 400 for n in range(80)), 2_900])
    failed = _import(world, "notes.jsonl", ImportState.FAILED, rows=74, rejected=74, reason=reason)
    _put_errors(failed)
    imports = {
        "import": faulty,
        "import-receiving": world.upload_id,
        "import-mapping": _waiting(world),
        "import-checking": checking,
        "import-failed": failed,
    }
    return {
        "version": routes.version(project, world.version_id),
        **{name: routes.version(project, found) for name, found in versions.items()},
        **{name: routes.import_(project, found) for name, found in imports.items()},
    }


def _runs(world: World, owner: Person) -> dict[str, str]:
    shared: dict[str, Any] = {
        "project_id": world.project_id,
        "version_id": world.version_id,
        "baseline_id": world.baseline_id,
    }
    training = started(owner, name="triage-v1-r32", **shared)
    train(owner, training, steps=61)
    paused = started(owner, RunState.PAUSED, name="triage-v1-long", **shared)
    train(owner, paused, steps=30, state=MachineState.RELEASED)
    sentence = "It reached its limit of 6 h at step 30 of 100."
    recovery = started(owner, RunState.NEEDS_RECOVERY, name="triage-v1-ctx8k", sentence=sentence, **shared)
    train(owner, recovery, steps=30, state=MachineState.RELEASED)
    at = clock.now()
    cancelled = started(
        owner, RunState.CANCELLED, name="triage-v1-x", ended_at=at, sentence="Cancelled by Mira.", **shared
    )
    failed = started(owner, RunState.FAILED, name="triage-v1-lr2", ended_at=at, sentence="The loss is NaN.", **shared)
    passed = started(owner, RunState.COMPLETED, name="triage-v1-r8", ended_at=at, **shared)
    won = score_run(passed, base=range(1, 46), tuned=[*range(6, 46), *range(46, 76)])
    equal = started(owner, RunState.NO_GAIN, name="triage-v1-r4", ended_at=at, **shared)
    lost = score_run(equal, base=range(1, 46), tuned=range(3, 49))
    named = {
        "run-checking": _lost_launch(owner, **shared),
        "run-draft": world.run_id,
        "run-training": training,
        "run-paused": paused,
        "run-recovery": recovery,
        "run-cancelled": cancelled,
        "run-failed": failed,
        "run-completed": passed,
        "run-no-gain": equal,
    }
    scored = {"scorecard": won, "scorecard-no-gain": lost, "scorecard-baseline": world.baseline_id}
    scored["scorecard-live"] = _live_evaluation(world)
    return {name: routes.run(world.project_id, run) for name, run in named.items()} | {
        name: routes.scorecard(world.project_id, row) for name, row in scored.items()
    }


def _lost_launch(owner: Person, **values: Any) -> UUID:
    """The answer to the ask was lost half an hour ago, and no look has found the machine since."""
    run = started(owner, RunState.LAUNCHING, name="triage-v1-lost", **values)
    ask_machine(owner.caller, run, clock.now())
    with unit_of_work() as session:
        row = session.exec(select(Machine).where(Machine.subject_id == run)).one()
        row.ask_sent_at = row.answer_lost_at = row.absent_since = now_of(session) - timedelta(minutes=30)
        row.absent_looks, row.rate = 9, HourlyRate.dollars("1.72")
    return run


def _live_evaluation(world: World) -> UUID:
    with unit_of_work() as session:
        project, version = session.get_one(Project, world.project_id), session.get_one(DatasetVersion, world.version_id)
        row = make_baseline(session, project, version, state=EvaluationState.QUEUED)
        row.scores = None
        return row.id


def _import(world: World, name: str, state: ImportState, **values: Any) -> UUID:
    with unit_of_work() as session:
        row = session.get_one(Import, world.import_id)
        new = row.model_dump() | {"id": uuid4(), "file_name": name, "state": state, "size": 2_400_000} | values
        session.add(Import(**new))
        return UUID(str(new["id"]))


def _waiting(world: World) -> UUID:
    """A table that nobody has mapped yet."""
    found = _import(world, "fragen.csv.gz", ImportState.RECEIVING)
    put_preview(found)
    return found


def _put_errors(import_id: UUID) -> None:
    said = {
        "no_reply": "no message is of the assistant, so there is no reply to learn.",
        "not_json": "a quote is open at its end.",
    }
    errors = [
        {"row": n, "line": n, "path": "messages", "code": code, "message": f"Row {n} (line {n}): {said[code]}"}
        for n, code in enumerate(["no_reply"] * 60 + ["not_json"] * 14, 8)
    ]
    store().put(errors_key(import_id), "".join(json.dumps(error) + "\n" for error in errors).encode())
    odd = [
        {"row": n, "line": n, "path": "messages[1]", "code": code, "message": f"Row {n}: {what}."}
        for code, what, rows in (("html", "it holds HTML", 12), ("email", "it holds an e-mail address", 37))
        for n in range(100, 100 + rows)
    ]
    store().put(warnings_key(import_id), "".join(json.dumps(one) + "\n" for one in odd).encode())


def _version(world: World, number: int, state: VersionState, report: dict[str, Any] | None = None) -> UUID:
    """One more of the same dataset; with a report it has been checked."""
    with unit_of_work() as session:
        row = session.get_one(DatasetVersion, world.version_id)
        new = {"id": uuid4(), "number": number, "state": state, "content_sha256": None}
        new["report"] = None if report is None else {**REPORT, **report}
        session.add(DatasetVersion(**row.model_dump() | new))
        return UUID(str(new["id"]))


def _unreleased(stranger: Person) -> str:
    """A machine that may still cost money: its banner, and its run, which waits for it with the only slot."""
    run = started(stranger, RunState.QUEUED, losses=1, sentence="The machine was lost at step 3.")
    train(stranger, run, steps=3, state=MachineState.RELEASE_FAILED)
    with unit_of_work() as session:
        session.get_one(Organization, stranger.organization_id).run_slots = 1
        machine = session.exec(select(Machine).where(Machine.subject_id == run)).one()
        machine.release_wanted_at, machine.rate = now_of(session), HourlyRate.dollars("1.72")
        return routes.run(session.get_one(Run, run).project_id, run)


if __name__ == "__main__":
    main()
