"""The trainer beside TRL and transformers: the same rows, model, LoRA and threads, in alternation, in CPU seconds.

Each measurement is a process of its own (`benchmarks.trainer_work`), with one thread unless it says otherwise, and what it
must equal is asserted in the same run. TENSORANT_BENCH_PAIRS (5) says how often each is repeated, TENSORANT_BENCH_SEEDS (5)
how many trials are held against a whole run. All of it takes about 25 CPU minutes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.table import Row

PAIRS = int(os.environ.get("TENSORANT_BENCH_PAIRS", "5"))
SEEDS = int(os.environ.get("TENSORANT_BENCH_SEEDS", "5"))
PEERS = {"default": "trl", "best": "trl_best"}
TRL, GENERATE = "TRL 1.16.0", "transformers generate, batches of 16"
CLOSE = 1e-5
"""Largest difference of the last loss to that of rows which share nothing."""
WITHIN = 10.0
"""Percent by which a trial's prediction may be wrong."""
Runs = dict[str, list[dict[str, Any]]]


def measure() -> list[Row]:
    return [*_training("shared"), *_training("plain"), *_evaluation(), *_mask(), *_first_step(), *_trials()]


def _training(data: str) -> Iterator[Row]:
    runs = _alternating(("ours", *PEERS.values()), data)
    for name, peer in PEERS.items():
        yield _row(f"trainer.{data}.vs_trl_{name}", runs, ("ours", peer), _speed, "rows/CPU-s", TRL)
    yield _row(f"trainer.{data}.memory_vs_trl_best", runs, ("ours", "trl_best"), lambda one: one["rss_mb"], "MB", TRL)
    difference = abs(runs["ours"][0]["loss"] - _run("unpacked", data)["loss"])
    assert difference <= CLOSE, f"packed rows end at another loss, {difference:.2g} away"
    yield Row(f"trainer.{data}.loss_difference", difference, "nats")


def _evaluation() -> Iterator[Row]:
    runs = _alternating(("evaluate", "generate"), "shared")
    answers = [one["answers"] for name in runs for one in runs[name]]
    assert all(one == answers[0] for one in answers), "both must answer the same, each time"
    yield _row("trainer.eval.vs_generate", runs, ("evaluate", "generate"), _speed, "rows/CPU-s", GENERATE)


def _mask() -> Iterator[Row]:
    runs = [_run("mask", "shared") for _ in range(PAIRS)]
    yield Row("trainer.mask_rows_per_s", _median(one["rows"] / one["wall"] for one in runs), "rows/s")
    yield Row("trainer.mask_rows_per_cpu_s", _median(_speed(one) for one in runs), "rows/CPU-s")


def _first_step() -> Iterator[Row]:
    """From the start of `python -m trainer train` to its first optimizer step, on every core that it may use."""
    runs = [_run("first_step", "shared") for _ in range(PAIRS)]
    yield Row("trainer.first_step_s", _median(one["wall"] for one in runs), "s")
    yield Row("trainer.first_step_least_s", min(one["wall"] for one in runs), "s")
    yield Row("trainer.first_step_cpu_s", _median(one["cpu"] for one in runs), "CPU-s")


def _trials() -> Iterator[Row]:
    """Out of sample: 20 steps of a trial beside the optimizer steps of the whole run."""
    errors = [_run("trial", "shared", seed=seed)["error_pct"] for seed in range(SEEDS)]
    yield Row("trainer.trial_error_pct", _median(abs(error) for error in errors), "%")
    yield Row("trainer.trial_seeds_within_10_pct", sum(abs(error) <= WITHIN for error in errors), f"of {SEEDS}")


def _alternating(who: Sequence[str], data: str) -> Runs:
    runs: Runs = {name: [] for name in who}
    for _ in range(PAIRS):
        for name in who:
            runs[name].append(_run(name, data))
    return runs


def _row(
    name: str, runs: Runs, who: tuple[str, str], figure: Callable[[dict[str, Any]], float], unit: str, peer: str
) -> Row:
    ours, theirs = (_median(figure(one) for one in runs[side]) for side in who)
    return Row(name, ours, unit, f"{peer} ({who[1]})", theirs)


def _speed(one: dict[str, Any]) -> float:
    return float(one["rows"] / one["cpu"])


def _median(values: Iterator[float]) -> float:
    return float(statistics.median(values))


def _run(who: str, data: str, *, seed: int = 0) -> dict[str, Any]:
    env = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    env |= {"OMP_NUM_THREADS": "1"} if who not in ("mask", "first_step") else {}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.trainer_work", who, data, str(seed)]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"{who} on {data} failed.\n{ended.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    print(who, data, {key: value for key, value in result.items() if key != "answers"}, file=sys.stderr, flush=True)
    return result
