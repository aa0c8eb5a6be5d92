"""Append-only JSON lines: what happened (`events.jsonl`) and the curves (`metrics.jsonl`).

events.jsonl   {"at", "machine", "attempt", "boot", "log", "kind", …facts}
               log: how many bytes log.txt had then, so that its lines, which say no time, find their place
               kinds: started, restarted, rows_prepared, model_loaded, memory_planned (what the heaviest pass will take, and
               whether activations are computed again), resumed, checkpoint, halted, packaged,
               evaluated, failed, narrowed (memory was too small, fewer rows go through at a time), overfitting,
               stopped_early, trial_over_time, not_finite (the step's loss and gradient norm as text)
metrics.jsonl  {"at", "attempt", "boot", "step", "epoch", "loss", "learning_rate", "grad_norm", "tokens_per_second",
               "seconds"} for each optimizer step, and {"at", "attempt", "boot", "step", "epoch", "validation_loss"} for
               each validation, with "exact_match" and "token_f1" where rows were answered at it. After a restart on the same machine the file goes on: of two lines with the same step
               and the same curve the later one counts.
A line is whole once it ends in a newline; a torn one is cut off when the file is opened again.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trainer.contract import EVENTS, LOG, METRICS, SAMPLES

Fact = str | int | float | bool | None | list[str] | dict[str, bool]
"""Of JSON."""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Journal:
    """The two files of one attempt, stamped with who writes."""

    outputs: Path
    machine: str
    attempt: int
    boot: int

    def open(self) -> None:
        """Cut off what a crash left half written."""
        for name in (EVENTS, METRICS, SAMPLES):
            _cut_torn_line(self.outputs / name)

    def event(self, kind: str, **facts: Fact) -> None:
        log = self.outputs / LOG
        who: dict[str, Fact] = {"at": now(), "machine": self.machine, "attempt": self.attempt, "boot": self.boot}
        who["log"] = log.stat().st_size if log.exists() else 0
        _append(self.outputs / EVENTS, who | {"kind": kind} | facts)

    def metric(self, step: int, epoch: float, **values: float) -> None:
        stamp: dict[str, Fact] = {"at": now(), "attempt": self.attempt, "boot": self.boot, "step": step}
        _append(self.outputs / METRICS, {**stamp, "epoch": round(epoch, 4), **values})


def _append(path: Path, line: dict[str, Fact]) -> None:
    append_line(path, json.dumps(line, ensure_ascii=False, allow_nan=False))


def append_line(path: Path, text: str) -> None:
    with path.open("ab") as file:
        file.write(f"{text}\n".encode())
        file.flush()
        os.fsync(file.fileno())


def _cut_torn_line(path: Path) -> None:
    if not path.exists():
        return
    with path.open("r+b") as file:
        whole = file.read().rfind(b"\n") + 1
        file.truncate(whole)
