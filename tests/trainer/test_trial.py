"""A trial: which rows it takes, what it measures, and how close its prediction comes to a whole run."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.conftest import OPTIONS, Volume, animal_rows
from trainer.chat import Encoded
from trainer.contract import (
    CONSOLE,
    EVENTS,
    METRICS,
    SAMPLES,
    TRIAL,
    Ask,
    AttemptKeys,
    Base,
    Outcome,
    TrialLimits,
    TrialReport,
    Words,
    dump,
    load,
    verify_folder,
    write_file,
)
from trainer.trial import StepCost, advice, predict, subset
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

    assert (report.completed, report.steps, report.rows, report.full_run_steps) == (True, 9, 24, 32)
    assert report.prediction is not None
    assert report.prediction.low <= report.prediction.seconds <= report.prediction.high
    assert (report.memory_allocated_mb or 0) > 0
    assert set(report.missing) == {"memory_reserved_mb"}
    assert (report.validation_loss or 0) > 0
    assert (report.validation_rows, len(report.losses)) == (16, 9)


def test_a_trial_at_its_time_limit_is_not_completed_and_keeps_what_it_measured(tiny_base: Base, tmp_path: Path) -> None:
    train = _file(tmp_path / "train.jsonl", animal_rows(20, seed=1))

    report = run_trial(tiny_base, train, None, PLAIN, TrialLimits(minutes=0.0))

    assert (report.completed, report.prediction) == (False, None)
    assert "were over after 0 of 20 steps" in report.missing["steps"]


class TestOnAMachine:
    """The subcommand `trial` on a job, as a run's machine has it."""

    def report(self, volume: Volume, keys: AttemptKeys) -> TrialReport:
        return load(TrialReport, (volume.root / keys.outputs / TRIAL).read_text())

    def test_it_measures_its_bounds_and_leaves_an_adapter_that_says_what_it_is(self, volume: Volume) -> None:
        limits = TrialLimits(rows=24, validation_rows=4, steps=8, runtime_hours=0.00001)
        keys = volume.add_run("trial", options=PLAIN, trial=limits, sample_prompts=("one cat",))

        assert volume.run("trial", keys, verify=True) == 0, volume.log(keys).read_text()

        result, report = volume.result(keys), self.report(volume, keys)
        assert (result.outcome, result.step, result.total_steps) == (Outcome.DONE, 8, 8)
        assert (report.completed, report.rows, report.steps, report.validation_rows) == (True, 24, 8, 4)
        assert report.full_run_steps == 24, "44 rows, 8 at a step, 4 epochs"
        assert report.prediction is not None
        assert "may be too short" in report.advice[0]
        lines = volume.lines(keys, METRICS)
        assert [round(line["seconds"], 2) for line in lines if "loss" in line] == pytest.approx(
            report.step_seconds, abs=0.25
        )
        assert lines[-1]["validation_loss"] == report.validation_loss
        assert [line["prompt"] for line in volume.lines(keys, SAMPLES)] == ["one cat"]
        adapter = volume.root / keys.adapter
        assert verify_folder(adapter).facts["purpose"] == "trial"
        assert "not for use" in (adapter / "README.md").read_text()

    def test_at_its_deadline_it_has_failed_and_tells_what_is_missing_and_why(self, volume: Volume) -> None:
        at = datetime.now(UTC) - timedelta(seconds=1)
        keys = volume.add_run("trial-late", options=PLAIN, trial=TrialLimits(rows=16, steps=7))
        write_file(volume.root / keys.inputs / CONSOLE, dump(Words(1, Ask.NONE, at.isoformat())))

        code = volume.run("trial", keys, patch="patient")

        report, result = self.report(volume, keys), volume.result(keys)
        assert code == 71
        assert result.failure is not None
        assert (result.outcome, result.failure.code) == (Outcome.FAILED, "trial_over_time")
        assert (report.completed, report.prediction, report.memory_allocated_mb) == (False, None, None)
        assert "after 0 of 7 steps, while the rows were read" in report.missing["steps"]
        assert "was not loaded" in report.missing["memory_allocated_mb"]
        assert volume.lines(keys, EVENTS)[-1]["kind"] == "trial_over_time"

    def test_a_row_that_cannot_be_trained_fails_it_before_the_model_is_loaded(self, volume: Volume) -> None:
        bad = volume.add_split("trial-bad", [*animal_rows(3, seed=1), {"messages": [{"role": "user", "content": "x"}]}])
        keys = volume.add_run("trial-bad", options=PLAIN, trial=TrialLimits(), train=bad)

        assert volume.run("trial", keys) == 10

        report = self.report(volume, keys)
        assert not report.completed
        assert "It failed (Row 4 of the train split" in report.missing["steps"]


def _file(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path
