"""The real trainer in a Pod without a network volume: from launch to the adapter.zip that is carried over and taken."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from sqlmodel import select

from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Adapter, Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.machines import MachineState, Use
from tensorant_app.domain.runs import RunReason, RunState
from tensorant_app.services import adapter_uploads, logs, recoveries, uploads
from tensorant_app.services.logs import Cursor
from tensorant_app.services.spend import machine_spend
from tensorant_app.settings import get_settings
from tests.faults.console import Console, open_console
from tests.runpod_emulator import Emulator, Pace, RealClock, RealTrainer
from trainer.contract import Base

PACE = Pace(provision=0.1, pull=0.1, settle=0.1, restart=0.1, billing_lag=1)
LONG = 300.0


@pytest.fixture
def emulator(tmp_path: Path, tiny_base: Base) -> Iterator[Emulator]:
    """Its image holds the tiny base."""
    baked = tmp_path / "image/bases" / tiny_base.repo_id / tiny_base.revision
    shutil.copytree(tiny_base.folder, baked)
    trainer = RealTrainer(Path(sys.executable), threads=1, bases=tmp_path / "image/bases")
    with Emulator(tmp_path / "runpod", clock=RealClock(), start=trainer.start, pace=PACE) as found:
        yield found


@pytest.fixture
def console(tmp_path: Path, emulator: Emulator, tiny_base: Base) -> Iterator[Console]:
    told = {
        "TENSORANT_RUNPOD_API_URL": emulator.api_url.removesuffix("/v2"),
        "TENSORANT_TRAINER_BASES": f"{tiny_base.repo_id}@{tiny_base.revision}",
        "TENSORANT_TRAINER_PYTHON": sys.executable,
    }
    with open_console(tmp_path, RealClock(), httpx.HTTPTransport(), _no_volume, settings=told) as found:
        shutil.rmtree(get_settings().bases_dir / "tiny")
        (get_settings().bases_dir / "tiny").symlink_to(tiny_base.folder)
        found.save_key(emulator.key)
        found.restart()
        found.work()
        yield found


def _no_volume(*_: str) -> None:  # type: ignore[misc]
    raise AssertionError("There is no volume.")


def work_until(console: Console, emulator: Emulator, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        said = [line.text for pod in emulator.pods.values() for line in pod.logs.lines[-15:]]
        assert time.monotonic() < deadline, said
        emulator.world.tick()
        console.work()
        time.sleep(0.3)


@pytest.mark.slow
def test_a_run_is_trained_in_a_pod_and_its_adapter_carried_over(
    console: Console, emulator: Emulator, tiny_base: Base
) -> None:
    run_id = console.draft()
    settings = RunSettings(epochs=1, context_length=256, evaluate_at_checkpoints=False)
    with unit_of_work() as session:
        run = session.get_one(Run, run_id)
        run.settings = settings.as_values()
        for row in (session.get_one(Project, run.project_id), session.get_one(Evaluation, run.baseline_id)):
            row.base_revision = tiny_base.revision
    console.launch(run_id, evaluates=False)

    work_until(console, emulator, lambda: console.run(run_id).state is RunState.NEEDS_RECOVERY)
    work_until(console, emulator, lambda: _machine_state(console, run_id) is MachineState.STOPPED)

    (pod,) = emulator.pods.values()
    assert (console.run(run_id).reason, pod.status) == (RunReason.ON_POD.value, "EXITED")
    with reading() as session:
        news = logs.read_log(session, console.caller, run_id, Cursor())
    assert any(line.words.startswith("step 1 loss") for line in news.lines)

    # What a person does at RunPod: start the Pod again, and fetch the file. Nothing is trained a second time.
    emulator.account.act(pod.id, "start")
    work_until(
        console,
        emulator,
        lambda: "boot: This attempt has ended before; nothing is trained again." in pod.logs.said("container"),
    )
    (zipped,) = (emulator.account.folder / "pods" / pod.id).rglob("adapter.zip")
    hand_in(console, run_id, zipped.read_bytes())
    work_until(console, emulator, lambda: console.run(run_id).state is RunState.ADAPTER_READY)
    work_until(console, emulator, lambda: not emulator.account.alive())

    with reading() as session:
        assert session.exec(select(Adapter)).one().manifest["files"]
        assert recoveries.show_recovery(session, console.caller, run_id).has_disk is False
        assert machine_spend(session, Use.RUN, run_id).estimated.micros > 0


def _machine_state(console: Console, run_id: UUID) -> MachineState | None:
    machine = console.machine(run_id)
    return machine.state if machine else None


def hand_in(console: Console, run_id: UUID, content: bytes) -> None:
    with unit_of_work() as session:
        upload = adapter_uploads.start_adapter_upload(session, console.caller, run_id, len(content))
    uploads.receive_piece(upload, 0, content)
    with unit_of_work() as session:
        adapter_uploads.finish_any(session, console.caller, upload.id)
