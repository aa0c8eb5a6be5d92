"""What the first rows of a file become under a mapping, before the whole file is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorant_app.domain.datasets import Record, Row, read_record
from tensorant_app.domain.images import column_of, count_marks, counted, listed_images, with_stored_images
from tensorant_app.domain.layouts import ColumnMapping

SHOWN = 5
"""Rows that are shown, of those that were looked at."""
LONGEST = 32 * 1024
"""Characters of a row that is kept for a preview; a longer one is passed over."""


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """Either the conversation that is trained, or what is wrong with the row."""

    row: int
    messages: Sequence[Mapping[str, Any]]
    faults: Sequence[str]


def preview_rows(records: Iterable[Record], mapping: ColumnMapping, *, with_images: bool = False) -> list[PreviewRow]:
    made = []
    for record in records:
        read = read_record(record, mapping, with_images=with_images)
        if isinstance(read, Row):
            made.append(_preview(record.row, json.loads(read.example), with_images=with_images))
        else:
            made.append(PreviewRow(record.row, (), tuple(fault.message for fault in read)))
    return made


def _preview(row: int, example: dict[str, Any], *, with_images: bool) -> PreviewRow:
    """Images stand where they are read; whether they are there is looked at later."""
    marks, listed = count_marks(example), len(listed_images(example))
    if with_images and marks != listed:
        return PreviewRow(row, (), (f"Row {row}: {column_of(example)} {counted(listed, marks)}",))
    placed: Any = with_stored_images(example, str) if with_images else example
    return PreviewRow(row, placed["messages"], ())


def pack(record: Record) -> list[object] | None:
    """As JSON keeps it; None where it is too long. Bytes that are no UTF-8 travel as lone surrogates."""
    body = record.body
    text = body.decode("utf-8", "surrogateescape") if isinstance(body, bytes) else body
    length = len(text) if isinstance(text, str) else len(json.dumps(text))
    return [record.row, record.line, text, record.fault] if length <= LONGEST else None


def unpack(packed: Sequence[Any]) -> Record:
    row, line, body, *fault = packed
    return Record(row, line, body.encode("utf-8", "surrogateescape") if isinstance(body, str) else body, *fault)
