"""Pinned prompts from the project's settings to the answers on a run's page."""

from __future__ import annotations

from uuid import UUID

import pytest

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.members import Caller
from tensorant_app.domain.runs import RunState
from tensorant_app.services import evaluations, projects, samples, training
from tensorant_app.services.samples import Samples
from tensorant_app.settings import get_settings
from tests.conftest import NOON
from tests.factories import ask_machine, make_order, make_run
from trainer.contract import SAMPLES, Base, Sample, dump

BASE = Base("tests/tiny-llama", "a" * 40, "/nowhere")


@pytest.fixture
def run_id(caller: Caller) -> UUID:
    run_id = make_run(caller, state=RunState.TRAINING, attempt=2)
    for attempt in (1, 2):
        ask_machine(caller, run_id, NOON, attempt=attempt)
    return run_id


def answer(run_id: UUID, attempt: int, *lines: tuple[int, str, str]) -> None:
    path = get_settings().volume_dir / f"runs/{run_id}/out/{attempt}" / SAMPLES
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for step, prompt, words in lines:
            file.write(dump(Sample("now", step, prompt, words, words != "endless")) + "\n")


def show(caller: Caller, run_id: UUID, seen: str = "") -> Samples | None:
    with reading() as session:
        return samples.show_samples(session, caller, run_id, seen)


def test_each_prompt_shows_its_answers_newest_first_over_all_attempts(caller: Caller, run_id: UUID) -> None:
    answer(run_id, 1, (10, "Who?", "nobody"), (20, "Who?", "lost"))
    answer(run_id, 2, (20, "Who?", "me"), (30, "Who?", "endless"), (30, "Where?", "here"))

    found = show(caller, run_id)

    assert found is not None
    who, where = found.prompts
    assert [(one.step, one.answer, one.stopped) for one in who.answers] == [
        (30, "endless", False),
        (20, "me", True),
        (10, "nobody", True),
    ], "a step done again counts once, as it was done last"
    assert (where.prompt, where.answers[0].answer) == ("Where?", "here")


@pytest.mark.parametrize("odd", ["a\x85b", "a\u2028b", "a\x1cb", "a\x0bb"], ids=ascii)
def test_an_answer_of_a_model_that_has_learned_nothing_yet_is_one_line(caller: Caller, run_id: UUID, odd: str) -> None:
    answer(run_id, 1, (10, "Who?", odd), (20, "Who?", "me"))

    found = show(caller, run_id)

    assert found is not None
    assert [one.answer for one in found.prompts[0].answers] == ["me", odd]


def test_nothing_is_read_again_until_there_is_more(caller: Caller, run_id: UUID) -> None:
    answer(run_id, 1, (10, "Who?", "nobody"))
    first = show(caller, run_id)
    assert first is not None

    assert show(caller, run_id, first.version) is None
    answer(run_id, 2, (20, "Who?", "me"))

    assert show(caller, run_id, first.version) is not None


def test_what_a_project_pins_reaches_the_job_of_the_next_attempt(caller: Caller, run_id: UUID) -> None:
    with unit_of_work() as session:
        project_id = session.get_one(Run, run_id).project_id
        projects.pin_prompts(session, caller, project_id, "Who?\nWhere?")
    with reading() as session:
        assert projects.show_project(session, caller, project_id).sample_prompts == ("Who?", "Where?")
        task = training.read_task(session, run_id)

    assert caller.organization_id is not None
    job = training.job_of(task, make_order(caller.organization_id, run_id, NOON, attempt=3), BASE)

    assert job.sample_prompts == ("Who?", "Where?")


@pytest.mark.parametrize("merges", [False, True])
def test_a_run_its_baseline_and_its_evaluation_put_the_system_text_where_the_version_does(
    caller: Caller, run_id: UUID, merges: bool
) -> None:
    assert caller.organization_id is not None
    with unit_of_work() as session:
        run = session.get_one(Run, run_id)
        session.get_one(DatasetVersion, run.version_id).merge_system = merges
        ids = {"baseline": run.baseline_id, "adapter": evaluations.create_for_run(session, run)}
        order = make_order(caller.organization_id, run_id, NOON)
    with reading() as session:
        trained = training.job_of(training.read_task(session, run_id), order, BASE)
        asked = {
            name: evaluations.job_of(evaluations.read_task(session, key), order, BASE) for name, key in ids.items()
        }

    assert trained.options.merge_system is merges
    assert {name: job.merge_system for name, job in asked.items()} == {"baseline": merges, "adapter": merges}
