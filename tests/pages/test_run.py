"""The page of a run."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from tensorant_app import routes
from tensorant_app.db import clock
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.runs import RunState
from tensorant_app.pages.run_state import RunPageState
from tensorant_app.services.connections import volume_for
from tests.factories import make_run
from tests.pages.conftest import visit
from tests.people import Person
from tests.states import call, move_to, run, variables
from tests.trained import look, metric_lines, started, train


def address(run_id: UUID) -> str:
    with reading() as session:
        return routes.run(session.get_one(Run, run_id).project_id, run_id)


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


def test_nothing_of_the_run_before_is_shown_in_the_same_tab(owner: Person) -> None:
    first = started(owner)
    train(owner, first, steps=61)
    queued = make_run(owner.caller, state=RunState.QUEUED)
    state = visit(RunPageState, owner, address(first), "enter", "load")
    assert (state.has_points, bool(state.lines), bool(state.checkpoints)) == (True, True, True)

    move_to(state, address(queued))
    run(call(state, "load"))

    assert variables(state) == variables(visit(RunPageState, owner, address(queued), "enter", "load"))


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
