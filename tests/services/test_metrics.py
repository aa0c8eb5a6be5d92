"""Reading a run's metrics on, and what a chart is sent."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from tensorant_app.components.figures import loss_figure, metric_figure
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import NotFound
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services import machines, metrics
from tensorant_app.services.connections import volume_for
from tensorant_app.services.machines import MachineView
from tests.conftest import NOON
from tests.factories import ask_machine, make_caller, make_run
from tests.trained import metric_lines


@pytest.fixture
def run_id(caller: Caller) -> UUID:
    run_id = make_run(caller)
    ask_machine(caller, run_id, NOON)
    return run_id


def machine_of(run_id: UUID, attempt: int = 1) -> MachineView:
    with reading() as session:
        machine = machines.machine_of(session, Use.RUN, run_id, attempt)
    assert machine is not None
    return machine


def volume() -> FolderStore:
    with reading() as session:
        return volume_for(session, UUID(int=0))


def write(machine: MachineView, lines: list[str]) -> None:
    path = volume().fetch(f"{machine.outputs_key}/metrics.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def look(machine: MachineView) -> metrics.Fold:
    """As the machine's job does."""
    with reading() as session:
        known = metrics.stored_fold(session, machine)
    assert known is not None
    found = metrics.read_on(volume(), machine, known)
    with unit_of_work() as session:
        metrics.note_fold(session, machine, found)
    return found


def show(caller: Caller, run_id: UUID, seen: str = "") -> metrics.RunCurves | None:
    with reading() as session:
        return metrics.show_curves(session, caller, run_id, seen)


def test_it_reads_on_from_where_it_stopped(caller: Caller, run_id: UUID) -> None:
    machine, lines = machine_of(run_id), list(metric_lines(300))

    write(machine, lines[:100])
    first = look(machine)
    write(machine, lines[100:])
    second = look(machine)

    assert 0 < first.read_to < second.read_to
    assert second.of("loss").last_step == 300
    assert len(second.of("validation_loss").buckets) == 1


def test_a_torn_last_line_waits_for_its_end(caller: Caller, run_id: UUID) -> None:
    machine = machine_of(run_id)
    write(machine, ['{"step": 1, "loss": 2.0}'])
    path = volume().fetch(f"{machine.outputs_key}/metrics.jsonl")
    path.write_bytes(path.read_bytes() + b'{"step": 2, "lo')

    assert look(machine).of("loss").last_step == 1
    path.write_bytes(path.read_bytes() + b'ss": 1.0}\nnonsense\n')
    assert look(machine).of("loss").last_step == 2


def test_a_step_done_again_counts_as_it_was_done_last(caller: Caller, run_id: UUID) -> None:
    machine = machine_of(run_id)
    write(machine, [json.dumps({"step": step, "loss": 5.0}) for step in range(1, 2_001)])
    look(machine)

    write(machine, [json.dumps({"step": step, "loss": 1.0}) for step in range(1_500, 2_001)])
    look(machine)

    curves = show(caller, run_id)
    assert curves is not None
    assert curves.training[-1] == (curves.training[-1][0], 1.0)
    assert not [value for step, value in curves.training if step >= 1_520 and value > 1.0]


def test_a_chart_is_built_once_and_sent_only_when_there_is_a_new_point(caller: Caller, run_id: UUID) -> None:
    machine = machine_of(run_id)
    write(machine, list(metric_lines(10)))
    look(machine)

    first = show(caller, run_id)
    assert first is not None
    assert show(caller, run_id) is first
    assert show(caller, run_id, first.version) is None
    write(machine, list(metric_lines(5, first=11)))
    look(machine)
    assert show(caller, run_id, first.version) is not None


def test_an_update_is_small_with_a_hundred_thousand_steps_behind_it(caller: Caller, run_id: UUID) -> None:
    machine = machine_of(run_id)
    write(machine, list(metric_lines(100_000, epoch_steps=1_000)))
    for _ in range(4):
        look(machine)

    found = show(caller, run_id)

    assert found is not None
    small = [metric_figure(points, total_steps=100_000) for points in (found.gradient, found.speed)]
    figures = [loss_figure(found.training, found.smooth, found.validation, total_steps=100_000), *small]
    sent = json.dumps([*figures, found.table, found.sentence], separators=(",", ":"))
    points = [found.training, found.smooth, found.validation, found.gradient, found.speed]
    assert sum(map(len, points)) <= 600
    assert len(sent) <= 12_000
    assert found.table[-1][0] == "100,000" or int(found.table[-1][0].replace(",", "")) > 99_000


def test_another_organization_sees_no_curve(caller: Caller, run_id: UUID) -> None:
    with pytest.raises(NotFound):
        show(make_caller(name="Other"), run_id)


def test_a_file_that_is_gone_changes_nothing(caller: Caller, run_id: UUID, tmp_path: Path) -> None:
    machine = machine_of(run_id)

    assert look(machine).curves in (None, {})
    found = show(caller, run_id, "x")
    assert found is not None
    assert not found.training
