"""A trial: which rows it takes, what it measures, and how close its prediction comes to a whole run."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.conftest import OPTIONS, animal_rows
from trainer.chat import Encoded
from trainer.contract import Base
from trainer.trial import StepCost, TrialLimits, advice, predict, subset
from trainer.trial_report import run_trial

PLAIN = replace(OPTIONS, dropout=0.0, packing=True)


def rows_of(lengths: list[int]) -> list[Encoded]:
    return [Encoded(list(range(n)), [(n - 1, n)], "", [], row=i) for i, n in enumerate(lengths, start=1)]


def test_the_subset_is_a_seeded_sample_with_the_longest_rows_first() -> None:
    rows = rows_of([random.Random(5).randrange(4, 90) for _ in range(60)])
    longest = sorted((len(row.ids) for row in rows), reverse=True)[:8]

    chosen = subset(rows, TrialLimits(rows=20, seed=3), batch=8)

    assert [len(row.ids) for row in chosen[:8]] == longest
    assert len({row.row for row in chosen}) == 20
    assert chosen == subset(rows, TrialLimits(rows=20, seed=3), batch=8)
    assert chosen != subset(rows, TrialLimits(rows=20, seed=4), batch=8)


def test_limits_are_capped_and_fewer_rows_are_all_taken() -> None:
    wild = TrialLimits(rows=9_999, validation_rows=999, steps=999, minutes=999).capped()

    assert (wild.rows, wild.validation_rows, wild.steps, wild.minutes) == (512, 64, 50, 30.0)
    assert len(subset(rows_of([5, 6, 7]), wild, batch=8)) == 3


@pytest.mark.parametrize("seed", range(5))
def test_a_prediction_from_twenty_steps_comes_within_a_tenth_of_the_whole_run(seed: int) -> None:
    """Steps of a made-up machine: 30 ms and 2 ns for each unit of work, with a tenth of noise."""
    dice = random.Random(seed)
    work = [dice.uniform(1e7, 9e7) for _ in range(300)]
    cost = [(0.03 + 2e-9 * w) * dice.lognormvariate(0, 0.1) for w in work]
    longest = [StepCost((0.03 + 2e-9 * 9e7) * 1.5, 9e7), StepCost(0.2, 9e7)]
    measured = [*longest, *(StepCost(c, w) for c, w in zip(cost[:18], work[:18], strict=True))]

    predicted = predict(measured, work, total_steps=300, seed=seed)

    assert predicted is not None
    assert predicted.seconds == pytest.approx(sum(cost), rel=0.1)
    assert predicted.low < predicted.seconds < predicted.high


def test_too_few_steps_predict_nothing_and_tight_memory_and_time_are_told() -> None:
    few = [StepCost(1.0, 1.0)] * 3
    enough = predict([StepCost(36.0, 1.0)] * 9, [1.0] * 200, total_steps=200)

    sentences = list(advice(used=95, available=100, predicted=enough, runtime_hours=1.5))

    assert predict(few, [1.0], total_steps=1) is None
    assert "95% full" in sentences[0]
    assert "may be too short for 2.1 h" in sentences[1]


def test_a_trial_on_the_processor_reports_steps_memory_and_what_it_could_not_measure(
    tiny_base: Base, tmp_path: Path
) -> None:
    train = _file(tmp_path / "train.jsonl", animal_rows(60, seed=1))
    held = _file(tmp_path / "validation.jsonl", animal_rows(20, seed=2))

    report = run_trial(tiny_base, train, held, PLAIN, TrialLimits(rows=24, steps=9), clock=time.process_time)

    assert (report["completed"], report["steps"], report["rows"], report["full_run_steps"]) == (True, 9, 24, 32)
    assert report["prediction"]["low"] <= report["prediction"]["seconds"] <= report["prediction"]["high"]
    assert report["memory_allocated_mb"] > 0
    assert set(report["missing"]) == {"memory_reserved_mb"}
    assert report["validation_loss"] > 0


def test_a_trial_at_its_time_limit_is_not_completed_and_keeps_what_it_measured(tiny_base: Base, tmp_path: Path) -> None:
    train = _file(tmp_path / "train.jsonl", animal_rows(20, seed=1))

    report = run_trial(tiny_base, train, None, PLAIN, TrialLimits(minutes=0.0))

    assert (report["completed"], report["prediction"]) == (False, None)
    assert "were over after 0 of 20 steps" in report["missing"]["steps"]


def _file(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path
