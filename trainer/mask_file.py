"""Shows for every row of a file what a model would read and learn of it, before anything is rented."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.base import open_tokenizer, stop_tokens_in
from trainer.data import Example, Limits, encode_row
from trainer.pieces import in_processes
from trainer.preview import preview
from trainer.template import Template, template_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PIECE = 500
"""Rows handed to a process at once."""


@dataclass(frozen=True, slots=True)
class MaskedRow:
    """One line of the report; its words are those of `tensorant data mask --json`."""

    row: int
    tokens: int
    """Of the rendered conversation."""
    trained_tokens: int
    """Tokens of the rendered conversation that are trained."""
    rendered_chars: int
    rendered_sha256: str
    error: str | None
    warnings: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    """The trained ranges, in characters of the rendered text."""
    sequences: tuple[tuple[int, int], ...]
    """Tokens, and trained tokens, of each sequence that training makes of the row: one, or one for each reply."""


@dataclass(frozen=True, slots=True)
class _Eyes:
    tokenizer: PreTrainedTokenizerBase
    limits: Limits
    template: Template


_eyes: _Eyes | None = None
"""Of a worker process, which inherits it; a tokenizer takes a second to load."""


def mask_file(path: Path, tokenizer: Path, *, context: int | None, merged: bool = False) -> Iterator[MaskedRow]:
    """In the order of the file."""
    global _eyes
    opened = open_tokenizer(tokenizer)
    stops = stop_tokens_in(tokenizer, opened)
    _eyes = _Eyes(opened, Limits(stops, context), template_of(opened, stops))
    examples = [Example(number, text, merged) for number, text in enumerate(texts_of(path), start=1)]
    pieces = [examples[first : first + PIECE] for first in range(0, len(examples), PIECE)]
    for masked in in_processes(_masked_piece, pieces, rows=len(examples)):
        yield from masked


def as_json(rows: Sequence[MaskedRow]) -> Mapping[str, Any]:
    return {"rows": [asdict(row) for row in rows]}


def texts_of(path: Path) -> list[str]:
    """One JSON text for each row: JSON lines (blank lines are no rows), a JSON list, or a frozen split."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return [str(text) for text in pq.read_table(path, columns=["example"]).column("example").to_pylist()]
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix == ".json" and text.lstrip().startswith("["):
        return [json.dumps(row, ensure_ascii=False) for row in json.loads(text)]
    return [line for line in text.split("\n") if line.strip()]


def _masked_piece(examples: Sequence[Example]) -> list[MaskedRow]:
    assert _eyes is not None, "set before the first piece"
    return [_masked(example, _eyes) for example in examples]


def _masked(example: Example, eyes: _Eyes) -> MaskedRow:
    sequences, error = encode_row(eyes.tokenizer, None, example, eyes.limits)
    if not sequences:
        return MaskedRow(example.row, 0, 0, 0, "", error.message if error else None, (), (), ())
    seen = preview(eyes.template, example.parse(), sequences)
    return MaskedRow(
        row=example.row,
        tokens=seen.tokens,
        trained_tokens=seen.trained_tokens,
        rendered_chars=len(seen.text),
        rendered_sha256=hashlib.sha256(seen.text.encode("utf-8", "surrogatepass")).hexdigest(),
        error=error.message if error else None,
        warnings=seen.warnings,
        spans=seen.spans,
        sequences=tuple((len(one.ids), one.trained_tokens) for one in sequences),
    )
