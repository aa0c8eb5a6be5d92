"""Fills an installation for `benchmarks.console`: many rows, many runs, one run that seems to train for long."""

from __future__ import annotations

import json
import random
import sys
from datetime import timedelta
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from sqlmodel import Session

from benchmarks.console import metric_line
from tensorant_app.db import clock, migrate
from tensorant_app.db.machines import Machine
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import now_of, unit_of_work
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.machines import MachineState, Use, machine_name
from tensorant_app.domain.runs import RunPurpose, RunState
from tensorant_app.services.connections import store
from tensorant_app.services.versions import frozen_key
from tensorant_app.settings import get_settings
from tests.factories import REPORT, RULE, make_baseline, make_project, make_version
from tests.people import make_person
from trainer.contract import MASK, METRICS, STATUS, AttemptKeys, Phase, Split, Status, dump, write_file

_STATES = (RunState.COMPLETED, RunState.NO_GAIN, RunState.FAILED, RunState.CANCELLED, RunState.DRAFT)


def main(rows: int, runs: int, steps: int) -> None:
    migrate.upgrade()
    person = make_person()
    with unit_of_work() as session:
        project = make_project(session, person.organization_id)
        version = make_version(session, project, rows={"train": rows, "validation": 1, "test": 1})
        baseline = make_baseline(session, project, version)
        ids = (project.id, version.id, baseline.id)
        live = _add_runs(session, project, ids[1:], runs)
        machine = _add_machine(session, project, live)
    _write_version(rows)
    folder = get_settings().volume_dir / AttemptKeys.of("runs", str(live), 1).outputs
    folder.mkdir(parents=True)
    with (folder / METRICS).open("w") as file:
        file.writelines(metric_line(step) for step in range(1, steps + 1))
    status = Status(machine, 1, 1, Phase.TRAINING, clock.now().isoformat(), step=steps, total_steps=2 * steps, loss=0.1)
    write_file(folder / STATUS, dump(status))
    found = {"cookie": person.cookies, "project_id": ids[0], "version_id": ids[1], "run_id": live, "machine": machine}
    print(json.dumps({name: str(value) for name, value in found.items()}))


def _add_runs(session: Session, project: Project, made_from: tuple[UUID, UUID], count: int) -> UUID:
    """Their ids come last in time, the live one last of all."""
    chooser, now = random.Random(3), now_of(session)
    for number in range(count):
        created = now - timedelta(minutes=count - number)
        state = RunState.TRAINING if number == count - 1 else chooser.choice(_STATES)
        run = Run(
            id=uuid4(),
            created_at=created,
            organization_id=project.organization_id,
            project_id=project.id,
            version_id=made_from[0],
            baseline_id=made_from[1],
            name=f"triage {number}",
            purpose=RunPurpose.FULL,
            state=state,
            settings=RunSettings().as_values(),
            gate=RULE,
            attempt=1,
            started_at=created,
        )
        session.add(run)
    session.flush()
    return run.id


def _add_machine(session: Session, project: Project, run_id: UUID) -> str:
    at, keys = now_of(session), AttemptKeys.of("runs", str(run_id), 1)
    machine = Machine(
        id=uuid4(),
        created_at=at,
        organization_id=project.organization_id,
        use=Use.RUN,
        subject_id=run_id,
        attempt=1,
        name=machine_name(Use.RUN, str(run_id), 1),
        provider="local",
        gpu_type="this-computer",
        state=MachineState.HELD,
        command=["train"],
        inputs_key=keys.inputs,
        outputs_key=keys.outputs,
        ask_sent_at=at,
        deadline=at + timedelta(hours=24),
    )
    session.add(machine)
    return machine.name


def _write_version(rows: int) -> None:
    """The files of a frozen version; each row is a short chat."""
    folder = store().fetch(frozen_key(REPORT["content_sha256"]))
    folder.mkdir(parents=True)
    examples = [_example(number) for number in range(rows)]
    for split in Split:
        part = examples if split is Split.TRAIN else examples[:1]
        table = pa.table({"row": list(range(1, len(part) + 1)), "example": part})
        pq.write_table(table, folder / f"{split.value}.parquet", compression="zstd", row_group_size=1_000)
    mask = {
        "split": ["train"] * rows,
        "row": list(range(1, rows + 1)),
        "tokens": [40] * rows,
        "trained_tokens": [2] * rows,
        "text": ["<s>user question</s><s>billing</s>"] * rows,
        "spans": ["[[25, 32]]"] * rows,
        "error": pa.nulls(rows, pa.string()),
    }
    pq.write_table(pa.table(mask), folder / MASK, compression="zstd", row_group_size=1_000)


def _example(number: int) -> str:
    question = f"Ticket {number}: the invoice of order {number * 7} is wrong, please look."
    return json.dumps(
        {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": "billing"}]}
    )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]))
