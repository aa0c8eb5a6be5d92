"""The main job with real processes, while everything around it is killed; its training once more in peace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from sqlmodel import select

from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Run, RunEvent
from tensorant_app.db.session import reading
from tensorant_app.domain.machines import MachineState, Use
from tensorant_app.domain.runs import RunState
from tensorant_app.services.demo import Outcome, walk
from tests.whole.installation import Installation, Trouble, tiny_recipe
from trainer.contract import JOB, METRICS, AttemptKeys, Base

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EPOCHS = 15
ENDS = {RunState.COMPLETED, RunState.NO_GAIN}


def weights(outcome: Outcome, folder: Path) -> dict[str, np.ndarray]:
    assert outcome.adapter_zip is not None
    with zipfile.ZipFile(outcome.adapter_zip) as archive:
        assert archive.testzip() is None
        archive.extract("adapter_model.safetensors", folder)
    return load_file(folder / "adapter_model.safetensors")


def metrics_of(installation: Installation, outcome: Outcome) -> dict[int, list[dict[str, float]]]:
    """Attempt → a line for each optimizer step that it made, in order."""
    found = {}
    for path in sorted(installation.settings.volume_dir.glob(f"runs/{outcome.run_id}/out/*/{METRICS}")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found[int(path.parent.name)] = [line for line in lines if "loss" in line]
    return found


def steps_of(installation: Installation, outcome: Outcome) -> dict[int, list[int]]:
    return {
        attempt: [int(line["step"]) for line in lines] for attempt, lines in metrics_of(installation, outcome).items()
    }


def machines_of(use: Use) -> list[Machine]:
    with reading() as session:
        return list(session.exec(select(Machine).where(Machine.use == use)))


def wait_until_given_back(seconds: float = 60) -> None:
    give_up_at = time.monotonic() + seconds
    while any(m.state is not MachineState.RELEASED for use in Use for m in machines_of(use)):
        assert time.monotonic() < give_up_at, "A machine was not given back."
        time.sleep(0.2)


def train_in_peace(installation: Installation, outcome: Outcome, folder: Path) -> tuple[list[float], Path]:
    """The first attempt's job by the trainer alone, on what lay on the volume before it; its losses and its adapter."""
    volume, keys = folder / "volume", AttemptKeys.of(Use.RUN.plural, str(outcome.run_id), 1)
    shutil.copytree(installation.settings.volume_dir, volume, ignore=shutil.ignore_patterns("out", "adapter"))
    command = [sys.executable, "-m", "trainer", "train", "--volume", str(volume), "--job", f"{keys.inputs}/{JOB}"]
    subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)
    lines = [json.loads(line) for line in (volume / keys.outputs / METRICS).read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line], volume / keys.adapter


@pytest.mark.parametrize("seed", range(int(os.environ.get("TENSORANT_FAULT_SEEDS", "1"))))
def test_nothing_is_lost_and_nothing_trained_twice_while_everything_is_killed(
    installation: Installation, tiny_base: Base, tmp_path: Path, seed: int
) -> None:
    def kill_run_in_training() -> None:
        """Once, and where it hurts: after some steps."""
        give_up_at = time.monotonic() + 300
        while time.monotonic() < give_up_at:
            for status in installation.settings.volume_dir.glob("runs/*/out/1/status.json"):
                if json.loads(status.read_text())["step"] >= 20 + 40 * (seed % 5):
                    installation.kill_run()
                    return
            time.sleep(0.05)

    def restart_console() -> None:
        installation.kill_console()
        installation.up()

    noise = [installation.kill_worker, installation.kill_redis, installation.flush_redis, restart_console]
    trouble = Trouble(noise * 2, seed=seed, pause=(4, 9))
    killer = Trouble([kill_run_in_training], seed=seed, pause=(0, 0))
    trouble.start()
    killer.start()

    outcome = walk(tiny_base, tiny_recipe(tmp_path, epochs=EPOCHS), print)

    trouble.stop()
    killer.stop()
    assert killer.done == ["kill_run_in_training"]
    assert len(trouble.done) >= 4
    assert outcome.state in ENDS
    assert outcome.rows == 100
    assert len(machines_of(Use.RUN)) == 2
    made = steps_of(installation, outcome)
    assert sorted(made) == [1, 2]
    assert made[2][-1] == 13 * EPOCHS
    assert made[2][0] > 1, "the second attempt began at a checkpoint, not at the beginning"
    assert made[2] == list(range(made[2][0], 13 * EPOCHS + 1))
    with reading() as session:
        verbs = list(session.exec(select(RunEvent.verb).where(RunEvent.subject_id == outcome.run_id)))
        assert session.get_one(Run, outcome.run_id).losses == 1
    assert verbs.count("lose") == 1
    assert verbs.count("ready") == 1
    wait_until_given_back()
    assert installation.machines("runs") == []
    losses, adapter = train_in_peace(installation, outcome, tmp_path / "peace")
    assert len(losses) == 13 * EPOCHS
    assert sum(losses[-13:]) < sum(losses[:13]), "it learned"
    calm = load_file(adapter / "adapter_model.safetensors")
    rough = weights(outcome, tmp_path)
    assert calm.keys() == rough.keys()
    for name in calm:
        np.testing.assert_allclose(rough[name], calm[name], atol=1e-6)
