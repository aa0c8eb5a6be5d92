"""Evaluation so far: checkpoints and answers in rows."""

from __future__ import annotations

from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading
from tensorant_app.pages.project_settings import ProjectSettingsState
from tensorant_app.pages.run_samples import checkpoints_of, prompts_of
from tensorant_app.pages.run_state import RunPageState
from tensorant_app.services.metrics import Checkpoint
from tensorant_app.services.samples import Answered, PromptAnswers, Samples
from tests.factories import make_run
from tests.pages.conftest import visit
from tests.pages.test_run import address, look, started, train
from tests.people import Person
from tests.services.test_samples import answer
from tests.states import call, make_state, run


def test_checkpoints_say_what_was_answered_and_a_dash_where_nothing_was() -> None:
    rows = checkpoints_of([Checkpoint(1200, 0.5123, 0.25, 0.5), Checkpoint(600, 0.7, None, None)])

    assert [(row.step, row.loss, row.exact, row.f1) for row in rows] == [
        ("Step 1,200", "0.512", "25.0 %", "50.0 %"),
        ("Step 600", "0.700", "–", "–"),
    ]


def test_the_newest_answer_stands_first_and_a_cut_one_is_marked() -> None:
    answers = [Answered(20, "a long tale", stopped=False), Answered(10, "no", stopped=True)]

    (row,) = prompts_of(Samples("1", [PromptAnswers("Who?", answers)]))

    assert (row.newest.step, row.newest.words) == ("Step 20", "a long tale …")
    assert [(one.step, one.words) for one in row.earlier] == [("Step 10", "no")]


def test_a_runs_page_follows_both_as_they_come(owner: Person) -> None:
    run_id = started(owner)
    train(owner, run_id, steps=9)
    line = (
        '{"at": "now", "attempt": 1, "boot": 1, "step": 10, "epoch": 1.0, "validation_loss": 0.5, "exact_match": 0.25}'
    )
    look(owner, run_id, [line])
    state = visit(RunPageState, owner, address(run_id), "enter", "load")
    assert [(row.step, row.exact) for row in state.checkpoints] == [("Step 10", "25.0 %")]
    assert state.prompts == []

    answer(run_id, 1, (10, "Who?", "me"))
    run(state._reload())

    assert [(row.prompt, row.newest.words) for row in state.prompts] == [("Who?", "me")]


def test_prompts_are_pinned_in_the_projects_settings(owner: Person) -> None:
    run_id = make_run(owner.caller)
    with reading() as session:
        project_id = session.get_one(Run, run_id).project_id
    path = f"/projects/{project_id}/settings"
    tab = make_state(ProjectSettingsState, owner.cookies, path)
    run(call(tab, "pin", {"prompts": "\n".join("abcdefghi")}))
    assert "At most 8" in tab.fields["prompts"]

    run(call(tab, "pin", {"prompts": "Who?\nWhere?"}))

    with reading() as session:
        assert session.get_one(Project, project_id).sample_prompts == ["Who?", "Where?"]
    assert visit(ProjectSettingsState, owner, path, "load").prompts == "Who?\nWhere?"
