"""A tiny base model, data made for it, and a volume in which the trainer's processes work."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.tiny_base import make_tiny_base, make_tiny_tokenizer
from tests.trainer import processes
from trainer.attempt import Attempt, take
from trainer.contract import (
    JOB,
    RESULT,
    AttemptKeys,
    Base,
    EvaluateJob,
    Result,
    TrainJob,
    TrainOptions,
    dump,
    load,
    write_file,
)

WORDS = ("cat", "dog", "cow", "pig")
OPTIONS = TrainOptions(
    epochs=4, learning_rate=2e-2, rank=8, alpha=16, dropout=0.1, micro_batch_size=4, accumulation=2, warmup_ratio=0.0
)
"""Dropout is on, so that a resumed run must bring back the random numbers too."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Torch and transformers announce what they will drop in years; that is no fault of the code under test."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for ignored in ("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"):
                item.add_marker(pytest.mark.filterwarnings(ignored))


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume with splits in it, and the trainer's command line on it."""

    root: Path
    base: Base

    def add_split(self, name: str, examples: Sequence[Any]) -> str:
        import pyarrow as pa
        import pyarrow.parquet as pq

        texts = [example if isinstance(example, str) else json.dumps(example) for example in examples]
        table = pa.table({"row": pa.array(range(1, len(texts) + 1), pa.int64()), "example": texts})
        pq.write_table(table, self.root / f"{name}.parquet")
        return f"{name}.parquet"

    def add_run(self, run_id: str, attempt: int = 1, options: TrainOptions = OPTIONS, **changes: Any) -> AttemptKeys:
        keys = AttemptKeys.of("runs", run_id, attempt)
        machine = f"tune-{run_id}"
        job = TrainJob(run_id, attempt, machine, self.base, "train.parquet", "validation.parquet", options, threads=1)
        return self._add_job(keys, dump(replace(job, **changes)))

    def add_evaluation(self, evaluation_id: str, **changes: Any) -> AttemptKeys:
        keys = AttemptKeys.of("evaluations", evaluation_id, 1)
        job = EvaluateJob(evaluation_id, 1, f"eval-{evaluation_id}", self.base, "test.parquet", threads=1)
        return self._add_job(keys, dump(replace(job, **changes)))

    def _add_job(self, keys: AttemptKeys, job: str) -> AttemptKeys:
        """All tests share the volume: a second job of one name would find the first one's result."""
        path = self.root / keys.inputs / JOB
        assert not path.exists(), f"another test has a job at {keys.inputs}"
        write_file(path, job)
        return keys

    def arguments(self, command: str, keys: AttemptKeys) -> list[str]:
        return [command, "--volume", str(self.root), "--job", f"{keys.inputs}/{JOB}"]

    def run(self, command: str, keys: AttemptKeys, *, verify: bool = False, patch: str = "") -> int:
        return processes.run(self.arguments(command, keys), log=self.log(keys), verify=verify, patch=patch)

    def log(self, keys: AttemptKeys) -> Path:
        return self.root / keys.inputs / "log.txt"

    def result(self, keys: AttemptKeys) -> Result:
        path = self.root / keys.outputs / RESULT
        assert path.exists(), self.log(keys).read_text()
        return load(Result, path.read_text())

    def lines(self, keys: AttemptKeys, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.root / keys.outputs / name).read_text().splitlines()]


def animal_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """A system prompt that all share, a question, and the animal as the answer."""
    dice = random.Random(seed)
    rows = []
    for _ in range(count):
        word = dice.choice(WORDS)
        question = f"{word} {dice.randrange(100)} in the barn" if dice.random() < 0.5 else f"one {word}"
        rows.append(
            {
                "messages": [
                    {"role": "system", "content": "Name the animal."},
                    {"role": "user", "content": question},
                    {"role": "assistant", "content": word},
                ]
            }
        )
    return rows


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_tiny_base(tmp_path_factory.mktemp("bases") / "tiny")


@pytest.fixture(scope="session")
def tokenizer():  # type: ignore[no-untyped-def]
    return make_tiny_tokenizer()


@pytest.fixture(scope="session")
def volume(tiny_base: Base, tmp_path_factory: pytest.TempPathFactory) -> Volume:
    volume = Volume(tmp_path_factory.mktemp("volume"), tiny_base)
    volume.add_split("train", animal_rows(44, seed=1))
    volume.add_split("validation", animal_rows(9, seed=2))
    volume.add_split("test", animal_rows(13, seed=3))
    return volume


@pytest.fixture(scope="session")
def trained(volume: Volume) -> AttemptKeys:
    """One whole run, verified in a fresh process; made once."""
    keys = volume.add_run("trained")
    assert volume.run("train", keys, verify=True) == 0, volume.log(keys).read_text()
    return keys


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """A held attempt in this process, without a watchdog thread."""
    attempt = take(tmp_path, AttemptKeys.of("runs", "here", 1), machine="tune-here", number=1)
    assert attempt is not None
    return attempt
