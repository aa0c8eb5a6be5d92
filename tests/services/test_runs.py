"""Drafts say everything that is wrong with them, never change, and are listed in order with all that is known."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.promise import claim_due
from tensorant_app.db.runs import Adapter, Run
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Invalid, NotFound
from tensorant_app.domain.evaluations import EvaluationKind, EvaluationState
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.members import Caller, operator
from tensorant_app.domain.runs import KEEPS_MACHINE, LIFECYCLE, RunState
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import runs
from tests import factories
from tests.conftest import Clock


@pytest.fixture
def prepared(caller: Caller) -> dict[str, UUID]:
    """A frozen version and its completed baseline, as `save_draft` takes them."""
    assert caller.organization_id is not None
    with unit_of_work() as session:
        project = factories.make_project(session, caller.organization_id)
        version = factories.make_version(session, project)
        return {"version_id": version.id, "baseline_id": factories.make_baseline(session, project, version).id}


def save(caller: Caller, name: str = "First", settings: dict[str, Any] | None = None, **ids: UUID) -> UUID:
    with unit_of_work() as session:
        return runs.save_draft(session, caller, name=name, settings=settings or {}, **ids)


def load(run_id: UUID) -> Run:
    with reading() as session:
        return session.get_one(Run, run_id)


def act(verb: Any, caller: Caller, run_id: UUID) -> None:
    with unit_of_work() as session:
        verb(session, caller, run_id)


class TestSaving:
    def test_what_is_not_said_has_its_default_and_the_metric_fits_the_answers(
        self, caller: Caller, prepared: dict[str, UUID]
    ) -> None:
        run = load(save(caller, "  First  ", {"epochs": 2, "rank": 8}, **prepared))

        assert (run.name, run.state, run.created_by) == ("First", RunState.DRAFT, caller.member_id)
        assert run.settings == {**RunSettings().as_values(), "epochs": 2, "rank": 8}
        assert run.gate["metric"] == "exact"
        assert claim_due() == [], "a draft costs nothing"

    @pytest.mark.parametrize(
        ("settings", "fields"),
        [
            ({"epochs": 0}, {"epochs": "Epochs must be between 1 and 100."}),
            ({"epochs": 1.5}, {"epochs": "Epochs must be a whole number."}),
            ({"method": "full"}, {"method": "Training method must be one of lora, qlora."}),
            ({"colour": "red"}, {"colour": "There is no setting called colour."}),
            (
                {"learning_rate": 1, "rank": 999},
                {
                    "learning_rate": "Learning rate must be between 1e-06 and 0.01.",
                    "rank": "LoRA rank must be between 1 and 256.",
                },
            ),
        ],
    )
    def test_each_wrong_setting_has_its_sentence(
        self, caller: Caller, prepared: dict[str, UUID], settings: dict[str, Any], fields: dict[str, str]
    ) -> None:
        with pytest.raises(Invalid) as invalid:
            save(caller, settings=settings, **prepared)

        assert invalid.value.fields == fields

    @pytest.mark.parametrize("name", ["", "   "])
    def test_it_needs_a_name(self, caller: Caller, prepared: dict[str, UUID], name: str) -> None:
        with pytest.raises(Invalid) as invalid:
            save(caller, name, **prepared)

        assert invalid.value.fields == {"name": "A run needs a name."}

    @pytest.mark.parametrize("state", [VersionState.DRAFT, VersionState.CHECKING, VersionState.FREEZING])
    def test_its_version_must_be_frozen(self, caller: Caller, prepared: dict[str, UUID], state: VersionState) -> None:
        with unit_of_work() as session:
            baseline = session.get_one(Evaluation, prepared["baseline_id"])
            version = factories.make_version(session, factories.make_project(session, baseline.organization_id))
            version.state, version.content_sha256 = state, None
            baseline.version_id = version.id

        with pytest.raises(Invalid) as invalid:
            save(caller, version_id=version.id, baseline_id=prepared["baseline_id"])

        assert invalid.value.fields == {"version": f"The version is {state.value}. Freeze it first."}

    def test_its_baseline_must_be_one_of_that_version(self, caller: Caller, prepared: dict[str, UUID]) -> None:
        with unit_of_work() as session:
            project = factories.make_project(session, load_organization(caller))
            other = factories.make_version(session, project)

        with pytest.raises(Invalid) as invalid:
            save(caller, version_id=other.id, baseline_id=prepared["baseline_id"])

        assert invalid.value.fields == {"baseline": "The baseline must be one of the chosen version."}

    @pytest.mark.parametrize("kind", [EvaluationKind.ADAPTER, EvaluationKind.BASELINE])
    @pytest.mark.parametrize("state", EvaluationState)
    def test_its_baseline_must_be_completed(
        self, caller: Caller, prepared: dict[str, UUID], kind: EvaluationKind, state: EvaluationState
    ) -> None:
        with unit_of_work() as session:
            baseline = session.get_one(Evaluation, prepared["baseline_id"])
            baseline.state, baseline.kind = state, kind
        if (kind, state) == (EvaluationKind.BASELINE, EvaluationState.COMPLETED):
            assert save(caller, **prepared)
            return

        with pytest.raises(Invalid) as invalid:
            save(caller, **prepared)

        assert list(invalid.value.fields) == ["baseline"]

    def test_all_that_is_wrong_is_said_at_once(self, caller: Caller, prepared: dict[str, UUID]) -> None:
        with unit_of_work() as session:
            session.get_one(Evaluation, prepared["baseline_id"]).state = EvaluationState.FAILED

        with pytest.raises(Invalid) as invalid:
            save(caller, " ", {"epochs": 0}, **prepared)

        assert set(invalid.value.fields) == {"name", "baseline", "epochs"}


def load_organization(caller: Caller) -> UUID:
    assert caller.organization_id is not None
    return caller.organization_id


class TestLaunching:
    def test_settings_and_gate_are_those_of_the_draft_whatever_happens(
        self, caller: Caller, prepared: dict[str, UUID]
    ) -> None:
        run_id = save(caller, settings={"epochs": 2}, **prepared)
        before = load(run_id)

        act(runs.launch_run, caller, run_id)
        act(runs.cancel_run, caller, run_id)

        after = load(run_id)
        assert (after.settings, after.gate) == (before.settings, before.gate)
        with reading() as session:
            shown = runs.show_run(session, caller, run_id).settings
        assert shown == before.settings

    def test_it_is_promised_a_look(self, caller: Caller, prepared: dict[str, UUID]) -> None:
        run_id = save(caller, **prepared)

        act(runs.launch_run, caller, run_id)

        assert [(claim.kind, claim.subject_id) for claim in claim_due()] == [(runs.REACT, run_id)]

    @pytest.mark.parametrize("state", [state for state in RunState if state is not RunState.DRAFT])
    def test_only_a_draft_can_be_launched(self, caller: Caller, state: RunState) -> None:
        run_id = factories.make_run(caller, state=state)

        with pytest.raises(Conflict, match=f"This run is {state.value.replace('_', ' ')}"):
            act(runs.launch_run, caller, run_id)

        assert load(run_id).queued_at is None


class TestCancelling:
    @pytest.mark.parametrize("state", [state for state in RunState if state is not RunState.EVALUATING])
    def test_what_can_be_cancelled_is_and_the_rest_is_told_why_not(self, caller: Caller, state: RunState) -> None:
        run_id = factories.make_run(caller, state=state)
        if state in LIFECYCLE.steps["cancel"].sources:
            act(runs.cancel_run, caller, run_id)
            assert (load(run_id).state, load(run_id).sentence) == (
                RunState.CANCELLED,
                f"Cancelled by {caller.name}.",
            )
            return

        with pytest.raises(Conflict, match="it cannot cancel now"):
            act(runs.cancel_run, caller, run_id)

    def test_the_operators_cancel_bears_their_name(self, caller: Caller) -> None:
        run_id = factories.make_run(caller, state=RunState.QUEUED)

        act(runs.cancel_run, operator(), run_id)

        run = load(run_id)
        assert (run.reason, run.sentence) == ("by_operator", "Cancelled by operator.")

    @pytest.mark.parametrize("state", sorted(KEEPS_MACHINE))
    def test_its_machine_is_wanted_back_in_the_same_transaction(
        self, caller: Caller, clock: Clock, state: RunState
    ) -> None:
        run_id = factories.make_run(caller, state=state, attempt=1)
        machine_id = factories.ask_machine(caller, run_id, clock())
        with unit_of_work() as session:
            session.get_one(Machine, machine_id).state = MachineState.HELD

        act(runs.cancel_run, caller, run_id)

        with reading() as session:
            assert session.get_one(Machine, machine_id).state is MachineState.RELEASING


class TestListing:
    def test_the_newest_comes_first_also_within_one_moment(self, caller: Caller, clock: Clock) -> None:
        first = factories.make_run(caller)
        clock.advance(seconds=1)
        same = sorted((factories.make_run(caller, id=uuid4()) for _ in range(3)), reverse=True)

        with reading() as session:
            assert [view.id for view in runs.list_runs(session, caller)] == [*same, first]

    def test_a_run_with_a_machine_shows_its_progress(self, caller: Caller, clock: Clock) -> None:
        run_id = factories.make_run(caller, state=RunState.TRAINING, attempt=1)
        machine_id = factories.ask_machine(caller, run_id, clock())
        with unit_of_work() as session:
            machine = session.get_one(Machine, machine_id)
            machine.status = {
                "machine": machine.name,
                "attempt": 1,
                "boot": 1,
                "phase": "training",
                "at": "now",
                "step": 7,
                "total_steps": 30,
                "epoch": 0.7,
                "loss": 1.5,
            }

        with reading() as session:
            (view,) = runs.list_runs(session, caller)

        assert (view.step, view.total_steps, view.epoch, view.loss, view.validation_loss) == (7, 30, 0.7, 1.5, None)
        assert view.machine is MachineState.ASKED


class TestShowing:
    def test_a_draft_shows_its_settings_and_its_baselines_scores(self, caller: Caller) -> None:
        run_id = factories.make_run(caller)

        with reading() as session:
            detail = runs.show_run(session, caller, run_id)

        assert detail.settings == RunSettings().as_values()
        assert detail.baseline_scores == {"exact_match": 0.1, "token_f1": 0.2, "likelihood": 0.3}
        assert (detail.events, detail.findings, detail.machine_name, detail.adapter_zip) == ([], [], None, None)

    def test_events_come_in_order_with_who_caused_them(self, caller: Caller) -> None:
        run_id = factories.make_run(caller)
        act(runs.launch_run, caller, run_id)
        act(runs.cancel_run, operator(), run_id)

        with reading() as session:
            events = runs.show_run(session, caller, run_id).events

        assert [(event.verb, event.cause.value, event.state) for event in events] == [
            ("enqueue", "member", "queued"),
            ("cancel", "operator", "cancelled"),
        ]

    def test_a_scored_run_shows_scores_verdict_and_download(self, caller: Caller) -> None:
        run_id = factories.make_run(caller, state=RunState.COMPLETED)
        with unit_of_work() as session:
            run = session.get_one(Run, run_id)
            evaluation = session.get_one(Evaluation, run.baseline_id)
            run.evaluation_id = evaluation.id
            evaluation.verdict = {"passed": True}
            session.add(
                Adapter(
                    id=uuid4(),
                    created_at=now_of(session),
                    organization_id=run.organization_id,
                    run_id=run.id,
                    attempt=1,
                    key="runs/x/adapter/1",
                    manifest={},
                    zip_key="adapters/x-1.zip",
                )
            )

        with reading() as session:
            detail = runs.show_run(session, caller, run_id)
            assert runs.evaluation_of(session, caller, run_id) == evaluation.id

        assert (detail.verdict, detail.adapter_zip) == ({"passed": True}, "adapters/x-1.zip")

    def test_a_run_that_was_not_scored_has_no_evaluation(self, caller: Caller) -> None:
        run_id = factories.make_run(caller)

        with reading() as session, pytest.raises(NotFound, match="no evaluation yet"):
            runs.evaluation_of(session, caller, run_id)
