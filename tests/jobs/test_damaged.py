"""A network volume that lost or damaged what a machine wrote: the run and the evaluation say so, and nothing goes on costing."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from sqlmodel import select

from tensorant_app.db.runs import Adapter, Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import AuthFailed, Transient
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.members import Caller
from tensorant_app.domain.runs import RunReason, RunState
from tensorant_app.providers.storage_s3 import S3Store
from tensorant_app.services import recoveries
from tests.jobs.test_evaluations import baseline_id, row
from tests.jobs.test_recoveries import act
from tests.jobs.test_runs import World, caller, load, run_id, world
from tests.providers.volumes import volume_of
from tests.runpod_emulator import Emulator
from trainer.contract import ANSWERS, MANIFEST, Outcome, Phase, seal_folder

__all__ = ["baseline_id", "caller", "run_id", "world"]


@pytest.fixture(autouse=True)
def volume(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    """The trainer's files lie in a bucket."""
    emulator = Emulator(tmp_path / "runpod")
    store = volume_of(emulator, tmp_path / "cache")
    for module in ("jobs.machines", "jobs.evaluations", "tensorant_app.services.training"):
        monkeypatch.setattr(f"{module}.volume_for", lambda *given: store)
    world.volume = emulator.volume.folder
    return store


def adapter_folder(world: World, run_id: UUID, attempt: int = 1) -> Path:
    return world.volume / f"runs/{run_id}/adapter/{attempt}"


DAMAGES = {
    "another content": lambda folder: (folder / "adapter_config.json").write_text("{ }"),
    "a missing file": lambda folder: (folder / "adapter_config.json").unlink(),
    "a torn manifest": lambda folder: (folder / MANIFEST).write_text('{"files": {'),
    "a manifest that is a list": lambda folder: (folder / MANIFEST).write_text("[]"),
    "a manifest of words": lambda folder: (folder / MANIFEST).write_text('{"files": {"a": "b"}}'),
    "a manifest that leads elsewhere": lambda folder: (folder / MANIFEST).write_text(
        '{"files": {"../../x": {"sha256": "a", "bytes": 1}}}'
    ),
    "no manifest": lambda folder: (folder / MANIFEST).unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_an_adapter_that_does_not_match_its_manifest_needs_recovery_and_its_machine_goes(
    world: World, run_id: UUID, damage: object
) -> None:
    assert callable(damage)
    world.settle()
    world.ends_with_adapter()
    damage(adapter_folder(world, run_id))
    world.settle()

    run = load(run_id)
    assert (run.state, run.reason) == (RunState.NEEDS_RECOVERY, RunReason.ADAPTER_UNVERIFIED)
    assert world.machines()[-1].state is MachineState.RELEASED
    with reading() as session:
        assert session.exec(select(Adapter)).all() == []


@pytest.fixture
def recovering(world: World, run_id: UUID) -> UUID:
    """Its adapter is damaged, and its machine is gone."""
    world.settle()
    world.ends_with_adapter()
    (adapter_folder(world, run_id) / "adapter_config.json").write_text("{ }")
    world.settle()
    assert load(run_id).state is RunState.NEEDS_RECOVERY
    return run_id


def test_verifying_goes_on_to_an_earlier_attempt_that_is_whole(world: World, recovering: UUID, caller: Caller) -> None:
    seal_folder(adapter_folder(world, recovering))
    second = adapter_folder(world, recovering, 2)
    second.mkdir()
    (second / "adapter_config.json").write_text("{}")
    seal_folder(second)
    (second / "adapter_config.json").unlink()
    with unit_of_work() as session:
        session.get_one(Run, recovering).attempt = 2
    act(recoveries.verify_run, caller, recovering)
    world.settle(2)

    assert load(recovering).state in {RunState.ADAPTER_READY, RunState.EVALUATING}
    with reading() as session:
        assert session.exec(select(Adapter)).one().attempt == 1


def test_verifying_where_nothing_is_whole_says_so(world: World, recovering: UUID, caller: Caller) -> None:
    act(recoveries.verify_run, caller, recovering)
    world.settle(2)

    run = load(recovering)
    assert (run.state, run.reason, run.verify_wanted_at) == (RunState.NEEDS_RECOVERY, RunReason.NOT_FOUND, None)


def test_a_copy_here_that_was_damaged_is_fetched_anew(
    world: World, recovering: UUID, caller: Caller, volume: S3Store, tmp_path: Path
) -> None:
    folder = adapter_folder(world, recovering)
    seal_folder(folder)
    key = f"runs/{recovering}/adapter/1"
    volume.fetch(key)
    (tmp_path / "cache" / key / "adapter_config.json").write_text("[ ]")
    act(recoveries.verify_run, caller, recovering)
    world.settle(2)

    assert load(recovering).state in {RunState.ADAPTER_READY, RunState.EVALUATING}


TROUBLES = [AuthFailed("RunPod does not accept the S3 key."), Transient("The volume broke off.")]


@pytest.mark.parametrize("trouble", TROUBLES, ids=["key", "passing"])
def test_a_volume_that_stays_unreadable_keeps_no_machine_of_a_finished_run(
    world: World, run_id: UUID, trouble: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settle()
    world.ends_with_adapter()

    def refuse(self: S3Store, key: str) -> Path:
        raise trouble

    with monkeypatch.context() as patch:
        patch.setattr(S3Store, "fetch", refuse)
        world.settle()
        assert load(run_id).sentence == f"{trouble} It is tried again."
        for _ in range(20):
            world.clock.advance(minutes=1)
            world.settle(1)

        run = load(run_id)
        assert (run.state, run.sentence) == (
            RunState.NEEDS_RECOVERY,
            f"{trouble} The adapter is finished: verify it when that is mended.",
        )
        assert world.machines()[-1].state is MachineState.RELEASED


@pytest.mark.parametrize("trouble", TROUBLES, ids=["key", "passing"])
def test_a_verification_that_cannot_read_the_volume_ends_with_its_reason(
    world: World, recovering: UUID, caller: Caller, trouble: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: S3Store, key: str) -> Path:
        raise trouble

    monkeypatch.setattr(S3Store, "fetch", refuse)
    act(recoveries.verify_run, caller, recovering)
    world.settle()
    assert load(recovering).sentence == f"{trouble} It is tried again."
    for _ in range(20):
        world.clock.advance(minutes=1)
        world.settle(1)

    run = load(recovering)
    assert (run.state, run.verify_wanted_at) == (RunState.NEEDS_RECOVERY, None)
    assert run.sentence == f"{trouble} Verify the adapter again when that is mended."


def test_a_lost_run_whose_last_words_cannot_be_read_waits_and_then_needs_recovery(
    world: World, run_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settle()
    world.says(Phase.TRAINING)
    world.settle(4)

    def refuse(self: S3Store, key: str) -> int | None:
        raise AuthFailed("RunPod does not accept the S3 key.")

    monkeypatch.setattr(S3Store, "size", refuse)
    world.clock.at = world.machines()[-1].deadline
    world.settle(40)
    assert load(run_id).state is RunState.TRAINING, "it may have finished"
    for _ in range(20):
        world.clock.advance(minutes=1)
        world.settle(1)

    assert load(run_id).state is RunState.NEEDS_RECOVERY
    assert world.machines()[-1].state is MachineState.RELEASED


class TestEvaluations:
    @pytest.mark.parametrize("is_missing", [True, False])
    def test_answers_that_are_not_there_or_not_whole_end_it(
        self, world: World, baseline_id: UUID, is_missing: bool
    ) -> None:
        world.settle()
        world.ends_with_answers(exact=lambda number: True)
        path = world.volume / world.machines()[-1].outputs_key / ANSWERS
        if is_missing:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-10])
        world.settle()

        assert row(baseline_id).state is EvaluationState.FAILED
        assert row(baseline_id).sentence == "The answers do not match their hash. Evaluate again."
        assert world.machines()[-1].state is MachineState.RELEASED

    @pytest.mark.parametrize("key", ["../../elsewhere", "evaluations/another/out/1/answers.jsonl", "a b"])
    def test_answers_are_taken_from_its_own_folder_alone(self, world: World, baseline_id: UUID, key: str) -> None:
        world.settle()
        world.ends(Outcome.DONE, answers=key, answers_sha256="0" * 64, scores={})
        world.settle()

        assert row(baseline_id).state is EvaluationState.FAILED

    @pytest.mark.parametrize("trouble", TROUBLES, ids=["key", "passing"])
    def test_a_volume_that_stays_unreadable_ends_it_with_the_reason(
        self, world: World, baseline_id: UUID, trouble: Exception, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.settle()
        world.ends_with_answers(exact=lambda number: True)

        def refuse(self: S3Store, key: str) -> Path:
            raise trouble

        monkeypatch.setattr(S3Store, "fetch", refuse)
        world.settle()
        assert row(baseline_id).sentence == f"{trouble} It is tried again."
        for _ in range(20):
            world.clock.advance(minutes=1)
            world.settle(1)

        assert row(baseline_id).state is EvaluationState.FAILED
        assert row(baseline_id).sentence == f"{trouble} Evaluate again when that is mended."
        assert world.machines()[-1].state is MachineState.RELEASED
