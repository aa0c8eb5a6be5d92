"""The files of a simulated attempt: like the real trainer's, but not synced to the disk, for that takes milliseconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from trainer.contract import (
    BOOT,
    CHECKPOINTS,
    CONSOLE,
    EVENTS,
    MANIFEST,
    METRICS,
    RESULT,
    STATUS,
    Answer,
    AttemptKeys,
    Boot,
    EvaluateJob,
    FileEntry,
    Manifest,
    Result,
    Status,
    TrainJob,
    Words,
    dump,
    load,
)

ANSWERS = "answers.jsonl"
_RIGHT = {False: 4, True: 9}
"""Of ten test rows, by whether there is an adapter."""


@dataclass(slots=True)
class Folder:
    """The folders of one attempt on the volume."""

    volume: Path
    job: TrainJob | EvaluateJob
    keys: AttemptKeys
    boots: int = 0
    answers: Sequence[Answer] = ()

    @classmethod
    def open(cls, volume: Path, key: str) -> Folder:
        text = (volume / key).read_text()
        job: TrainJob | EvaluateJob
        if "options" in json.loads(text):
            use, job = "runs", load(TrainJob, text)
        else:
            use, job = "evaluations", load(EvaluateJob, text)
        return cls(volume, job, AttemptKeys.of(use, job.subject_id, job.attempt))

    @property
    def outputs(self) -> Path:
        return self.volume / self.keys.outputs

    @property
    def adapter(self) -> Path:
        return self.volume / self.keys.adapter

    def boot(self, at: datetime) -> int:
        """Count one more start of this attempt."""
        path = self.outputs / BOOT
        self.boots = (load(Boot, path.read_text()).boot if path.exists() else 0) + 1
        job = self.job
        put(path, dump(Boot(job.machine, job.attempt, self.boots, 1, "0", "emulated", at.isoformat())))
        self.event(at, self.boots, "started" if self.boots == 1 else "restarted")
        return self.boots

    def words(self) -> Words | None:
        try:
            return load(Words, (self.volume / self.keys.inputs / CONSOLE).read_text())
        except (OSError, ValueError, TypeError):
            return None

    def beat(self, status: Status) -> None:
        put(self.outputs / STATUS, dump(status))

    def event(self, at: datetime, boot: int, kind: str, **facts: Any) -> None:
        who = {"at": at.isoformat(), "machine": self.job.machine, "attempt": self.job.attempt, "boot": boot}
        self._append(EVENTS, who | {"kind": kind} | facts)

    def metric(self, at: datetime, boot: int, step: int, total: int) -> None:
        stamp = {"at": at.isoformat(), "attempt": self.job.attempt, "boot": boot, "step": step}
        values = {"epoch": round(step / total, 4), "loss": round(2.0 / (1 + step), 4), "learning_rate": 2e-4}
        self._append(METRICS, stamp | values | {"grad_norm": 1.0, "tokens_per_second": 900.0, "seconds": 10.0})

    def checkpoint(self, step: int) -> None:
        if step:
            files = {"adapter_model.safetensors": b"weights", "state.json": json.dumps({"step": step}).encode()}
            (self.outputs / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
            (self.outputs / CHECKPOINTS / "adapter_config.json").write_text("{}")
            seal(self.outputs / CHECKPOINTS / f"step-{step:06d}", files, {"step": step})

    def newest_step(self, job: TrainJob) -> int:
        """Of this attempt's own checkpoints, or else of the earlier attempts' that the job names."""
        for key in (self.keys.outputs, *job.resume_from):
            found = sorted((self.volume / key / CHECKPOINTS).glob(f"step-*/{MANIFEST}"))
            if found:
                return int(found[-1].parent.name.removeprefix("step-"))
        return 0

    def publish(self, files: Mapping[str, bytes], step: int) -> None:
        """Moved into its place whole; where a twin was faster the move fails, and that one's stays."""
        if (self.adapter / MANIFEST).exists():
            return
        base = self.job.base
        seal(self.adapter, files, {"step": step, "loss": 0.1, "base": base.repo_id, "revision": base.revision})

    def finish(self, result: Result) -> None:
        """Written once; an evaluation's answers before it."""
        facts: dict[str, Any] = {}
        if self.answers:
            text = "".join(f"{dump(answer)}\n" for answer in self.answers)
            put(self.outputs / ANSWERS, text)
            exact = sum(answer.exact for answer in self.answers) / len(self.answers)
            facts = {
                "answers": f"{self.keys.outputs}/{ANSWERS}",
                "answers_sha256": hashlib.sha256(text.encode()).hexdigest(),
                "scores": {"exact_match": exact, "token_f1": exact, "rouge_l": exact, "did_not_stop": 0},
            }
        if not (self.outputs / RESULT).exists():
            put(self.outputs / RESULT, json.dumps(json.loads(dump(result)) | facts))

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        self.outputs.mkdir(parents=True, exist_ok=True)
        with (self.outputs / name).open("a") as file:
            file.write(f"{json.dumps(line)}\n")


def adapter_files(job: TrainJob, boot: int) -> Mapping[str, bytes]:
    """A small adapter; its bytes tell which attempt and boot made it."""
    stamp = hashlib.sha256(f"{job.subject_id}/{job.attempt}/{boot}".encode()).digest()
    header = json.dumps({"lora_A.weight": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}}).encode()
    config = {"peft_type": "LORA", "r": job.options.rank, "base_model_name_or_path": job.base.repo_id}
    return {
        "adapter_model.safetensors": len(header).to_bytes(8, "little") + header + stamp,
        "adapter_config.json": json.dumps(config).encode(),
    }


def answers_of(job: EvaluateJob, volume: Path) -> Sequence[Answer]:
    """An answer to each test row: 4 of 10 right for the base alone, 9 of 10 with an adapter."""
    import pyarrow.parquet as pq

    right = _RIGHT[job.adapter is not None]
    answers = []
    for row in pq.read_table(volume / job.test).to_pylist():
        expected = str(json.loads(row["example"])["messages"][-1]["content"])
        is_exact = int(row["row"]) % 10 < right
        likely = expected if is_exact else next((label for label in job.labels if label != expected), expected)
        said: dict[str, Any] = {
            "answer": expected if is_exact else "?",
            "exact": is_exact,
            "f1": float(is_exact),
            "stopped": True,
        }
        known: dict[str, Any] = {"likely": likely, "likely_correct": likely == expected} if job.labels else {}
        answers.append(Answer(row=row["row"], expected=expected, **said, **known, rouge_l=float(is_exact)))
    return answers


def seal(folder: Path, files: Mapping[str, bytes], facts: Mapping[str, Any]) -> None:
    """The files, then the manifest that names them."""
    entries = {name: FileEntry(hashlib.sha256(content).hexdigest(), len(content)) for name, content in files.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    put(folder / MANIFEST, dump(Manifest(entries, facts)))


def put(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.aside")
    aside.write_text(text)
    aside.replace(path)
