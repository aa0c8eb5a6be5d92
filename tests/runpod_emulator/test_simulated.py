"""The trainer by the clock: what it writes, what it hears, and what it does when it is started again."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.runpod_emulator import Account, Fault, Pod, Script, VirtualClock, World
from tests.runpod_emulator.conftest import pod_body
from tests.runpod_emulator.jobs import BASE, RUN, command, result_of, say, stage, status_of
from trainer.contract import (
    EVENTS,
    JOB,
    METRICS,
    Answer,
    Ask,
    AttemptKeys,
    EvaluateJob,
    Failure,
    Outcome,
    Phase,
    dump,
    hash_file,
    load_lines,
    verify_folder,
)
from trainer.contract import Result as Result
from trainer.contract import load as load

KEYS = AttemptKeys.of("runs", RUN, 1)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def world(tmp_path: Path, script: Script) -> World:
    return World(tmp_path, start=script.start)


@pytest.fixture
def account(world: World) -> Account:
    return world.add_account()


@pytest.fixture
def clock(world: World) -> VirtualClock:
    assert isinstance(world.clock, VirtualClock)
    return world.clock


@pytest.fixture
def volume(account: Account) -> Path:
    return account.things.volumes()[0].folder


def launch(account: Account, volume: Path, *, attempt: int = 1, name: str = "tune-1", **job: object) -> Pod:
    key = stage(volume, attempt=attempt, machine=name, **job)
    return account.create(pod_body(name, cmd=command(key)))


def test_a_whole_run_leaves_what_the_real_trainer_leaves(
    world: World, account: Account, clock: VirtualClock, volume: Path
) -> None:
    pod = launch(account, volume)

    phases = []
    for _ in range(8):
        clock.advance(minutes=1, seconds=30)
        world.tick()
        phases.append(status_of(volume).phase)

    result = result_of(volume)
    assert phases == sorted(phases, key=list(Phase).index)
    assert {Phase.TRAINING, Phase.ENDED} <= set(phases)
    assert (result.outcome, result.step, result.adapter, result.machine) == (Outcome.DONE, 30, KEYS.adapter, "tune-1")
    assert verify_folder(volume / KEYS.adapter).facts["step"] == 30
    assert len((volume / KEYS.outputs / METRICS).read_text().splitlines()) == 30
    assert json.loads((volume / KEYS.outputs / EVENTS).read_text().splitlines()[0])["kind"] == "started"
    assert pod.status == "RUNNING"


def test_the_heartbeat_is_as_old_as_the_last_look(
    world: World, account: Account, clock: VirtualClock, volume: Path
) -> None:
    launch(account, volume)
    clock.advance(minutes=3)
    world.tick()

    status = status_of(volume)

    assert status.at == clock().isoformat(timespec="milliseconds")
    assert (status.phase, status.step) == (Phase.TRAINING, 8)


@pytest.mark.parametrize(("ask", "outcome"), [(Ask.STOP, Outcome.STOPPED), (Ask.PAUSE, Outcome.PAUSED)])
def test_it_hears_the_console_and_leaves_a_checkpoint(
    world: World, account: Account, clock: VirtualClock, volume: Path, ask: Ask, outcome: Outcome
) -> None:
    launch(account, volume)
    clock.advance(minutes=3)
    world.tick()

    say(volume, ask)
    clock.advance(seconds=6)
    world.tick()

    assert result_of(volume).outcome is outcome
    assert (volume / KEYS.outputs / "checkpoints" / "step-000008" / "manifest.json").exists()


def test_it_ends_itself_at_the_deadline(world: World, account: Account, clock: VirtualClock, volume: Path) -> None:
    launch(account, volume)
    say(volume, Ask.NONE, deadline=clock() + timedelta(minutes=4))

    clock.advance(minutes=10)
    world.tick()

    assert result_of(volume).outcome is Outcome.OVERRUN


def test_a_deaf_trainer_hears_nothing(
    world: World, account: Account, clock: VirtualClock, volume: Path, script: Script
) -> None:
    script.is_deaf = True
    launch(account, volume)
    say(volume, Ask.STOP, deadline=clock())

    clock.advance(minutes=10)
    world.tick()

    assert result_of(volume).outcome is Outcome.DONE


def test_the_next_attempt_goes_on_from_the_last_checkpoint(
    world: World, account: Account, clock: VirtualClock, volume: Path, script: Script
) -> None:
    account.faults.arm(Fault.HOST_LOST, seconds=240)
    launch(account, volume)
    clock.advance(minutes=5)
    world.tick()

    launch(account, volume, attempt=2, name="tune-1-2", resume_from=(KEYS.outputs,))
    clock.advance(minutes=10)
    world.tick()

    assert [(trained.attempt, trained.first, trained.last) for trained in script.trained] == [
        (1, 0, 14),
        (2, 10, 30),
    ]
    assert result_of(volume, 2).outcome is Outcome.DONE
    assert not (volume / KEYS.outputs / "result.json").exists()


def test_a_container_that_is_started_again_goes_on_where_it_was(
    world: World, account: Account, clock: VirtualClock, volume: Path
) -> None:
    account.faults.arm(Fault.RESTARTED, seconds=240)
    pod = launch(account, volume)

    clock.advance(minutes=12)
    world.tick()

    result = result_of(volume)
    assert (pod.boots, result.boot, result.outcome) == (2, 2, Outcome.DONE)


def test_a_finished_attempt_is_never_trained_again_by_an_exit_loop(
    world: World, account: Account, clock: VirtualClock, volume: Path, script: Script
) -> None:
    script.exits = True
    account.faults.arm(Fault.EXIT_LOOP)
    pod = launch(account, volume)
    clock.advance(minutes=9)
    world.tick()
    adapter = hash_file(volume / KEYS.adapter / "adapter_model.safetensors")

    clock.advance(minutes=1)
    world.tick()

    assert pod.boots > 5
    assert hash_file(volume / KEYS.adapter / "adapter_model.safetensors") == adapter
    assert len(script.trained) == 1


def test_without_a_hold_the_pod_is_exited(
    world: World, account: Account, clock: VirtualClock, volume: Path, script: Script
) -> None:
    script.exits = True
    pod = launch(account, volume)

    clock.advance(minutes=10)
    world.tick()

    assert pod.status == "EXITED"


@pytest.mark.parametrize(("fault", "code"), [(Fault.ZERO_GPUS, "no_gpu"), (Fault.OLD_GPU, "gpu_too_old")])
def test_a_machine_without_a_usable_gpu_fails_with_a_reason(
    world: World, account: Account, clock: VirtualClock, volume: Path, fault: Fault, code: str
) -> None:
    account.faults.arm(fault)
    launch(account, volume)

    clock.advance(minutes=2)
    world.tick()

    failure = result_of(volume).failure
    assert failure is not None
    assert failure.code == code


def test_a_script_may_fail(world: World, account: Account, clock: VirtualClock, volume: Path, script: Script) -> None:
    script.failure = Failure("out_of_memory", "Out of memory.", "Use a larger GPU.")
    launch(account, volume)

    clock.advance(minutes=10)
    world.tick()

    assert (result_of(volume).outcome, result_of(volume).failure) == (Outcome.FAILED, script.failure)


def test_a_trainer_that_nobody_releases_deletes_its_own_pod(
    world: World, account: Account, clock: VirtualClock, volume: Path, script: Script
) -> None:
    script.self_release = 1800
    account.faults.arm(Fault.SELF_DELETE_REFUSED)
    pod = launch(account, volume)

    clock.advance(minutes=45)
    world.tick()
    held = pod.ended is None
    clock.advance(minutes=30)
    world.tick()

    assert held
    assert pod.ended is not None
    assert any("403" in line.text for line in pod.logs.lines)


def test_an_evaluation_answers_every_test_row(
    world: World, account: Account, clock: VirtualClock, volume: Path
) -> None:
    rows = [
        {"row": i, "example": json.dumps({"messages": [{"role": "assistant", "content": f"w{i % 2}"}]})}
        for i in range(1, 21)
    ]
    (volume / "versions").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), volume / "versions" / "test.parquet")
    keys = AttemptKeys.of("evaluations", "e1", 1)
    job = EvaluateJob("e1", 1, "eval-e1", BASE, "versions/test.parquet", labels=("w0", "w1"))
    (volume / keys.inputs).mkdir(parents=True)
    (volume / keys.inputs / JOB).write_text(dump(job))
    command = ["evaluate", "--volume", ".", "--job", f"{keys.inputs}/{JOB}"]
    account.create(pod_body("eval-e1", cmd=command))

    clock.advance(minutes=5)
    world.tick()

    result = load(Result, (volume / keys.outputs / "result.json").read_text())
    assert result.answers is not None
    answers = list(load_lines(Answer, (volume / result.answers).read_text().splitlines(keepends=True)))
    assert result.answers_sha256 == hash_file(volume / result.answers).sha256
    assert [answer.row for answer in answers] == list(range(1, 21))
    assert result.scores["exact_match"] == 0.4


def test_a_job_that_is_not_there_ends_the_container(
    world: World, account: Account, clock: VirtualClock, volume: Path
) -> None:
    pod = account.create(pod_body())

    clock.advance(minutes=2)
    world.tick()

    assert pod.status == "EXITED"
    assert "cannot be read" in pod.logs.lines[-2].text
