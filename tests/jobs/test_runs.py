"""A run from launch to gate over a fake provider: whatever is repeated, lost or cancelled, it is asked once and given back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlmodel import select

from jobs import broker
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.promise import claim_due, promise
from tensorant_app.db.runs import Adapter, Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Denied
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.machines import THIS_COMPUTER, MachineState, Presence
from tensorant_app.domain.members import Caller
from tensorant_app.domain.readiness import Check, Finding, passed, refused
from tensorant_app.domain.runs import RunState
from tensorant_app.providers.base import MachineRequest
from tensorant_app.services import evaluations, runs
from tensorant_app.services.connections import store
from tensorant_app.settings import get_settings
from tests import factories
from tests.conftest import Clock
from tests.fakes import FakeProvider
from trainer.contract import (
    ANSWERS,
    RESULT,
    STATUS,
    Answer,
    Base,
    Failure,
    Outcome,
    Phase,
    Result,
    Status,
    dump,
    hash_file,
    seal_folder,
)


class World:
    """The jobs over a fake provider, and a trainer that a test speaks for."""

    def __init__(self, provider: FakeProvider, clock: Clock) -> None:
        self.provider = provider
        self.clock = clock
        self.findings: list[Finding] = [passed(Check.PLAN, "30 steps.")]
        self.volume = get_settings().volume_dir

    def settle(self, rounds: int = 12) -> None:
        """Let every due job run, a second at a time."""
        for _ in range(rounds):
            self.clock.advance(seconds=2)
            for claim in claim_due():
                broker.perform(claim.kind, str(claim.subject_id))

    def machines(self) -> list[Machine]:
        with reading() as session:
            return list(session.exec(select(Machine).order_by(Machine.created_at, Machine.attempt)))  # type: ignore[arg-type]

    def says(self, phase: Phase) -> None:
        """The newest machine's heartbeat."""
        machine = self.machines()[-1]
        self._write(machine, STATUS, Status(machine.name, machine.attempt, 1, phase, "now", step=3, total_steps=30))

    def ends(self, outcome: Outcome, **values: Any) -> None:
        """The newest machine's result, and the end of its process."""
        machine = self.machines()[-1]
        result = Result(machine.name, machine.attempt, 1, outcome, "now", 9.0, 100, **values)
        self._write(machine, RESULT, result)
        self.provider.machines[machine.name] = Presence.EXITED

    def ends_with_adapter(self, *, torn: bool = False) -> None:
        machine = self.machines()[-1]
        key = machine.outputs_key.replace("/out/", "/adapter/")
        folder = self.volume / key
        folder.mkdir(parents=True)
        (folder / "adapter_config.json").write_text("{}")
        seal_folder(folder)
        if torn:
            (folder / "adapter_config.json").write_text("{ }")
        self.ends(Outcome.DONE, adapter=key)

    def ends_with_answers(self, *, exact: Callable[[int], bool]) -> None:
        machine = self.machines()[-1]
        key = f"{machine.outputs_key}/{ANSWERS}"
        path = self.volume / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(dump(answer_of(row, exact(row))) + "\n" for row in range(1, 61)))
        scores = {"exact_match": 0.5, "token_f1": 0.5, "likelihood": 0.5}
        self.ends(Outcome.DONE, answers=key, answers_sha256=hash_file(path).sha256, scores=scores)

    def vanishes(self) -> None:
        """The newest machine's process ends without a word."""
        self.provider.machines[self.machines()[-1].name] = Presence.EXITED

    def _write(self, machine: Machine, name: str, value: object) -> None:
        path = self.volume / machine.outputs_key / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dump(value))


def answer_of(row: int, exact: bool) -> Answer:
    return Answer(row, "yes", "yes" if exact else "no", exact, float(exact), True, "no", False)


@pytest.fixture
def world(chosen_database: str, clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    broker.load_actors()
    provider = FakeProvider(THIS_COMPUTER)
    world = World(provider, clock)
    base = Base("tests/tiny-llama", factories.REVISION, str(tmp_path))
    for module in ("jobs.machines", "tensorant_app.services.places"):
        monkeypatch.setattr(f"{module}.provider_for", lambda *given: provider)
    monkeypatch.setattr("tensorant_app.services.places.find_base", lambda repo_id, revision: base)
    monkeypatch.setattr("jobs.runs.readiness.check_run", lambda subject, now: world.findings)
    version = f"versions/{factories.REPORT['content_sha256']}"
    for split in ("train", "validation", "test"):
        store().put(f"{version}/{split}.parquet", b"rows")
    return world


@pytest.fixture
def caller(world: World) -> Caller:
    return factories.make_caller()


@pytest.fixture
def run_id(caller: Caller) -> UUID:
    run_id = factories.make_run(caller)
    with unit_of_work() as session:
        baseline_id = session.get_one(Run, run_id).baseline_id
    answers = "".join(dump(answer_of(row, False)) + "\n" for row in range(1, 61))
    store().put(evaluations.answers_key(baseline_id), answers.encode())
    launch(caller, run_id)
    return run_id


def launch(caller: Caller, run_id: UUID) -> None:
    with unit_of_work() as session:
        runs.launch_run(session, caller, run_id)


def load(run_id: UUID) -> Run:
    with reading() as session:
        return session.get_one(Run, run_id)


class TestGivingUp:
    def test_an_attempt_that_finished_unread_is_heard_before_the_run_fails(self, world: World, run_id: UUID) -> None:
        """Such as where the sweep deleted its machine after the clock had jumped."""
        world.settle()
        world.says(Phase.TRAINING)
        world.settle(4)
        machine = world.machines()[-1]
        world.ends_with_adapter()
        with unit_of_work() as session:
            row = session.get_one(Machine, machine.id)
            row.state, row.status, row.result = MachineState.RELEASED, None, None
        with unit_of_work() as session:
            promise(session, runs.REACT, run_id)

        world.settle(4)

        assert load(run_id).state in {RunState.ADAPTER_READY, RunState.EVALUATING}
        assert load(run_id).losses == 0


class TestStarting:
    def test_one_launch_asks_one_machine_with_its_files_in_place(self, world: World, run_id: UUID) -> None:
        world.settle()

        assert load(run_id).state is RunState.LAUNCHING
        assert world.provider.asked == [f"tune-{run_id}"]
        inputs = world.volume / f"runs/{run_id}/in/1"
        assert sorted(path.name for path in inputs.iterdir()) == ["console.json", "job.json"]
        assert not list(world.volume.rglob("test.parquet")), "test rows never go to a run's machine"

    def test_a_second_launch_of_the_same_draft_is_refused(self, world: World, run_id: UUID, caller: Caller) -> None:
        with pytest.raises(Conflict, match="queued"):
            launch(caller, run_id)

    def test_a_failed_check_returns_it_with_every_reason(self, world: World, run_id: UUID) -> None:
        world.findings = [refused(Check.SPACE, "The disk is full."), refused(Check.BASELINE, "No baseline.")]

        world.settle()

        run = load(run_id)
        assert (run.state, run.sentence) == (RunState.DRAFT, "The disk is full. No baseline.")
        assert world.provider.asked == []

    def test_refused_records_end_it_refused(self, world: World, run_id: UUID) -> None:
        world.findings = [refused(Check.SAFETY, "Row 3 holds a key.")]

        world.settle()

        assert load(run_id).state is RunState.REFUSED
        assert world.machines() == []

    def test_a_run_beyond_the_slots_waits_and_starts_when_one_is_free(self, world: World, caller: Caller) -> None:
        ids = [factories.make_run(caller) for _ in range(3)]
        for run_id in ids:
            launch(caller, run_id)
            world.settle(4)

        assert [load(run_id).state for run_id in ids] == [RunState.LAUNCHING, RunState.LAUNCHING, RunState.QUEUED]
        with unit_of_work() as session:
            runs.cancel_run(session, caller, ids[0])
        world.settle()

        assert load(ids[2]).state is RunState.LAUNCHING

    def test_a_refusal_by_the_provider_fails_it_in_its_words(self, world: World, run_id: UUID) -> None:
        def deny(request: MachineRequest) -> None:
            raise Denied("The trainer could not be started.")

        world.provider.before_create = deny

        world.settle()

        run = load(run_id)
        assert (run.state, run.sentence) == (RunState.FAILED, "The trainer could not be started.")


class TestFollowing:
    def test_it_shows_how_far_its_machine_is(self, world: World, run_id: UUID) -> None:
        world.settle()
        seen = []
        for phase in (Phase.PREPARING, Phase.TRAINING, Phase.PACKAGING):
            world.says(phase)
            world.settle(4)
            seen.append(load(run_id).state)

        assert seen == [RunState.PREPARING, RunState.TRAINING, RunState.PACKAGING]

    def test_a_lost_machine_is_followed_by_one_more_attempt_after_it_is_proved_gone(
        self, world: World, run_id: UUID
    ) -> None:
        world.settle()
        world.says(Phase.TRAINING)
        world.settle(4)
        world.vanishes()
        world.settle()

        assert world.provider.asked == [f"tune-{run_id}", f"tune-{run_id}-2"]
        first, second = world.machines()
        assert first.state is MachineState.RELEASED
        assert first.released_at is not None
        assert second.created_at >= first.released_at
        job = (world.volume / f"runs/{run_id}/in/2/job.json").read_text()
        assert f"runs/{run_id}/out/1" in job, "the second attempt may read the first one's checkpoints"

    def test_a_second_loss_fails_it_and_gives_the_machine_back(self, world: World, run_id: UUID) -> None:
        for _ in range(2):
            world.settle()
            world.says(Phase.TRAINING)
            world.settle(4)
            world.vanishes()
        world.settle()

        assert load(run_id).state is RunState.FAILED
        assert len(world.provider.asked) == 2
        assert {machine.state for machine in world.machines()} == {MachineState.RELEASED}

    def test_a_trainers_failure_ends_it_with_reason_and_advice(self, world: World, run_id: UUID) -> None:
        world.settle()
        world.ends(Outcome.FAILED, failure=Failure("not_finite", "The loss was not finite.", "Lower the rate."))
        world.settle()

        run = load(run_id)
        assert (run.state, run.sentence) == (RunState.FAILED, "The loss was not finite. Lower the rate.")
        assert world.provider.machines == {}

    def test_at_its_deadline_it_needs_recovery_whatever_the_machine_says(self, world: World, run_id: UUID) -> None:
        world.settle()
        world.says(Phase.TRAINING)
        world.settle(4)
        world.clock.advance(hours=6)
        world.settle()

        assert load(run_id).state is RunState.NEEDS_RECOVERY
        assert world.provider.machines == {}

    def test_an_adapter_that_was_torn_on_the_way_is_not_taken(self, world: World, run_id: UUID) -> None:
        world.settle()
        world.ends_with_adapter(torn=True)
        world.settle()

        assert load(run_id).state is RunState.NEEDS_RECOVERY
        with reading() as session:
            assert session.exec(select(Adapter)).all() == []

    @pytest.mark.parametrize("phase", [None, Phase.PREPARING, Phase.TRAINING, Phase.PACKAGING])
    def test_a_cancel_gives_the_machine_back_at_once(
        self, world: World, run_id: UUID, caller: Caller, phase: Phase | None
    ) -> None:
        world.settle()
        if phase is not None:
            world.says(phase)
            world.settle(4)

        with unit_of_work() as session:
            runs.cancel_run(session, caller, run_id)
        world.settle()

        assert load(run_id).state is RunState.CANCELLED
        assert world.provider.machines == {}
        assert world.machines()[-1].state is MachineState.RELEASED


class TestJudging:
    @pytest.fixture(autouse=True)
    def ready(self, world: World, run_id: UUID) -> None:
        world.settle()
        world.ends_with_adapter()
        world.settle()
        assert load(run_id).state is RunState.EVALUATING

    def test_the_adapter_is_kept_and_scored_on_a_machine_of_its_own(self, world: World, run_id: UUID) -> None:
        with reading() as session:
            adapter = session.exec(select(Adapter)).one()
        evaluation_id = load(run_id).evaluation_id

        assert adapter.zip_key is not None
        assert store().size(adapter.zip_key)
        assert world.provider.asked == [f"tune-{run_id}", f"eval-{evaluation_id}"]

    def test_better_beyond_doubt_completes_it(self, world: World, run_id: UUID) -> None:
        world.ends_with_answers(exact=lambda row: row % 10 != 0)
        world.settle()

        run = load(run_id)
        assert run.state is RunState.COMPLETED
        with reading() as session:
            evaluation = session.get_one(Evaluation, run.evaluation_id)
        assert evaluation.verdict is not None
        assert evaluation.verdict["passed"] is True
        assert {machine.state for machine in world.machines()} == {MachineState.RELEASED}

    def test_no_better_ends_as_no_gain(self, world: World, run_id: UUID) -> None:
        world.ends_with_answers(exact=lambda row: False)
        world.settle()

        assert load(run_id).state is RunState.NO_GAIN

    def test_a_cancelled_evaluation_leaves_the_adapter_and_is_not_begun_again(
        self, world: World, run_id: UUID, caller: Caller
    ) -> None:
        with unit_of_work() as session:
            runs.cancel_run(session, caller, run_id)
        world.settle()

        assert load(run_id).state is RunState.ADAPTER_READY
        assert len(world.provider.asked) == 2

    def test_answers_that_differ_from_their_hash_fail_the_evaluation(self, world: World, run_id: UUID) -> None:
        world.ends_with_answers(exact=lambda row: True)
        machine = world.machines()[-1]
        (world.volume / machine.outputs_key / ANSWERS).write_text("")
        world.settle()

        assert load(run_id).state is RunState.ADAPTER_READY
        with reading() as session:
            assert session.get_one(Evaluation, load(run_id).evaluation_id).state is EvaluationState.FAILED

    def test_a_lost_evaluation_is_begun_again_once(self, world: World, run_id: UUID) -> None:
        evaluation_id = load(run_id).evaluation_id
        world.vanishes()
        world.settle()
        world.ends_with_answers(exact=lambda row: True)
        world.settle()

        assert world.provider.asked[1:] == [f"eval-{evaluation_id}", f"eval-{evaluation_id}-2"]
        assert load(run_id).state is RunState.COMPLETED


def test_every_hint_twice_changes_nothing(world: World, run_id: UUID) -> None:
    for _ in range(12):
        world.clock.advance(seconds=2)
        for claim in claim_due():
            broker.perform(claim.kind, str(claim.subject_id))
            broker.perform(claim.kind, str(claim.subject_id))

    assert world.provider.asked == [f"tune-{run_id}"]
