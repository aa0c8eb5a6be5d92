"""Job files on an emulated volume, as the console stages them."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from trainer.contract import (
    CONSOLE,
    JOB,
    Ask,
    AttemptKeys,
    Base,
    Result,
    Status,
    TrainJob,
    TrainOptions,
    Words,
    dump,
    load,
)

_WORDS = ("cat", "dog", "cow", "pig")
RUN = "run-1"
BASE = Base("tests/tiny", "a" * 40, "/workspace/bases/tiny")


def stage(volume: Path, *, attempt: int = 1, machine: str = "tune-1", base: Base = BASE, **job: object) -> str:
    """A training job for one attempt; its key."""
    keys = AttemptKeys.of("runs", RUN, attempt)
    made = TrainJob(
        **{  # type: ignore[arg-type]
            "subject_id": RUN,
            "attempt": attempt,
            "machine": machine,
            "base": base,
            "train": "versions/v/train.parquet",
            "validation": "versions/v/validation.parquet",
            "options": TrainOptions(),
            **job,
        }
    )
    path = volume / keys.inputs / JOB
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump(made))
    return f"{keys.inputs}/{JOB}"


def write_splits(folder: Path, *, rows: int) -> None:
    """Training and validation rows that a tiny model can learn."""
    folder.mkdir(parents=True)
    for name, count in (("train", rows), ("validation", 4)):
        texts = [json.dumps({"messages": _turns(f"one {_WORDS[i % 4]}", _WORDS[i % 4])}) for i in range(count)]
        table = pa.table({"row": pa.array(range(1, count + 1), pa.int64()), "example": texts})
        pq.write_table(table, folder / f"{name}.parquet")


def _turns(question: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def say(volume: Path, ask: Ask, *, deadline: datetime | None = None, attempt: int = 1, seq: int = 1) -> None:
    """What the console says to the trainer."""
    words = Words(seq, ask, deadline.isoformat() if deadline else None)
    (volume / AttemptKeys.of("runs", RUN, attempt).inputs / CONSOLE).write_text(dump(words))


def result_of(volume: Path, attempt: int = 1) -> Result:
    return load(Result, (volume / AttemptKeys.of("runs", RUN, attempt).outputs / "result.json").read_text())


def status_of(volume: Path, attempt: int = 1) -> Status:
    return load(Status, (volume / AttemptKeys.of("runs", RUN, attempt).outputs / "status.json").read_text())


def command(key: str) -> list[str]:
    return ["train", "--volume", "/workspace", "--job", key]
