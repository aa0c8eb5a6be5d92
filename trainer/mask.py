"""Shows what a model will learn from each row: its tokens, and the characters of the rendered text that are trained."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.base import load_tokenizer, stop_tokens
from trainer.chat import Encoded
from trainer.contract import MASK, MASK_SUMMARY, PROGRESS, MaskJob, MaskSummary, RowError, dump, hash_file, write_file
from trainer.data import Example, Limits, encode_row, read_examples
from trainer.template import ADVICE_SYSTEM

if TYPE_CHECKING:
    import pyarrow as pa
    from transformers import PreTrainedTokenizerBase

BETWEEN = "\n\n"
"""Between the sequences of a row whose template needs one for each reply."""
TELL_EVERY = 1.0
"""Seconds between two writes of progress.json."""


@dataclass(slots=True)
class _Totals:
    rows: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    trained: dict[str, int] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    system_refused: int = 0
    longest: int = 0
    errors: list[RowError] = field(default_factory=list)

    def add(self, split: str, encoded: Sequence[Encoded], error: RowError | None, *, rows: int = 1) -> None:
        self.rows += rows
        self.tokens[split] = self.tokens.get(split, 0) + sum(len(one.ids) for one in encoded)
        self.trained[split] = self.trained.get(split, 0) + sum(one.trained_tokens for one in encoded)
        self.sequences[split] = self.sequences.get(split, 0) + len(encoded)
        self.system_refused += bool(error and ADVICE_SYSTEM in error.message)
        self.longest = max([self.longest, *(len(one.ids) for one in encoded)])
        self.errors += [error] if error else []


def make_mask(job: MaskJob) -> MaskSummary:
    """Write mask.parquet, then mask.json; rows that cannot be trained are listed and never end the work."""
    tokenizer = load_tokenizer(job.base)
    limits = Limits(stop_tokens(job.base, tokenizer), job.context_length)
    splits = {split: read_examples(Path(path), merges_system=job.merge_system) for split, path in job.files.items()}
    totals = _Totals()
    _write_rows(Path(job.output), tokenizer, splits, limits, totals)
    summary = MaskSummary(
        rows=totals.rows,
        tokens=totals.tokens,
        trained_tokens=totals.trained,
        longest=totals.longest,
        errors=tuple(totals.errors),
        tokenizer_sha256=_tokenizer_hash(Path(job.base.folder)),
        template_sha256=hashlib.sha256(str(tokenizer.chat_template).encode()).hexdigest(),
        sequences=totals.sequences,
        system_refused=totals.system_refused,
    )
    write_file(Path(job.output) / MASK_SUMMARY, dump(summary))
    return summary


def _write_rows(
    output: Path,
    tokenizer: PreTrainedTokenizerBase,
    splits: Mapping[str, Sequence[Example]],
    limits: Limits,
    totals: _Totals,
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    output.mkdir(parents=True, exist_ok=True)
    aside, total = output / f".{MASK}", sum(len(examples) for examples in splits.values())
    told, schema = 0.0, _schema()
    with pq.ParquetWriter(aside, schema, compression="zstd") as writer:
        for split, examples in splits.items():
            totals.add(split, [], None, rows=0)
            for piece in _pieces(examples, 256):
                lines = [_line(tokenizer, split, example, limits, totals) for example in piece]
                writer.write_table(pa.Table.from_pylist(lines, schema=schema))
                if time.monotonic() - told > TELL_EVERY:
                    told = time.monotonic()
                    _tell(output, totals.rows, total)
    aside.replace(output / MASK)
    _tell(output, total, total)


def _schema() -> pa.Schema:
    import pyarrow as pa

    kinds = dict.fromkeys(("split", "row", "tokens", "trained_tokens", "spans", "error", "text"), pa.string())
    return pa.schema((kinds | dict.fromkeys(("row", "tokens", "trained_tokens"), pa.int64())).items())


def _line(
    tokenizer: PreTrainedTokenizerBase, split: str, example: Example, limits: Limits, totals: _Totals
) -> dict[str, str | int | None]:
    encoded, error = encode_row(tokenizer, split, example, limits)
    totals.add(split, encoded, error)
    spans, shift = [], 0
    for one in encoded:
        spans += [[shift + start, shift + end] for start, end in one.spans]
        shift += len(one.text) + len(BETWEEN)
    return {
        "split": split,
        "row": example.row,
        "tokens": sum(len(one.ids) for one in encoded),
        "trained_tokens": sum(one.trained_tokens for one in encoded),
        "spans": json.dumps(spans),
        "error": error.message if error else None,
        "text": BETWEEN.join(one.text for one in encoded),
    }


def _pieces(examples: Sequence[Example], size: int) -> list[Sequence[Example]]:
    return [examples[first : first + size] for first in range(0, len(examples), size)]


def _tell(output: Path, done: int, total: int) -> None:
    write_file(output / PROGRESS, json.dumps({"done": done, "total": total}))


def _tokenizer_hash(folder: Path) -> str:
    path = folder / "tokenizer.json"
    return hash_file(path if path.is_file() else folder / "tokenizer.model").sha256
