"""Shows what a model will learn from each row: its tokens, and the characters of the rendered text that are trained."""

from __future__ import annotations

import hashlib
import heapq
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainer.base import load_tokenizer, stop_tokens
from trainer.contract import (
    MASK,
    MASK_SUMMARY,
    PROGRESS,
    LongRow,
    MaskJob,
    MaskSummary,
    RowError,
    dump,
    hash_file,
    write_file,
)
from trainer.data import Example, Limits, encode_row
from trainer.images import ImageTokens, open_processor
from trainer.pieces import in_processes
from trainer.template import ADVICE_SYSTEM

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from transformers import PreTrainedTokenizerBase

BETWEEN = "\n\n"
"""Between the sequences of a row whose template needs one for each reply."""
TELL_EVERY = 1.0
"""Seconds between two writes of progress.json."""
PIECE = 250
"""Rows handed to a process at once."""
TOGETHER, LETTERS_TOGETHER = 1_000, 8_000_000
"""Rows of one row group of mask.parquet, fewer where they are long: a page is found sooner among fewer groups."""
LISTED = 1_000
"""Rows that cannot be trained are listed up to this many; all of them stand in mask.parquet."""


class _Line(NamedTuple):
    """One row of mask.parquet, its columns in order."""

    split: str
    row: int
    tokens: int
    trained_tokens: int
    longest: int
    """Tokens of its longest sequence, which is what must fit into the context."""
    sequences: int
    image_tokens: int
    spans: str
    error: str | None
    text: str


@dataclass(frozen=True, slots=True)
class _Eyes:
    tokenizer: PreTrainedTokenizerBase
    limits: Limits
    images: ImageTokens | None


_eyes: _Eyes | None = None
"""Of a worker process, which inherits it; a tokenizer takes a second to load."""


@dataclass(slots=True)
class _Totals:
    rows: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    trained: dict[str, int] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    image_tokens: dict[str, int] = field(default_factory=dict)
    system_refused: int = 0
    refused: int = 0
    errors: list[RowError] = field(default_factory=list)
    longest: list[tuple[int, str, int]] = field(default_factory=list)

    def open(self, split: str) -> None:
        for counted in (self.tokens, self.trained, self.sequences, self.image_tokens):
            counted[split] = 0

    def add(self, lines: Sequence[_Line]) -> None:
        for line in lines:
            self.tokens[line.split] += line.tokens
            self.trained[line.split] += line.trained_tokens
            self.sequences[line.split] += line.sequences
            self.image_tokens[line.split] += line.image_tokens
            if line.error is not None:
                self._refuse(line, line.error)
        self.rows += len(lines)
        found = ((line.longest, line.split, line.row) for line in lines)
        self.longest = heapq.nlargest(LongRow.LISTED, [*self.longest, *found], key=lambda one: one[0])

    def _refuse(self, line: _Line, error: str) -> None:
        self.refused += 1
        self.system_refused += ADVICE_SYSTEM in error
        if len(self.errors) < LISTED:
            self.errors.append(RowError(line.split, line.row, error))


def make_mask(job: MaskJob) -> MaskSummary:
    """Write mask.parquet, then mask.json; rows that cannot be trained are listed and never end the work."""
    global _eyes
    tokenizer = load_tokenizer(job.base)
    images = ImageTokens(open_processor(Path(job.base.folder)), Path(job.images)) if job.images else None
    _eyes = _Eyes(tokenizer, Limits(stop_tokens(job.base, tokenizer), job.context_length), images)
    totals = _write_rows(job)
    summary = MaskSummary(
        rows=totals.rows,
        tokens=totals.tokens,
        trained_tokens=totals.trained,
        longest=totals.longest[0][0] if totals.longest else 0,
        errors=tuple(totals.errors),
        tokenizer_sha256=_tokenizer_hash(Path(job.base.folder)),
        template_sha256=hashlib.sha256(str(tokenizer.chat_template).encode()).hexdigest(),
        sequences=totals.sequences,
        system_refused=totals.system_refused,
        refused=totals.refused,
        image_tokens=totals.image_tokens if job.images else {},
        longest_rows=tuple(LongRow(split, row, tokens) for tokens, split, row in totals.longest if tokens),
    )
    write_file(Path(job.output) / MASK_SUMMARY, dump(summary))
    return summary


def _write_rows(job: MaskJob) -> _Totals:
    import pyarrow.parquet as pq

    output, totals, told = Path(job.output), _Totals(), 0.0
    output.mkdir(parents=True, exist_ok=True)
    for split in job.files:
        totals.open(split)
    aside = output / f".{MASK}"
    total = sum(pq.read_metadata(path).num_rows for path in job.files.values())
    with pq.ParquetWriter(aside, _schema(), compression="zstd") as writer:
        held: list[_Line] = []
        for lines in in_processes(_lines, _pieces(job), rows=total):
            totals.add(lines)
            held += lines
            if len(held) >= TOGETHER or sum(len(line.text) for line in held) > LETTERS_TOGETHER:
                _write(writer, held)
            if time.monotonic() - told > TELL_EVERY:
                told = time.monotonic()
                _tell(output, totals.rows, total)
        _write(writer, held)
    aside.replace(output / MASK)
    _tell(output, total, total)
    return totals


def _write(writer: pq.ParquetWriter, lines: list[_Line]) -> None:
    """As one row group."""
    import pyarrow as pa

    if lines:
        writer.write_table(pa.table([list(column) for column in zip(*lines, strict=True)], schema=_schema()))
        lines.clear()


def _schema() -> pa.Schema:
    import pyarrow as pa

    kinds = {int: pa.int64(), str: pa.string()}
    numbers = ("row", "tokens", "trained_tokens", "longest", "sequences", "image_tokens")
    return pa.schema([(name, kinds[int if name in numbers else str]) for name in _Line._fields])


def _pieces(job: MaskJob) -> Iterator[tuple[str, list[Example]]]:
    """A few rows at a time, so that memory does not grow with the version."""
    import pyarrow.parquet as pq

    for split, path in job.files.items():
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(PIECE, columns=["row", "example"], use_threads=False):
                rows, texts = (batch.column(name).to_pylist() for name in ("row", "example"))
                yield split, [Example(row, text, job.merge_system) for row, text in zip(rows, texts, strict=True)]


def _lines(piece: tuple[str, Sequence[Example]]) -> list[_Line]:
    split, examples = piece
    assert _eyes is not None, "set before the first piece"
    return [_line(_eyes, split, example) for example in examples]


def _line(eyes: _Eyes, split: str, example: Example) -> _Line:
    encoded, error = encode_row(eyes.tokenizer, split, example, eyes.limits, eyes.images)
    spans, shift = [], 0
    for one in encoded:
        spans += [[shift + start, shift + end] for start, end in one.spans]
        shift += len(one.text) + len(BETWEEN)
    return _Line(
        split=split,
        row=example.row,
        tokens=sum(len(one.ids) for one in encoded),
        trained_tokens=sum(one.trained_tokens for one in encoded),
        longest=max((len(one.ids) for one in encoded), default=0),
        sequences=len(encoded),
        image_tokens=sum(one.image_tokens for one in encoded),
        spans=json.dumps(spans),
        error=error.message if error else None,
        text=BETWEEN.join(one.text for one in encoded),
    )


def _tell(output: Path, done: int, total: int) -> None:
    write_file(output / PROGRESS, json.dumps({"done": done, "total": total}))


def _tokenizer_hash(folder: Path) -> str:
    path = folder / "tokenizer.json"
    return hash_file(path if path.is_file() else folder / "tokenizer.model").sha256
