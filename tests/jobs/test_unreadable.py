"""Whatever a machine left on its volume – torn, empty, from another world – its release and its deadline don't wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

import pytest

from tensorant_app.db.machines import Machine
from tensorant_app.db.session import unit_of_work
from tensorant_app.domain.errors import Transient
from tensorant_app.domain.machines import MachineState, Presence, Use
from tensorant_app.domain.runs import RunState
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services import machines
from tests import factories
from tests.conftest import Clock
from tests.jobs.renting import Rented
from tests.jobs.test_runs import World, caller, load, run_id, world
from trainer.contract import METRICS, RESULT, STATUS, TRIAL, Ask, Phase

__all__ = ["caller", "run_id", "world"]

BEAT = '{{"machine": "{0}", "attempt": 1, "boot": 1, "phase": "training", "at": "now", {1}}}'
UNREADABLE = {
    "torn": '{{"machine": "{0}", "att',
    "empty": "",
    "a list": "[]",
    "null": "null",
    "an unknown phase": '{{"machine": "{0}", "attempt": 1, "boot": 1, "phase": "dreaming", "at": "now"}}',
    "a missing word": '{{"machine": "{0}", "attempt": 1, "phase": "training", "at": "now"}}',
    "a boot that is text": BEAT.replace('"boot": 1', '"boot": "2"').replace("{1}", '"step": 3'),
    "time that is text": BEAT.replace("{1}", '"elapsed": "long"'),
    "time that is no number": BEAT.replace("{1}", '"elapsed": NaN'),
    "endless time": BEAT.replace("{1}", '"elapsed": 1e999'),
    "a step that is a list": BEAT.replace("{1}", '"step": [3], "total_steps": 90'),
    "too deep": "[" * 200_000,
    "too long": '{{"machine": "{0}"' + " " * (2 << 20),
}


@pytest.fixture
def rented(database: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Rented:
    return Rented(factories.make_caller(), clock, monkeypatch)


def write(root: Path, machine: Machine, name: str, text: str | bytes) -> None:
    path = root / machine.outputs_key / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        text
        if isinstance(text, bytes)
        else text.replace("{0}", machine.name).replace("{{", "{").replace("}}", "}").encode()
    )


def root_of(rented: Rented) -> Path:
    assert isinstance(rented.volume, FolderStore)
    return rented.volume.root


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE.keys())
@pytest.mark.parametrize("name", [STATUS, RESULT])
def test_a_file_that_cannot_be_read_is_not_heard_and_the_providers_word_decides(
    rented: Rented, name: str, text: str
) -> None:
    machine_id = rented.ask()
    write(root_of(rented), rented.row(machine_id), name, text)
    rented.after(minutes=1, step=10)

    rented.provider.machines[rented.row(machine_id).name] = Presence.GONE
    rented.after(seconds=30)

    assert "lose" in rented.verbs(machine_id)
    assert rented.provider.deleted


def test_letters_that_are_none_are_not_heard(rented: Rented) -> None:
    machine_id = rented.ask()
    write(root_of(rented), rented.row(machine_id), STATUS, b'{"machine": "\xff\xfe')
    rented.after(minutes=1, step=10)

    assert rented.row(machine_id).status is None
    assert rented.row(machine_id).read_at is not None


@pytest.mark.parametrize("name", [STATUS, RESULT])
def test_a_torn_file_never_moves_the_deadline(rented: Rented, name: str) -> None:
    machine_id = rented.ask()
    rented.beats(machine_id)
    rented.after(minutes=1, step=10)
    write(root_of(rented), rented.row(machine_id), name, '{"machine": "tu')

    rented.clock.at = rented.row(machine_id).deadline
    rented.after(minutes=11, step=10)

    assert "release" in rented.verbs(machine_id)
    assert rented.provider.deleted


@pytest.mark.parametrize("name", [STATUS, RESULT, TRIAL, METRICS])
def test_a_run_whose_files_are_torn_goes_on_when_its_machine_is_gone(world: World, run_id: UUID, name: str) -> None:
    world.settle()
    world.says(Phase.TRAINING)
    world.settle(4)
    write(world.volume, world.machines()[-1], name, '{"machine": "tu\n{"step": 1, "loss": NaN}\n')
    world.vanishes()
    world.settle()

    assert load(run_id).losses == 1
    assert len(world.provider.asked) == 2


def test_numbers_that_are_none_leave_the_curves_and_not_the_machine(rented: Rented) -> None:
    machine_id = rented.ask()
    rented.beats(machine_id)
    lines = '{"step": 1, "loss": NaN}\n{"step": true, "loss": 1}\n{"step": 2, "loss": true}\n' + "[" * 99_999 + "\n"
    write(root_of(rented), rented.row(machine_id), METRICS, lines)
    rented.after(minutes=1, step=10)

    rented.provider.machines[rented.row(machine_id).name] = Presence.GONE
    rented.after(seconds=30)

    assert "lose" in rented.verbs(machine_id)


def test_a_volume_that_takes_no_words_never_moves_the_deadline(rented: Rented, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_id = rented.ask()
    rented.beats(machine_id)
    rented.after(minutes=1, step=10)

    def refuse(self: FolderStore, key: str, source: object) -> None:
        raise Transient("The volume is full.")

    monkeypatch.setattr(FolderStore, "put", refuse)
    machine = rented.row(machine_id)
    with unit_of_work() as session:
        machines.say(session, Use.RUN, machine.subject_id, 1, ask=Ask.PAUSE, deadline=None)
    rented.clock.at = machine.deadline
    rented.after(minutes=11, step=10)

    assert "release" in rented.verbs(machine_id)


def test_on_this_computer_a_file_that_nobody_may_open_moves_nothing(
    world: World, run_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settle()
    world.says(Phase.TRAINING)
    world.settle(4)

    @contextmanager
    def refuse(self: FolderStore, key: str, start: int = 0, length: int | None = None) -> Iterator[BinaryIO]:
        raise PermissionError(13, "Permission denied")
        yield

    monkeypatch.setattr(FolderStore, "open", refuse)
    world.clock.at = world.machines()[-1].deadline
    world.clock.advance(minutes=11)
    world.settle(30)

    assert load(run_id).state is RunState.NEEDS_RECOVERY
    assert world.machines()[-1].state is MachineState.RELEASED
