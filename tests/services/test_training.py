"""What is left of a run's time decides what a lost machine means, and an adapter is taken whole or not yet."""

from __future__ import annotations

import errno
import os
import zipfile
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.machines import MachineReason, MachineState
from tensorant_app.domain.members import Caller
from tensorant_app.domain.runs import RunState
from tensorant_app.services import training
from tensorant_app.services.adapters import TakenAdapter
from tensorant_app.services.connections import store, volume_for
from tensorant_app.services.places import Place
from tensorant_app.services.training import RunTask
from tests import factories
from tests.conftest import Clock
from trainer.contract import Outcome, Result, dump, seal_folder


@pytest.fixture
def run_id(caller: Caller, clock: Clock) -> UUID:
    """Training on a machine that may go on for six hours."""
    run_id = factories.make_run(caller, state=RunState.TRAINING, attempt=1)
    machine_id = factories.ask_machine(caller, run_id, clock())
    with unit_of_work() as session:
        machine = session.get_one(Machine, machine_id)
        machine.state, machine.ask_sent_at = MachineState.HELD, clock()
    return run_id


def change_machine(run_id: UUID, **values: object) -> None:
    with reading() as session:
        machine_id = training.read_task(session, run_id).machine
        assert machine_id is not None
    with unit_of_work() as session:
        machine = session.get_one(Machine, machine_id.id)
        for name, value in values.items():
            setattr(machine, name, value)


def task_of(run_id: UUID) -> RunTask:
    with reading() as session:
        return training.read_task(session, run_id)


def take_steps(run_id: UUID) -> Run:
    task = task_of(run_id)
    with unit_of_work() as session:
        training.take_steps(session, task, None)
        return session.get_one(Run, run_id)


@pytest.mark.parametrize(
    ("hours", "state"),
    [
        (0.1, RunState.QUEUED),
        (5.9, RunState.QUEUED),
        (5.99, RunState.NEEDS_RECOVERY),
    ],
)
def test_a_lost_machine_is_followed_by_another_only_while_there_is_time_for_it(
    run_id: UUID, clock: Clock, hours: float, state: RunState
) -> None:
    clock.advance(hours=hours)
    change_machine(run_id, state=MachineState.RELEASING, reason=MachineReason.LOST)

    run = take_steps(run_id)

    assert run.state is state
    assert run.seconds_used == pytest.approx(hours * 3600)


def test_all_attempts_share_the_maximum_runtime(run_id: UUID, clock: Clock) -> None:
    clock.advance(hours=2)
    change_machine(run_id, state=MachineState.RELEASING, reason=MachineReason.LOST)
    take_steps(run_id)

    order = training.order_machine(task_of(run_id), Place("local", "this-computer", None), clock())

    assert (order.attempt, order.deadline - clock()) == (2, timedelta(hours=4))


class TestTaking:
    @pytest.fixture
    def finished(self, run_id: UUID, caller: Caller) -> RunTask:
        """Its adapter lies on the volume, sealed."""
        assert caller.organization_id is not None
        key = task_of(run_id).adapter_key
        with reading() as session:
            folder = volume_for(session, caller.organization_id).fetch(key)
        folder.mkdir(parents=True)
        (folder / "adapter_config.json").write_text("{}")
        (folder / "adapter_model.safetensors").write_bytes(b"x" * 1000)
        seal_folder(folder)
        result = Result(f"tune-{run_id}", 1, 1, Outcome.DONE, "now", 1.0, 1, adapter=key)
        change_machine(run_id, result=_stored(result))
        return task_of(run_id)

    def take(self, task: RunTask) -> TakenAdapter | None:
        with reading() as session:
            volume = volume_for(session, task.organization_id)
        return training.take_adapter(task, volume)

    def test_the_download_holds_every_file_and_is_the_same_each_time(self, finished: RunTask) -> None:
        taken = self.take(finished)
        again = self.take(finished)

        assert taken is not None
        assert taken == again
        with zipfile.ZipFile(store().fetch(taken.zip_key)) as archive:
            assert archive.testzip() is None
            assert archive.namelist() == ["adapter_config.json", "adapter_model.safetensors", "manifest.json"]

    def test_a_result_that_names_another_attempts_adapter_is_not_taken(self, finished: RunTask, run_id: UUID) -> None:
        result = Result(f"tune-{run_id}", 1, 1, Outcome.DONE, "now", 1.0, 1, adapter=f"runs/{run_id}/adapter/0")
        change_machine(run_id, result=_stored(result))

        assert self.take(task_of(run_id)) is None

    def test_a_full_disk_leaves_no_torn_download(self, finished: RunTask, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(zipfile.ZipFile, "open", full)
            with pytest.raises(OSError, match="No space"):
                self.take(finished)

        assert list(Path(store().fetch("adapters")).iterdir()) == []
        assert self.take(finished) is not None


def _stored(result: Result) -> dict[str, object]:
    import json

    stored: dict[str, object] = json.loads(dump(result))
    return stored
