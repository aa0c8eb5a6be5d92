"""The main job on a rented machine: console, worker, network volume and the image's own boot, with RunPod emulated."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tensorant_app.db import clock as clock_module
from tensorant_app.db import migrate
from tensorant_app.domain.connections import RUNPOD
from tensorant_app.services.demo import walk
from tensorant_app.settings import get_settings
from tests.later import AHEAD, Later, rest_of
from tests.runpod_emulator import Emulator, Fault, RealTrainer
from tests.runpod_emulator.demo import IMAGE, PACE, connected_owner, passing_time, tell_settled, wait_until
from tests.runpod_emulator.settling import is_at_rest, settle_bills
from tests.whole.installation import Installation, tiny_recipe
from tests.whole.test_path import ENDS, wait_until_given_back, weights
from trainer.contract import Base, verify_folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PLACE = {"provider": RUNPOD, "gpu_types": ["NVIDIA L4"], "rate_limit_micros": 1_000_000}
_EVERY = 0.5
_LEAP = timedelta(seconds=10)
"""Twenty times as fast while the console rests, and still far from the maximum runtime on a busy computer."""


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Later]:
    """The clock of the console and of the provider; the trainer's own is the computer's."""
    later = Later(tmp_path / "ahead")
    later.path.write_text("0")
    monkeypatch.setenv(AHEAD, str(later.path))
    with clock_module.reading_from(later):
        yield later


@pytest.fixture
def emulator(tmp_path: Path, later: Later) -> Iterator[Emulator]:
    trainer = RealTrainer(Path(sys.executable), threads=1, clock=later)
    emulator = Emulator(tmp_path / "runpod", clock=later, start=trainer.start, pace=PACE)
    with emulator, passing_time(emulator):
        yield emulator


@pytest.fixture
def rented(
    data_dir: Path, tiny_base: Base, emulator: Emulator, later: Later, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Installation]:
    """Up, and sent to the emulated RunPod."""
    monkeypatch.setenv("TENSORANT_RUNPOD_API_URL", emulator.api_url)
    monkeypatch.setenv("TENSORANT_RUNPOD_S3_URL", emulator.s3_url)
    monkeypatch.setenv("TENSORANT_TRAINER_IMAGE", IMAGE)
    get_settings.cache_clear()
    settings = get_settings()
    settings.bases_dir.mkdir(parents=True, exist_ok=True)
    (settings.bases_dir / "tiny").symlink_to(tiny_base.folder)
    migrate.upgrade()
    installation = Installation(settings, module="tests.later")
    installation.up()
    yield installation
    installation.down()


@contextmanager
def short_waits(later: Later) -> Iterator[None]:
    """While the console only waits for its next look, the time until then passes in leaps."""
    over = threading.Event()

    def leap() -> None:
        while not over.wait(_EVERY):
            if (rest := rest_of(later)) > timedelta(0):
                later.advance(min(rest, _LEAP).total_seconds())

    hands = threading.Thread(target=leap, name="hands of the clock", daemon=True)
    hands.start()
    try:
        yield
    finally:
        over.set()
        hands.join()


def test_a_run_is_trained_and_scored_on_pods_of_which_each_was_asked_for_once(
    rented: Installation, emulator: Emulator, later: Later, tiny_base: Base, tmp_path: Path
) -> None:
    connected_owner(emulator)
    emulator.faults.arm(Fault.ANSWER_LOST)

    with short_waits(later):
        outcome = walk(tiny_base, replace(tiny_recipe(tmp_path, epochs=3), placement=PLACE), print)
        wait_until_given_back(180)
        wait_until(lambda: is_at_rest(emulator), seconds=60)
    assert settle_bills(emulator, later), "hours later"
    assert tell_settled(emulator, outcome.run_id)

    assert outcome.state in ENDS
    weights(outcome, tmp_path)
    pods = list(emulator.pods.values())
    assert [pod.name.partition("-")[0] for pod in pods] == ["tune", "eval"]
    assert [emulator.account.creates(pod.name) for pod in pods] == [1, 1]
    assert [fault for fault, _, _ in emulator.faults.fired] == [Fault.ANSWER_LOST]
    assert emulator.account.alive() == []
    assert emulator.bill() == sum(emulator.bill(pod) for pod in pods) > 0
    on_the_volume = emulator.volume.folder / "bases" / tiny_base.repo_id / tiny_base.revision
    assert verify_folder(on_the_volume) == verify_folder(Path(tiny_base.folder))
    secrets = {emulator.key, *emulator.s3_keys}
    assert not any(secret in text for pod in pods for text in pod.spec["env"].values() for secret in secrets)
