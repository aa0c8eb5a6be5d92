"""A baseline's job: one machine asked for, its answers taken once and only whole, and an end for every way it can go."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from uuid import UUID

import pytest
from sqlmodel import select

from jobs import broker
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.promise import Promise, claim_due
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Denied, NotFound
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.machines import MachineState, Presence
from tensorant_app.domain.members import Caller, operator
from tensorant_app.providers.base import MachineRequest
from tensorant_app.services import evaluations
from tests import factories
from tests.conftest import Clock
from tests.jobs.test_runs import World, world
from trainer.contract import ANSWERS, EvaluateJob, Failure, Outcome, Phase, load

__all__ = ["world"]


@pytest.fixture
def caller(world: World) -> Caller:
    return factories.make_caller()


@pytest.fixture
def baseline_id(caller: Caller) -> UUID:
    assert caller.organization_id is not None
    with unit_of_work() as session:
        project = factories.make_project(session, caller.organization_id)
        version = factories.make_version(session, project)
        return evaluations.create_baseline(session, caller, version.id)


def row(evaluation_id: UUID) -> Evaluation:
    with reading() as session:
        return session.get_one(Evaluation, evaluation_id)


def promised(kind: str) -> list[UUID]:
    with reading() as session:
        return list(session.exec(select(Promise.subject_id).where(Promise.kind == kind)))


class TestStarting:
    def test_it_asks_one_machine_and_gives_it_the_test_rows_alone(self, world: World, baseline_id: UUID) -> None:
        world.settle()

        assert row(baseline_id).state is EvaluationState.LAUNCHING
        assert world.provider.asked == [f"eval-{baseline_id}"]
        assert [path.name for path in world.volume.rglob("*.parquet")] == ["test.parquet"]
        job = load(EvaluateJob, (world.volume / f"evaluations/{baseline_id}/in/1/job.json").read_text())
        assert (job.adapter, job.labels) == (None, ("no", "yes"))
        assert job.context_length >= factories.REPORT["mask"]["longest"] + job.max_new_tokens

    def test_a_vanished_base_fails_it_before_anything_is_asked(
        self, world: World, baseline_id: UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def gone(repo_id: str, revision: str) -> None:
            raise NotFound("The base model is not on this computer. Bring its folder back.")

        monkeypatch.setattr("tensorant_app.services.places.find_base", gone)

        world.settle()

        found = row(baseline_id)
        assert (found.state, found.sentence) == (
            EvaluationState.FAILED,
            "The base model is not on this computer. Bring its folder back.",
        )
        assert world.provider.asked == []
        assert promised(evaluations.REACT) == []

    def test_a_full_disk_fails_it_before_anything_is_asked(
        self, world: World, baseline_id: UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)

        world.settle()

        found = row(baseline_id)
        assert found.state is EvaluationState.FAILED
        assert found.sentence is not None
        assert "No space left on device. Free some space" in found.sentence
        assert world.provider.asked == []
        assert [path for path in world.volume.rglob("*") if path.is_file()] == []

    def test_a_refusal_by_the_provider_fails_it_in_its_words(self, world: World, baseline_id: UUID) -> None:
        def deny(request: MachineRequest) -> None:
            raise Denied("The trainer could not be started.")

        world.provider.before_create = deny

        world.settle()

        assert (row(baseline_id).state, row(baseline_id).sentence) == (
            EvaluationState.FAILED,
            "The trainer could not be started.",
        )


class TestFollowing:
    @pytest.fixture(autouse=True)
    def started(self, world: World, baseline_id: UUID) -> None:
        world.settle()

    def test_its_answers_are_stored_before_it_is_completed(self, world: World, baseline_id: UUID) -> None:
        world.says(Phase.EVALUATING)
        world.settle(4)
        assert row(baseline_id).state is EvaluationState.RUNNING

        world.ends_with_answers(exact=lambda number: number % 2 == 0)
        world.settle()

        found = row(baseline_id)
        assert found.state is EvaluationState.COMPLETED
        assert found.scores == {"exact_match": 0.5, "token_f1": 0.5, "likelihood": 0.5}
        answers = evaluations.read_answers(baseline_id)
        assert [answer.row for answer in answers] == list(range(1, 61))
        assert [score.exact for score in evaluations.scores_of(answers)][:2] == [False, True]
        assert world.machines()[-1].state is MachineState.RELEASED
        assert promised(evaluations.REACT) == []

    def test_answers_that_were_cut_on_the_way_fail_it(self, world: World, baseline_id: UUID) -> None:
        world.ends_with_answers(exact=lambda number: True)
        path = world.volume / world.machines()[-1].outputs_key / ANSWERS
        path.write_bytes(path.read_bytes()[:-10])
        world.settle()

        assert row(baseline_id).state is EvaluationState.FAILED
        assert row(baseline_id).sentence == "The answers do not match their hash. Evaluate again."
        assert row(baseline_id).scores is None

    def test_a_trainers_failure_ends_it_in_its_words(self, world: World, baseline_id: UUID) -> None:
        world.ends(Outcome.FAILED, failure=Failure("no_template", "There is no chat template.", "Choose another."))
        world.settle()

        assert (row(baseline_id).state, row(baseline_id).sentence) == (
            EvaluationState.FAILED,
            "There is no chat template. Choose another.",
        )

    def test_at_its_deadline_it_fails_and_gives_its_machine_back(self, world: World, baseline_id: UUID) -> None:
        world.says(Phase.EVALUATING)
        world.settle(4)
        world.clock.advance(hours=2)
        world.settle()

        assert row(baseline_id).state is EvaluationState.FAILED
        assert world.provider.machines == {}

    def test_it_is_lost_once_and_fails_the_second_time(self, world: World, baseline_id: UUID) -> None:
        for _ in range(2):
            world.says(Phase.EVALUATING)
            world.settle(4)
            world.vanishes()
            world.settle()

        assert row(baseline_id).state is EvaluationState.FAILED
        assert len(world.provider.asked) == 2

    @pytest.mark.parametrize("who", ["member", "operator"])
    def test_a_cancel_gives_the_machine_back_at_once(
        self, world: World, baseline_id: UUID, caller: Caller, who: str
    ) -> None:
        with unit_of_work() as session:
            evaluations.cancel_evaluation(session, caller if who == "member" else operator(), baseline_id)
        world.settle()

        assert row(baseline_id).state is EvaluationState.CANCELLED
        assert world.provider.machines == {}

    def test_answers_that_come_after_a_cancel_change_nothing(
        self, world: World, baseline_id: UUID, caller: Caller
    ) -> None:
        with unit_of_work() as session:
            evaluations.cancel_evaluation(session, caller, baseline_id)
        world.ends_with_answers(exact=lambda number: True)
        world.settle()

        assert row(baseline_id).state is EvaluationState.CANCELLED
        assert row(baseline_id).scores is None


def test_every_hint_twice_asks_once_and_takes_the_answers_once(
    world: World, baseline_id: UUID, clock: Clock, tmp_path: Path
) -> None:
    def settle_twice() -> None:
        for _ in range(12):
            clock.advance(seconds=2)
            for claim in claim_due():
                broker.perform(claim.kind, str(claim.subject_id))
                broker.perform(claim.kind, str(claim.subject_id))

    settle_twice()
    world.ends_with_answers(exact=lambda number: True)
    settle_twice()

    assert world.provider.asked == [f"eval-{baseline_id}"]
    assert row(baseline_id).state is EvaluationState.COMPLETED
    assert Presence.PRESENT not in world.provider.machines.values()
