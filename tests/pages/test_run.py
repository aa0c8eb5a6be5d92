"""The page of a run."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import UUID

import pytest
from sqlmodel import select

from tensorant_app import routes
from tensorant_app.db import clock
from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Run, RunEvent
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.machines import MachineState, Use
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.steps import Cause
from tensorant_app.pages.run_state import RunPageState
from tensorant_app.services import machines, metrics
from tensorant_app.services.connections import volume_for
from tests.factories import ask_machine, make_run
from tests.pages.conftest import visit
from tests.people import Person
from tests.states import run
from tests.trained import metric_lines


def address(run_id: UUID) -> str:
    with reading() as session:
        return routes.run(session.get_one(Run, run_id).project_id, run_id)


def train(owner: Person, run_id: UUID, *, steps: int, state: MachineState = MachineState.HELD) -> None:
    """A machine that has done so many steps, and has been looked at."""
    ask_machine(owner.caller, run_id, clock.now())
    with unit_of_work() as session:
        row = session.exec(select(Machine)).one()
        row.state, row.ask_sent_at = state, clock.now()
        facts = {"step": steps, "total_steps": 100, "epoch": steps / 50, "loss": 0.5, "tokens_per_second": 3000.0}
        row.status = {"machine": row.name, "attempt": 1, "boot": 1, "phase": "training", "at": "", **facts}
    look(owner, run_id, list(metric_lines(steps, epoch_steps=50)))


def look(owner: Person, run_id: UUID, lines: list[str]) -> None:
    with reading() as session:
        machine = machines.machine_of(session, Use.RUN, run_id, 1)
        volume = volume_for(session, owner.organization_id)
        assert machine is not None
        known = metrics.stored_fold(session, machine)
    assert known is not None
    path = volume.fetch(f"{machine.outputs_key}/metrics.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    found = metrics.read_on(volume, machine, known)
    with unit_of_work() as session:
        metrics.note_fold(session, machine, found)


def started(owner: Person, state: RunState = RunState.TRAINING, **values: object) -> UUID:
    began = clock.now() - timedelta(minutes=10)
    run_id = make_run(owner.caller, state=state, attempt=1, started_at=began, **values)
    with unit_of_work() as session:
        for minutes, word in ((10, "queued"), (9, "launching"), (8, "preparing"), (6, "training")):
            verb = "train" if word == "training" else word
            at = clock.now() - timedelta(minutes=minutes)
            session.add(RunEvent(subject_id=run_id, at=at, verb=verb, cause=Cause.WORKER, state=word))
    return run_id


def test_a_run_that_trains_shows_phases_numbers_curves_and_log(owner: Person) -> None:
    run_id = started(owner)
    train(owner, run_id, steps=61)

    state = visit(RunPageState, owner, address(run_id), "enter", "load")

    assert (state.head.state, state.head.percent, state.head.line) == ("training", 61, "Step 61 of 100")
    assert [phase.state for phase in state.phases] == ["done", "done", "done", "now", "todo", "todo"]
    assert state.numbers.remaining == "about 3 min"
    assert state.has_points
    assert state.lines[-1].words.startswith("step 61 loss")
    assert state.machine.name.endswith(str(run_id))


def test_the_figure_is_sent_only_where_there_is_a_new_point(owner: Person) -> None:
    run_id = started(owner)
    train(owner, run_id, steps=20)
    state = visit(RunPageState, owner, address(run_id), "enter", "load")
    state._clean()

    run(state._reload())
    assert "loss_figure" not in state.dirty_vars
    look(owner, run_id, list(metric_lines(1, first=21)))
    run(state._reload())

    assert "loss_figure" in state.dirty_vars


def test_a_run_that_has_ended_is_not_looked_at_again(owner: Person) -> None:
    run_id = started(owner, RunState.CANCELLED, ended_at=clock.now(), sentence="Cancelled by Mira.")

    state = visit(RunPageState, owner, address(run_id), "enter", "load", "watch")

    assert (state.trouble.kind, state.trouble.what) == ("cancelled", "The run was cancelled.")


@pytest.mark.parametrize(
    ("state", "kind"),
    [(RunState.NEEDS_RECOVERY, "needs_recovery"), (RunState.FAILED, "failed"), (RunState.PAUSED, "paused")],
)
def test_what_asks_for_a_person_says_that_nothing_is_lost(owner: Person, state: RunState, kind: str) -> None:
    run_id = started(owner, state)
    train(owner, run_id, steps=30, state=MachineState.RELEASED)

    page = visit(RunPageState, owner, address(run_id), "enter", "load")

    assert page.trouble.kind == kind
    assert "step 30" in page.trouble.lost


def test_a_machine_not_proved_gone_is_said_beside_the_failure(owner: Person) -> None:
    run_id = started(owner, RunState.FAILED)
    train(owner, run_id, steps=3, state=MachineState.RELEASE_FAILED)

    page = visit(RunPageState, owner, address(run_id), "enter", "load")

    assert (page.trouble.kind, page.machine_trouble.kind) == ("failed", "release_failed")
    assert page.head.machine == "release_failed"


def test_a_member_cancels_and_a_viewer_is_refused(owner: Person, viewer: Person) -> None:
    run_id = started(owner)

    seen = visit(RunPageState, viewer, address(run_id), "enter", "load", "cancel")
    assert (seen.head.state, bool(seen.error)) == ("training", True)

    done = visit(RunPageState, owner, address(run_id), "enter", "load", "cancel")
    assert (done.head.state, done.error) == ("cancelled", "")


def test_a_returned_draft_lists_what_failed(owner: Person) -> None:
    finding = {"check": "space", "verdict": "refuse", "sentence": "Free 8 GiB."}
    run_id = make_run(owner.caller, sentence="Free 8 GiB.", findings=[finding, {**finding, "verdict": "pass"}])

    page = visit(RunPageState, owner, address(run_id), "enter", "load")

    assert [line.sentence for line in page.findings] == ["Free 8 GiB."]
    assert page.trouble.kind == "draft"


def test_settings_stand_beside_their_defaults(owner: Person) -> None:
    page = visit(RunPageState, owner, address(make_run(owner.caller)), "enter", "load")

    rows = {row.label: row for row in page.settings}
    assert (rows["LoRA rank"].value, rows["LoRA rank"].is_changed) == ("16", False)


@pytest.mark.parametrize("whose", ["theirs", "other project", "nonsense"])
def test_an_address_that_leads_nowhere_shows_nothing(owner: Person, stranger: Person, whose: str) -> None:
    run_id, other = make_run(stranger.caller if whose == "theirs" else owner.caller), make_run(owner.caller)
    path = address(run_id)
    if whose == "other project":
        path = address(other).replace(str(other), str(run_id))
    if whose == "nonsense":
        path = path.replace(str(run_id), "x")

    state = visit(RunPageState, owner, path, "enter", "load", "watch")

    assert state.head.id == ""
    assert state.error


def test_nothing_of_the_log_is_a_secret(owner: Person) -> None:
    run_id = started(owner)
    train(owner, run_id, steps=1)
    with reading() as session:
        path = volume_for(session, owner.organization_id).fetch(f"runs/{run_id}/out/1/log.txt")
    path.write_text("token hf_" + "a" * 34 + "\n")

    state = visit(RunPageState, owner, address(run_id), "enter", "load")

    assert "hf_aaa" not in json.dumps([line.words for line in state.lines])
