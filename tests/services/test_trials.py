"""The training trial report as people read it, and the full draft that is made of a trial."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

import pytest
from sqlmodel import select

from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.members import Caller
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.run_form import blank_form
from tensorant_app.domain.runs import RunPurpose, RunState
from tensorant_app.domain.trials import TrialSettings
from tensorant_app.services import drafts, evaluations, runs, trials
from tensorant_app.services.trials import TrialView
from tests.conftest import NOON
from tests.factories import ask_machine, make_run
from trainer.contract import Prediction, TrialReport

HERE = Placement()
A100 = Placement("runpod", ("NVIDIA A100",))
H100 = Placement("runpod", ("NVIDIA H100", "NVIDIA A100"))
MEASURED = TrialReport(
    completed=True,
    rows=80,
    steps=20,
    step_seconds=(2.0, *[1.0] * 19),
    median_step_seconds=1.0,
    full_run_steps=15,
    prediction=Prediction(900.0, 800.0, 1000.0),
)


def make_trial(caller: Caller, *, state: RunState = RunState.COMPLETED, **values: Any) -> UUID:
    """A trial with its report, whose machine is gone."""
    trial = TrialSettings().as_values()
    report = {"trial_report": asdict(MEASURED)} if state is RunState.COMPLETED else {}
    given: dict[str, Any] = {"purpose": RunPurpose.TRIAL, "trial": trial, "evaluates": False, "attempt": 1, **report}
    run_id = make_run(caller, state=state, **given | values)
    machine_id = ask_machine(caller, run_id, NOON)
    with unit_of_work() as session:
        machine = session.get_one(Machine, machine_id)
        machine.state, machine.provider = MachineState.RELEASED, "local"
    return run_id


def show(caller: Caller, run_id: UUID) -> TrialView:
    with reading() as session:
        found = trials.show_trial(session, caller, run_id)
    assert found is not None
    return found


def load(run_id: UUID) -> Run:
    with reading() as session:
        return session.get_one(Run, run_id)


class TestTheReport:
    def test_it_is_what_the_machine_measured_with_its_cost(self, caller: Caller) -> None:
        found = show(caller, make_trial(caller))

        assert found.report == MEASURED
        assert found.cost == (Money(0), Money(0)), "this computer costs nothing"
        assert (found.missing, found.refusal) == ("", "")

    @pytest.mark.parametrize(
        ("state", "attempt", "words"),
        [
            (RunState.TRAINING, 1, "when the trial has ended"),
            (RunState.FAILED, 1, "downloading the base model, took all its time"),
            (RunState.CANCELLED, 1, "cancelled before its end"),
            (RunState.CANCELLED, 0, "never started"),
        ],
    )
    def test_where_there_is_none_it_says_why(self, caller: Caller, state: RunState, attempt: int, words: str) -> None:
        found = show(caller, make_trial(caller, state=state, attempt=attempt))

        assert found.report is None
        assert words in found.missing

    def test_a_full_run_has_none(self, caller: Caller) -> None:
        with reading() as session:
            assert trials.show_trial(session, caller, make_run(caller)) is None


class TestTheFullDraft:
    def make(self, caller: Caller, run_id: UUID) -> Run:
        with unit_of_work() as session:
            made = drafts.create_full_draft(session, caller, run_id)
        return load(made.id)

    def test_it_has_the_settings_stored_beside_the_trial_and_is_launched_on_its_own(self, caller: Caller) -> None:
        settings = RunSettings(epochs=7, rank=64).as_values()
        trial_id = make_trial(caller, name="Try", settings=settings)

        draft = self.make(caller, trial_id)

        trial = load(trial_id)
        assert (draft.state, draft.purpose, draft.attempt) == (RunState.DRAFT, RunPurpose.FULL, 0)
        assert (draft.settings, draft.gate, draft.version_id) == (settings, trial.gate, trial.version_id)
        assert (draft.trial, draft.trial_id, draft.name, draft.evaluates) == (None, trial_id, "Try full", True)

    @pytest.mark.parametrize("state", [state for state in RunState if state is not RunState.COMPLETED])
    def test_only_of_a_completed_trial(self, caller: Caller, state: RunState) -> None:
        with pytest.raises(Conflict, match="once the trial is completed"):
            self.make(caller, make_trial(caller, state=state))

    def test_only_once_its_machine_is_proved_gone(self, caller: Caller) -> None:
        trial_id = make_trial(caller)
        machine_id = ask_machine(caller, trial_id, NOON, attempt=2)
        with pytest.raises(Conflict, match="not proved released"):
            self.make(caller, trial_id)

        with unit_of_work() as session:
            session.get_one(Machine, machine_id).state = MachineState.RELEASED

        assert self.make(caller, trial_id).purpose is RunPurpose.FULL

    def test_a_full_run_has_no_other_settings_beside_it(self, caller: Caller) -> None:
        with pytest.raises(Conflict, match="Only a small training trial"):
            self.make(caller, make_run(caller, state=RunState.COMPLETED))


class TestDraftsOfTrials:
    def save(self, caller: Caller, **typed: str) -> Run:
        run = load(make_run(caller))
        form = {**blank_form(), "name": "Try", "version": str(run.version_id), "baseline": str(run.baseline_id)}
        with unit_of_work() as session:
            return load_new(session, drafts.save_form(session, caller, run.project_id, {**form, **typed}))

    def test_the_form_keeps_bounds_and_full_settings_apart(self, caller: Caller) -> None:
        draft = self.save(caller, purpose="trial", trial_steps="12", trial_minutes="5", epochs="9")

        assert draft.purpose is RunPurpose.TRIAL
        assert draft.trial == TrialSettings(trial_steps=12, trial_minutes=5.0).as_values()
        assert (draft.settings["epochs"], draft.settings["maximum_runtime_hours"]) == (9, 6.0)
        assert runs.time_left(draft).total_seconds() == 300
        assert draft.evaluates is False

    def test_bounds_count_only_where_the_purpose_is_a_trial(self, caller: Caller) -> None:
        assert self.save(caller, trial_steps="999").trial is None
        with pytest.raises(Invalid) as refusal:
            self.save(caller, purpose="trial", trial_steps="999", epochs="0")

        assert set(refusal.value.fields) == {"trial_steps", "epochs"}

    def test_a_retry_and_another_like_this_are_trials_too(self, caller: Caller) -> None:
        bounds = TrialSettings(trial_rows=64).as_values()
        failed = make_trial(caller, state=RunState.FAILED, trial=bounds)
        with unit_of_work() as session:
            retry = drafts.create_retry_draft(session, caller, failed)
            project = drafts.copy_to_form(session, caller, failed)

        with reading() as session:
            typed = drafts.show_form(session, caller, project).typed
        assert (load(retry.id).purpose, load(retry.id).trial) == (RunPurpose.TRIAL, bounds)
        assert (typed["purpose"], typed["trial_rows"]) == ("trial", "64")

    def test_a_launch_cannot_ask_for_its_score(self, caller: Caller) -> None:
        draft = self.save(caller, purpose="trial")
        with unit_of_work() as session:
            runs.launch_run(session, caller, draft.id, evaluates=True)

        assert load(draft.id).evaluates is False

    def test_its_adapter_is_never_evaluated(self, caller: Caller) -> None:
        trial_id = make_trial(caller)

        with pytest.raises(Conflict, match="diagnostic"), unit_of_work() as session:
            evaluations.create_for_run(session, session.get_one(Run, trial_id))


class TestThePrediction:
    def test_settings_that_take_the_same_time_are_measured_by_the_trial(self, caller: Caller) -> None:
        trial = load(make_trial(caller))

        with reading() as session:
            same = trials.prediction_for(session, trial.version_id, RunSettings(learning_rate=1e-3), HERE)
            other = trials.prediction_for(session, trial.version_id, RunSettings(rank=64), HERE)
            rented = trials.prediction_for(session, trial.version_id, RunSettings(), A100)

        assert same == MEASURED.prediction
        assert other is None
        assert rented is None, "this computer says nothing of a rented GPU"

    def test_a_rented_machines_trial_costs_its_price_and_measures_its_own_kind(self, caller: Caller) -> None:
        trial_id = make_trial(caller)
        with unit_of_work() as session:
            machine = session.exec(select(Machine).where(Machine.subject_id == trial_id)).one()
            machine.provider, machine.gpu_type, machine.rate = "runpod", "NVIDIA A100", HourlyRate(Money.dollars(2))
        version_id = load(trial_id).version_id

        with reading() as session:
            measured = [
                trials.prediction_for(session, version_id, RunSettings(), place) for place in (A100, H100, HERE)
            ]

        assert measured == [MEASURED.prediction, None, None]
        low, high = show(caller, trial_id).cost or (Money(0), Money(0))
        assert (str(low), str(high)) == ("$0.44", "$0.56")


def load_new(session: Any, run_id: UUID) -> Run:
    found: Run = session.get_one(Run, run_id)
    return found
