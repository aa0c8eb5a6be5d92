"""Pods that are processes of this computer: their environment, their end, and the real trainer in one."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psutil
import pytest

from tensorant_app.providers.storage import FolderStore
from tensorant_app.services.bases import stage_base
from tests.runpod_emulator import Emulator, Fault, Pace, RealClock, RealTrainer
from tests.runpod_emulator.conftest import pod_body, s3_client
from tests.runpod_emulator.jobs import command, result_of, say, stage, status_of, write_splits
from trainer.contract import Ask, Base, Outcome, Phase, TrainOptions, hash_file, verify_folder

FAST = Pace(provision=0.1, pull=0.1, settle=0.1, restart=0.1, billing_lag=1)


def fake_python(folder: Path, script: str) -> Path:
    """A program to run in place of `python`, with `-m trainer.boot …` as its arguments."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def emulator_with(folder: Path, script: str) -> Emulator:
    trainer = RealTrainer(fake_python(folder, script))
    return Emulator(folder / "runpod", clock=RealClock(), start=trainer.start, pace=FAST)


def wait_for(emulator: Emulator, condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, [
            line.text for pod in emulator.pods.values() for line in pod.logs.lines[-20:]
        ]
        emulator.world.tick()
        time.sleep(0.02)


def test_a_program_finds_its_command_its_environment_its_secrets_and_its_gpus(tmp_path: Path) -> None:
    with emulator_with(tmp_path, 'echo "$@"; env | sort; pwd; nvidia-smi') as emulator:
        emulator.account.things.put_secret({"name": "hf", "value": "hf_private"})
        env = {"HF_TOKEN": "{{ RUNPOD_SECRET_hf }}", "TENSORANT_VOLUME": "/workspace"}
        two = {"id": "NVIDIA L40S", "count": 2}
        pod = emulator.account.create(pod_body(env=env, gpu=two, cmd=command("runs/1/job.json")))

        wait_for(emulator, lambda: pod.status == "EXITED")
        said = pod.logs.said("container")
        shown = httpx.get(f"{emulator.api_url}/pods/{pod.id}", headers={"authorization": f"Bearer {emulator.key}"})

    volume = str(emulator.volume.folder)
    assert f"-m trainer.boot train --volume {volume} --job runs/1/job.json" in said
    assert {f"TENSORANT_VOLUME={volume}", "HF_TOKEN=hf_private", f"RUNPOD_POD_ID={pod.id}", volume} <= set(said)
    assert f"RUNPOD_API_URL={emulator.api_url}" in said
    assert said.count("NVIDIA L40S, 8.9") == 2
    assert "hf_private" not in shown.text


def test_the_programs_end_is_the_pods(tmp_path: Path) -> None:
    with emulator_with(tmp_path, "exit 3") as emulator:
        pod = emulator.account.create(pod_body())

        wait_for(emulator, lambda: pod.status == "EXITED")

    assert "container ended with code 3" in pod.logs.said("system")


@pytest.mark.parametrize("how", ["delete", "stop"])
def test_everything_that_a_deleted_or_stopped_pod_started_is_gone(tmp_path: Path, how: str) -> None:
    with emulator_with(tmp_path, "setsid sleep 300 & echo child $!; wait") as emulator:
        pod = emulator.account.create(pod_body())
        wait_for(emulator, lambda: any(line.startswith("child") for line in pod.logs.said("container")))
        child = int(next(line for line in pod.logs.said("container") if line.startswith("child")).split()[1])

        emulator.account.delete(pod.id) if how == "delete" else emulator.account.act(pod.id, "stop")

        wait_for(emulator, lambda: not psutil.pid_exists(child))


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Emulator]:
    trainer = RealTrainer(Path(sys.executable), threads=1)
    with Emulator(tmp_path, clock=RealClock(), start=trainer.start, pace=FAST) as emulator:
        yield emulator


def test_the_images_own_boot_refuses_a_machine_without_gpus_and_stays_up(training: Emulator) -> None:
    volume = training.volume.folder
    training.faults.arm(Fault.ZERO_GPUS)
    env = {"TENSORANT_GPU_COUNT": "1"}
    pod = training.account.create(pod_body(env=env, cmd=command(stage(volume))))

    wait_for(training, lambda: (volume / "runs/run-1/out/1/result.json").exists())

    failure = result_of(volume).failure
    assert failure is not None
    assert (failure.code, pod.status) == ("no_gpu", "RUNNING")


@pytest.mark.slow
def test_the_real_trainer_trains_in_a_pod_and_its_adapter_comes_back_over_s3(
    training: Emulator, tiny_base: Base, tmp_path: Path
) -> None:
    volume = training.volume.folder
    write_splits(volume / "versions" / "v", rows=16)
    base = stage_base(FolderStore(volume), tiny_base)
    options = TrainOptions(epochs=1, micro_batch_size=4, accumulation=1, context_length=256)
    key = stage(volume, base=base, options=options)
    pod = training.account.create(pod_body(cmd=command(key)))

    wait_for(training, lambda: (volume / "runs/run-1/out/1/result.json").exists(), seconds=240)
    wait_for(training, lambda: status_of(volume).phase is Phase.ENDED)
    result = result_of(volume)
    s3 = s3_client(training)
    entries = verify_folder(volume / "runs/run-1/adapter/1").files
    for name in entries:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        s3.download_file(training.volume.id, f"{result.adapter}/{name}", str(tmp_path / name))
    s3.close()

    assert (result.outcome, result.machine, pod.status) == (Outcome.DONE, "tune-1", "RUNNING")
    assert {name: hash_file(tmp_path / name) for name in entries} == dict(entries)
    assert training.bill(pod) > 0


@pytest.mark.slow
def test_the_trainers_own_stop_ends_training_and_machine_without_console_and_sweep(
    training: Emulator, tiny_base: Base
) -> None:
    """Nobody looks at the machine and nobody lists the account: only what was written when it was asked is there."""
    volume = training.volume.folder
    write_splits(volume / "versions" / "v", rows=16)
    options = TrainOptions(epochs=100_000, micro_batch_size=4, accumulation=1, context_length=256)
    key = stage(volume, base=stage_base(FolderStore(volume), tiny_base), options=options)
    say(volume, Ask.NONE, deadline=datetime.now(UTC) + timedelta(hours=1))
    pod = training.account.create(pod_body(cmd=command(key), env={"TENSORANT_RELEASE_AFTER": "1"}))
    wait_for(training, lambda: is_at_step(volume, 2), seconds=240)
    say(volume, Ask.NONE, deadline=datetime.now(UTC) + timedelta(seconds=1), seq=2)

    wait_for(training, lambda: pod.ended is not None, seconds=120)

    result = result_of(volume)
    assert result.outcome is Outcome.OVERRUN
    assert 2 <= status_of(volume).step < result.total_steps
    assert list((volume / "runs/run-1/out/1").rglob("adapter_model.safetensors")), "its last step is kept"
    assert training.account.alive() == []


def is_at_step(volume: Path, step: int) -> bool:
    try:
        return status_of(volume).step >= step
    except FileNotFoundError:
        return False
