"""A small training trial from launch to its report: never scored, never recovered, its machine given back."""

from __future__ import annotations

from uuid import UUID

import pytest
from sqlmodel import select

from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Adapter
from tensorant_app.db.session import reading
from tensorant_app.domain.evaluations import EvaluationKind
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.members import Caller
from tensorant_app.domain.runs import RunPurpose, RunState
from tensorant_app.domain.trials import FINISHED, TrialSettings
from tests import factories
from tests.jobs.test_runs import World, caller, launch, load, world  # noqa: F401
from trainer.contract import (
    TRIAL,
    Failure,
    Outcome,
    Phase,
    TrainJob,
    TrialLimits,
    TrialReport,
    dump,
)
from trainer.contract import load as load_file

REPORT = TrialReport(completed=True, rows=80, steps=20, median_step_seconds=1.5)


@pytest.fixture
def run_id(caller: Caller) -> UUID:  # noqa: F811
    bounds = TrialSettings(trial_steps=20, trial_minutes=20.0).as_values()
    run_id = factories.make_run(caller, purpose=RunPurpose.TRIAL, trial=bounds, evaluates=False)
    launch(caller, run_id)
    return run_id


def reports(world: World, report: TrialReport) -> None:  # noqa: F811
    path = world.volume / world.machines()[-1].outputs_key / TRIAL
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump(report))


def only_machine(world: World) -> Machine:  # noqa: F811
    (machine,) = world.machines()
    return machine


def test_its_machine_runs_the_trial_within_its_bounds(world: World, run_id: UUID) -> None:  # noqa: F811
    world.settle()

    machine = only_machine(world)
    job = load_file(TrainJob, (world.volume / f"runs/{run_id}/in/1/job.json").read_text())
    assert machine.command[0] == "trial"
    assert (machine.deadline - machine.created_at).total_seconds() == pytest.approx(20 * 60, abs=60)
    assert job.trial == TrialLimits(rows=128, validation_rows=16, steps=20, seed=42, minutes=20.0, runtime_hours=6.0)
    assert job.options.epochs == 3, "the settings of the full run"


def test_finished_it_is_completed_without_a_score_and_keeps_its_report(world: World, run_id: UUID) -> None:  # noqa: F811
    world.settle()
    reports(world, REPORT)
    world.ends_with_adapter()
    world.settle()

    run = load(run_id)
    assert (run.state, run.sentence, run.evaluation_id) == (RunState.COMPLETED, FINISHED, None)
    assert load_file(TrialReport, dump(REPORT)) == REPORT
    assert run.trial_report is not None
    assert (run.trial_report["steps"], run.trial_report["median_step_seconds"]) == (20, 1.5)
    assert only_machine(world).state is MachineState.RELEASED
    with reading() as session:
        assert session.exec(select(Adapter)).one().run_id == run_id
        assert session.exec(select(Evaluation).where(Evaluation.kind == EvaluationKind.ADAPTER)).all() == []


def test_at_its_time_limit_it_has_failed_with_what_it_measured(world: World, run_id: UUID) -> None:  # noqa: F811
    world.settle()
    world.says(Phase.TRAINING)
    world.settle(4)
    reports(world, TrialReport(completed=False, rows=80, steps=3, missing={"steps": "The 20 minutes were over."}))
    world.ends(Outcome.FAILED, failure=Failure("trial_over_time", "It was not finished.", "Allow more minutes."))
    world.settle()

    run = load(run_id)
    assert (run.state, run.sentence) == (RunState.FAILED, "It was not finished. Allow more minutes.")
    assert run.trial_report is not None
    assert run.trial_report["steps"] == 3
    assert only_machine(world).state is MachineState.RELEASED


def test_a_trainer_that_hangs_past_the_limit_is_waited_for_and_then_given_back(world: World, run_id: UUID) -> None:  # noqa: F811
    world.settle()
    world.says(Phase.TRAINING)
    world.settle(4)
    reports(world, TrialReport(completed=False, rows=80, steps=2))
    world.clock.at = only_machine(world).deadline
    world.settle(10)
    assert load(run_id).state is RunState.TRAINING, "its trainer may still be writing its report"

    world.clock.advance(seconds=90)
    world.settle()

    run = load(run_id)
    assert run.state is RunState.FAILED, "there is nothing to recover"
    assert "not finished within its time limit" in (run.sentence or "")
    assert run.trial_report is not None
    assert run.trial_report["steps"] == 2
    assert only_machine(world).state is MachineState.RELEASED


def test_a_torn_adapter_fails_it_and_the_report_stays(world: World, run_id: UUID) -> None:  # noqa: F811
    world.settle()
    reports(world, REPORT)
    world.ends_with_adapter(torn=True)
    world.settle()

    run = load(run_id)
    assert (run.state, bool(run.trial_report)) == (RunState.FAILED, True)


def test_a_lost_machine_is_followed_by_one_that_measures_anew(world: World, run_id: UUID) -> None:  # noqa: F811
    world.settle()
    world.says(Phase.TRAINING)
    world.settle(4)
    world.vanishes()
    world.settle()

    job = load_file(TrainJob, (world.volume / f"runs/{run_id}/in/2/job.json").read_text())
    assert (world.machines()[-1].command[0], job.resume_from) == ("trial", ())
