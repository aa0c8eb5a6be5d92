"""What a run will take, before it is saved."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.estimates import Source
from tensorant_app.domain.members import Caller
from tensorant_app.domain.run_form import blank_form
from tensorant_app.domain.runs import RunState
from tensorant_app.services import drafts, estimates, launches
from tensorant_app.services.estimates import Estimate
from tests.conftest import NOON
from tests.factories import ask_machine, make_caller, make_run
from tests.services.test_trials import make_trial


@pytest.fixture
def run(caller: Caller) -> Run:
    run_id = make_run(caller)
    with reading() as session:
        return session.get_one(Run, run_id)


def estimate(caller: Caller, run: Run, **typed: str) -> Estimate | None:
    with reading() as session:
        form = {**blank_form(), "version": str(run.version_id), **typed}
        return estimates.estimate_form(session, caller, run.project_id, form)


def finish(caller: Caller, run: Run, seconds: float, **values: Any) -> None:
    with unit_of_work() as session:
        row = session.get_one(Run, run.id)
        row.state, row.attempt = RunState.COMPLETED, 1
    machine_id = ask_machine(caller, run.id, NOON)
    with unit_of_work() as session:
        session.get_one(Machine, machine_id).result = {"outcome": "done", "seconds": seconds, **values}


def test_rows_tokens_and_steps_come_from_the_version_and_the_form(caller: Caller, run: Run) -> None:
    found = estimate(caller, run, epochs="2", micro_batch_size="8")

    assert found is not None
    assert (found.rows, found.tokens_per_epoch, found.effective_batch) == (80, 8000, 32)
    assert (found.plan.steps_per_epoch, found.plan.total_steps) == (3, 6)
    assert (found.source, found.source_words.split(",")[0]) == (Source.FORMULA, "by formula")
    assert timedelta(0) < (found.shortest or timedelta(0)) < (found.longest or timedelta(0))


def test_rows_of_twice_the_tokens_take_twice_the_time(caller: Caller, run: Run) -> None:
    before = estimate(caller, run)
    with unit_of_work() as session:
        version = session.get_one(DatasetVersion, run.version_id)
        assert version.report is not None
        mask = version.report["mask"]
        version.report = {**version.report, "mask": {**mask, "tokens": {**mask["tokens"], "train": 16_000}}}

    after = estimate(caller, run)

    assert before is not None
    assert after is not None
    assert (before.tokens_per_epoch, after.tokens_per_epoch) == (8_000, 16_000)
    assert before.shortest is not None
    assert before.longest is not None
    assert after.shortest is not None
    assert after.shortest / before.shortest == pytest.approx(2, rel=0.01)
    assert after.longest == 2 * before.longest


def test_time_is_measured_by_runs_that_trained_to_their_end(caller: Caller, run: Run) -> None:
    finish(caller, run, 2400.0)

    found, other = estimate(caller, run, epochs="1"), estimate(caller, run, method="qlora")

    assert found is not None
    assert (found.shortest, found.longest) == (timedelta(seconds=680), timedelta(seconds=920))
    assert (found.source, found.source_words) == (Source.RUNS, "from 1 similar run")
    assert other is not None
    assert other.source is Source.FORMULA


def test_this_runs_trial_measures_better_than_others_and_says_so(caller: Caller) -> None:
    with reading() as session:
        trial = session.get_one(Run, make_trial(caller))
    with unit_of_work() as session:
        draft = drafts.create_full_draft(session, caller, trial.id)
    with reading() as session:
        found = estimates.estimate_run(session, caller, draft.id)

    assert (found.source, found.source_words) == (Source.TRIAL, "from this run's trial, optimizer steps only")
    assert (found.shortest, found.longest) == (timedelta(seconds=800), timedelta(seconds=1000))


def test_a_trial_is_no_similar_run(caller: Caller) -> None:
    with reading() as session:
        trial = session.get_one(Run, make_trial(caller, trial_report=None))
        found = estimates.estimate_run(session, caller, trial.id)

    assert found.source is Source.FORMULA


def test_what_pulls_the_time_is_named_for_these_settings(caller: Caller, run: Run) -> None:
    plain, slow = estimate(caller, run), estimate(caller, run, method="qlora", dropout="0.1", packing="off")

    assert plain is not None
    assert slow is not None
    assert "a common system prompt" in plain.sway
    assert "QLoRA, dropout above 0" in slow.sway
    assert (slow.longest or timedelta(0)) > (plain.longest or timedelta(0))


def test_a_run_that_stopped_half_way_measures_nothing(caller: Caller, run: Run) -> None:
    finish(caller, run, 10.0, outcome="stopped")

    found = estimate(caller, run)

    assert found is not None
    assert found.source is Source.FORMULA


@pytest.mark.parametrize("typed", [{"epochs": "many"}, {"version": ""}, {"version": str(UUID(int=1))}])
def test_a_form_that_cannot_be_read_has_no_estimate(caller: Caller, run: Run, typed: dict[str, str]) -> None:
    assert estimate(caller, run, **typed) is None


def test_a_version_of_another_project_has_no_estimate_here(caller: Caller, run: Run) -> None:
    theirs = make_run(make_caller())
    with reading() as session:
        foreign = session.get_one(Run, theirs)

    assert estimate(caller, run, version=str(foreign.version_id)) is None


def test_a_launch_says_how_many_slots_are_free(caller: Caller, run: Run) -> None:
    ask_machine(caller, make_run(caller, state=RunState.LAUNCHING), NOON)
    with reading() as session:
        view = launches.show_launch(session, caller, run.id)

    assert (view.slots_held, view.slots, view.maximum_runtime) == (1, 2, timedelta(hours=6))
