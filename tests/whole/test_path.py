"""The main job with real processes: walked once in peace, and once while everything around it is killed."""

from __future__ import annotations

import json
import os
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
from trainer.contract import METRICS, Base

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


@pytest.fixture(scope="module")
def peaceful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the weights of the walk in peace are kept for the other one."""
    return tmp_path_factory.mktemp("peaceful")


def test_the_whole_path_in_peace(installation: Installation, tiny_base: Base, tmp_path: Path, peaceful: Path) -> None:
    lines: list[str] = []

    outcome = walk(tiny_base, tiny_recipe(tmp_path, epochs=EPOCHS), lines.append)

    assert outcome.state in ENDS
    assert outcome.rows == 100
    losses = [line["loss"] for line in metrics_of(installation, outcome)[1]]
    assert sum(losses[-13:]) < sum(losses[:13]), "it learned"
    assert len(machines_of(Use.RUN)) == 1
    assert steps_of(installation, outcome) == {1: list(range(1, 13 * EPOCHS + 1))}
    wait_until_given_back()
    assert installation.machines("runs") == []
    weights(outcome, peaceful)


@pytest.mark.parametrize("seed", range(int(os.environ.get("TENSORANT_FAULT_SEEDS", "1"))))
def test_nothing_is_lost_and_nothing_trained_twice_while_everything_is_killed(
    installation: Installation, tiny_base: Base, tmp_path: Path, peaceful: Path, seed: int
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
    calm = load_file(peaceful / "adapter_model.safetensors")
    rough = weights(outcome, tmp_path)
    assert calm.keys() == rough.keys()
    for name in calm:
        np.testing.assert_allclose(rough[name], calm[name], atol=1e-6)
