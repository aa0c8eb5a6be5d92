"""Pods that are processes of this computer: their environment, their end, and the real trainer in one."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.runpod_emulator import Emulator, Pace, RealClock, RealTrainer
from tests.runpod_emulator.conftest import pod_body, s3_client
from tests.runpod_emulator.jobs import BASE, command, result_of, stage, status_of, write_splits
from trainer.contract import Base, Outcome, Phase, TrainOptions, hash_file, verify_folder

FAST = Pace(provision=0.1, pull=0.1, settle=0.1, restart=0.1, billing_lag=1)


def fake_python(folder: Path, script: str) -> Path:
    """A program to run in place of `python`, with `-m trainer …` as its arguments."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def emulator_with(folder: Path, script: str, *, holds: bool = True) -> Emulator:
    trainer = RealTrainer(fake_python(folder, script), holds=holds)
    return Emulator(folder / "runpod", clock=RealClock(), start=trainer.start, pace=FAST)


def wait_for(emulator: Emulator, condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "It did not happen."
        emulator.world.tick()
        time.sleep(0.02)


def test_a_program_finds_its_command_its_environment_and_its_secrets(tmp_path: Path) -> None:
    with emulator_with(tmp_path, 'echo "$@"; env | sort; pwd') as emulator:
        emulator.account.things.put_secret({"name": "hf", "value": "hf_private"})
        env = {"HF_TOKEN": "{{ RUNPOD_SECRET_hf }}", "TENSORANT_VOLUME": "/workspace"}
        pod = emulator.account.create(pod_body(env=env, cmd=command("runs/1/job.json")))

        wait_for(emulator, lambda: any("ended with code 0" in line for line in pod.logs.said("container")))
        said = pod.logs.said("container")
        shown = httpx.get(f"{emulator.api_url}/pods/{pod.id}", headers={"authorization": f"Bearer {emulator.key}"})

    volume = str(emulator.volume.folder)
    assert f"-m trainer train --volume {volume} --job runs/1/job.json" in said
    assert {f"TENSORANT_VOLUME={volume}", "HF_TOKEN=hf_private", f"RUNPOD_POD_ID={pod.id}", volume} <= set(said)
    assert f"RUNPOD_API_URL={emulator.api_url}" in said
    assert "hf_private" not in shown.text


def test_without_a_hold_the_programs_end_is_the_pods(tmp_path: Path) -> None:
    with emulator_with(tmp_path, "exit 3", holds=False) as emulator:
        pod = emulator.account.create(pod_body())

        wait_for(emulator, lambda: pod.status == "EXITED")

    assert "container ended with code 3" in pod.logs.said("system")


@pytest.mark.parametrize("how", ["delete", "stop"])
def test_a_deleted_or_stopped_pods_process_group_is_gone(tmp_path: Path, how: str) -> None:
    with emulator_with(tmp_path, "sleep 300 & echo child $!; wait") as emulator:
        pod = emulator.account.create(pod_body())
        wait_for(emulator, lambda: any(line.startswith("child") for line in pod.logs.said("container")))
        child = int(next(line for line in pod.logs.said("container") if line.startswith("child")).split()[1])

        emulator.account.delete(pod.id) if how == "delete" else emulator.account.act(pod.id, "stop")

        wait_for(emulator, lambda: not _runs(child))


def test_the_job_file_is_read_with_the_mounts_paths_as_they_are_here(tmp_path: Path) -> None:
    with emulator_with(tmp_path, 'while [ "$1" != --job ]; do shift; done; cat "$2"') as emulator:
        key = stage(emulator.volume.folder)
        pod = emulator.account.create(pod_body(cmd=command(key)))

        wait_for(emulator, lambda: any(line.startswith("{") for line in pod.logs.said("container")))
        read = json.loads(next(line for line in pod.logs.said("container") if line.startswith("{")))

    assert read["base"]["folder"] == f"{emulator.volume.folder}/bases/tiny"


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Emulator]:
    trainer = RealTrainer(Path(sys.executable), threads=1)
    with Emulator(tmp_path, clock=RealClock(), start=trainer.start, pace=FAST) as emulator:
        yield emulator


@pytest.mark.slow
def test_the_real_trainer_trains_in_a_pod_and_its_adapter_comes_back_over_s3(
    training: Emulator, tiny_base: Base, tmp_path: Path
) -> None:
    volume = training.volume.folder
    write_splits(volume / "versions" / "v", rows=16)
    shutil.copytree(tiny_base.folder, volume / "bases" / "tiny")
    base = replace(tiny_base, folder=BASE.folder)
    options = TrainOptions(epochs=1, micro_batch_size=4, accumulation=1, context_length=256)
    key = stage(volume, base=base, options=options)
    pod = training.account.create(pod_body(cmd=command(key)))

    wait_for(training, lambda: (volume / "runs/run-1/out/1/result.json").exists(), seconds=240)
    result = result_of(volume)
    s3 = s3_client(training)
    entries = verify_folder(volume / "runs/run-1/adapter/1").files
    for name in entries:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        s3.download_file(training.volume.id, f"{result.adapter}/{name}", str(tmp_path / name))
    s3.close()
    training.account.delete(pod.id)

    assert (result.outcome, result.machine) == (Outcome.DONE, "tune-1")
    assert status_of(volume).phase is Phase.ENDED
    assert {name: hash_file(tmp_path / name) for name in entries} == dict(entries)
    assert training.bill(pod) > 0


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z" and os.path.exists(f"/proc/{pid}")
