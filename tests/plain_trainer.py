"""A stand-in for the trainer's interpreter: `plain_trainer -m trainer mask --job …` takes every word for a token.

Rows that hold `UNREADABLE` are refused, as a template refuses rows, and those that hold `SYSTEM` where the system text
is not merged; `CRASH` ends the process half-way.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trainer.contract import MASK, MASK_SUMMARY, MaskJob, MaskSummary, RowError, dump, hash_file, load, write_file


def write_python(folder: Path) -> Path:
    """A program to name in TENSORANT_TRAINER_PYTHON."""
    python = folder / "trainer-python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} "$@"\n')
    python.chmod(0o755)
    return python


def mask(job: MaskJob) -> None:
    lines, errors, system_refused = [], [], 0
    for split, path in job.files.items():
        for row in pq.read_table(path).to_pylist():
            texts = [str(message["content"]) for message in json.loads(row["example"])["messages"]]
            if "CRASH" in texts[0]:
                raise RuntimeError("The tokenizer could not be read")
            if "UNREADABLE" in texts[0]:
                errors.append(RowError(split, row["row"], "the template refuses it"))
            if "SYSTEM" in texts[0] and not job.merge_system:
                errors.append(RowError(split, row["row"], "the template has no system role"))
                system_refused += 1
            tokens = sum(len(text.split()) for text in texts)
            lines.append({"split": split, "row": row["row"], "tokens": tokens, "trained_tokens": 1})
    pq.write_table(pa.Table.from_pylist(lines), Path(job.output) / MASK)
    write_file(
        Path(job.output) / MASK_SUMMARY, dump(replace(summary_of(job, lines, errors), system_refused=system_refused))
    )


def summary_of(job: MaskJob, lines: list[dict[str, Any]], errors: list[RowError]) -> MaskSummary:
    folder = Path(job.base.folder)
    per_split = {split: [line for line in lines if line["split"] == split] for split in job.files}
    return MaskSummary(
        rows=len(lines),
        tokens={split: sum(line["tokens"] for line in of_split) for split, of_split in per_split.items()},
        trained_tokens={split: len(of_split) for split, of_split in per_split.items()},
        longest=max(line["tokens"] for line in lines),
        errors=tuple(errors),
        tokenizer_sha256=hash_file(folder / "tokenizer.json").sha256,
        template_sha256=hashlib.sha256((folder / "chat_template.jinja").read_bytes()).hexdigest(),
    )


if __name__ == "__main__":
    mask(load(MaskJob, Path(sys.argv[-1]).read_text()))
