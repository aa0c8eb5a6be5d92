"""What a trainer leaves behind, made up: metrics, a log, and answers that were scored."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from sqlmodel import select

from tensorant_app.db import clock
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Run, RunEvent
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.domain.evaluations import EvaluationKind
from tensorant_app.domain.machines import MachineState, Use
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.steps import Cause
from tensorant_app.services import evaluations, machines, metrics, training
from tensorant_app.services.connections import store, volume_for
from tensorant_app.services.versions import frozen_key
from tests.factories import REPORT, ask_machine, make_run
from tests.people import Person
from trainer.contract import Answer, dump, hash_file

LABELS = ("billing", "customs_hold", "tracking")


def metric_lines(steps: int, *, first: int = 1, epoch_steps: int = 200, began: datetime | None = None) -> Iterator[str]:
    """As `trainer.events` writes them; a loss that falls, with noise."""
    draw = Random(7)
    at = began or datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
    for step in range(first, first + steps):
        loss = 0.4 + 1.7 * math.exp(-5 * step / (first + steps)) + draw.gauss(0, 0.04)
        stamp = {"at": (at + timedelta(seconds=step)).isoformat(), "attempt": 1, "boot": 1, "step": step}
        epoch = round(step / epoch_steps, 4)
        values = {"loss": loss, "learning_rate": 2e-4, "grad_norm": 0.6 + draw.random() / 5}
        yield json.dumps(
            {**stamp, "epoch": epoch, **values, "tokens_per_second": 3000 + draw.gauss(0, 40), "seconds": 1}
        )
        if step % epoch_steps == 0:
            yield json.dumps({**stamp, "epoch": epoch, "validation_loss": loss + 0.03})


def train(owner: Person, run_id: UUID, *, steps: int, state: MachineState = MachineState.HELD) -> None:
    """A machine that has done so many steps, and has been looked at."""
    ask_machine(owner.caller, run_id, clock.now())
    with unit_of_work() as session:
        row = session.exec(select(Machine).where(Machine.subject_id == run_id)).one()
        row.state, row.ask_sent_at = state, clock.now()
        facts = {"step": steps, "total_steps": 100, "epoch": steps / 50, "loss": 0.5, "tokens_per_second": 3000.0}
        row.status = {"machine": row.name, "attempt": 1, "boot": 1, "phase": "training", "at": "", **facts}
    look(owner, run_id, list(metric_lines(steps, epoch_steps=50)))


def look(owner: Person, run_id: UUID, lines: list[str]) -> None:
    """The machine has written these steps, and they were read."""
    with reading() as session:
        machine = machines.machine_of(session, Use.RUN, run_id, 1)
        volume = volume_for(session, owner.organization_id)
        assert machine is not None
        known = metrics.stored_fold(session, machine)
    assert known is not None
    path = volume.fetch(f"{machine.outputs_key}/metrics.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    found = metrics.read_on(volume, machine, known)
    with unit_of_work() as session:
        metrics.note_fold(session, machine, found)


def started(owner: Person, state: RunState = RunState.TRAINING, **values: object) -> UUID:
    """A run with its first phases behind it."""
    began = clock.now() - timedelta(minutes=10)
    run_id = make_run(owner.caller, state=state, attempt=1, started_at=began, **values)
    with unit_of_work() as session:
        for minutes, word in ((10, "queued"), (9, "launching"), (8, "preparing"), (6, "training")):
            verb = "train" if word == "training" else word
            at = clock.now() - timedelta(minutes=minutes)
            session.add(RunEvent(subject_id=run_id, at=at, verb=verb, cause=Cause.WORKER, state=word))
    return run_id


def answers_of(rows: int, right: Sequence[int]) -> list[Answer]:
    """Every row is expected to be a label; those in `right` are answered so."""
    found = []
    for row in range(1, rows + 1):
        expected = LABELS[row % 3]
        given = expected if row in right else LABELS[(row + 1) % 3]
        is_right = given == expected
        found.append(Answer(row, expected, given, is_right, float(is_right), row % 9 > 0, given, is_right))
    return found


def put_answers(evaluation_id: UUID, answers: Sequence[Answer]) -> None:
    """The evaluation's stored answers and their sums."""
    key = evaluations.answers_key(evaluation_id)
    store().put(key, "".join(dump(answer) + "\n" for answer in answers).encode())
    with unit_of_work() as session:
        row = session.get_one(Evaluation, evaluation_id)
        row.answers_key, row.answers_sha256 = key, hash_file(store().fetch(key)).sha256
        share = sum(answer.exact for answer in answers) / len(answers)
        row.scores = {"exact_match": share, "token_f1": share, "likelihood": share}


def put_questions(rows: int) -> None:
    """The test rows of the factories' version."""
    asked = [
        json.dumps({"messages": [{"role": "user", "content": f"Where is my container {row}, and who pays for it?"}]})
        for row in range(1, rows + 1)
    ]
    file = io.BytesIO()
    pq.write_table(pa.table({"row": list(range(1, rows + 1)), "example": asked}), file)
    store().put(f"{frozen_key(REPORT['content_sha256'])}/test.parquet", file.getvalue())


def score_run(run_id: UUID, *, rows: int = 100, base: Sequence[int], tuned: Sequence[int]) -> UUID:
    """An evaluation of the run, judged against its baseline; both answered the rows named right."""
    with unit_of_work() as session:
        run = session.get_one(Run, run_id)
        baseline = session.get_one(Evaluation, run.baseline_id)
        values = baseline.model_dump() | {"id": UUID(int=run_id.int ^ 1), "kind": EvaluationKind.ADAPTER}
        evaluation = Evaluation(
            **values | {"run_id": run.id, "baseline_id": baseline.id, "created_at": now_of(session)}
        )
        session.add(evaluation)
        run.evaluation_id = evaluation.id
        rule, baseline_id = training.rule_of(run.gate), baseline.id
    put_answers(baseline_id, [replace(one, likely_correct=one.exact) for one in answers_of(rows, base)])
    put_answers(evaluation.id, answers_of(rows, tuned))
    put_questions(rows)
    with unit_of_work() as session:
        task = training.read_task(session, run_id)
        verdict = training.judge_adapter(replace(task, gate=rule))
        row = session.get_one(Evaluation, evaluation.id)
        row.verdict = json.loads(json.dumps(evaluations_verdict(verdict), default=str))
    return evaluation.id


def evaluations_verdict(verdict: object) -> dict[str, object]:
    """As `training.note_verdict` stores it."""
    from dataclasses import asdict

    return {**asdict(verdict), "passed": verdict.passed}  # type: ignore[call-overload, attr-defined]
