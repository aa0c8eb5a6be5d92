"""Readable pages of a checked version's rows, read from its Parquet files a page at a time."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.domain.errors import Conflict, Invalid, NotFound
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.services.connections import store
from tensorant_app.services.lookup import own_row
from tensorant_app.services.row_pages import PAGE_ROWS as PAGE_ROWS
from tensorant_app.services.row_pages import count_rows, search_rows, slice_rows
from tensorant_app.services.versions import files_key
from trainer.contract import MASK, Split

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ("row", "example")


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the text that the template writes; `is_trained`: the model learns to say it."""

    text: str
    is_trained: bool


@dataclass(frozen=True, slots=True)
class TokenView:
    """One row exactly as it is trained."""

    row: int
    tokens: int
    trained_tokens: int
    stretches: Sequence[Stretch]
    error: str | None


@dataclass(frozen=True, slots=True)
class ExampleView:
    row: int
    """Its number in the imported file."""
    messages: Sequence[Mapping[str, Any]]
    tokens: int
    trained_tokens: int


def read_page(session: Session, caller: Caller, version_id: UUID, split: Split, *, start: int = 0) -> list[ExampleView]:
    """Up to 50 rows from `start`, counted from 0 within the split."""
    if start < 0:
        raise Invalid({"start": "A page begins at row 0 or later."})
    folder = _folder(session, caller, version_id)
    return _views(folder, split, slice_rows(_rows_of(folder, split), _COLUMNS, start))


def search_page(
    session: Session, caller: Caller, version_id: UUID, split: Split, word: str, *, start: int = 0
) -> tuple[list[ExampleView], bool]:
    """Up to 50 rows that hold the word, from the match `start`, and whether there are more."""
    if start < 0:
        raise Invalid({"start": "A page begins at row 0 or later."})
    folder = _folder(session, caller, version_id)
    rows, more = search_rows(_rows_of(folder, split), _COLUMNS, word, start)
    return _views(folder, split, rows), more


def count_matches(session: Session, caller: Caller, version_id: UUID, split: Split, word: str) -> int:
    """How many rows of the split hold the word: the whole split is read."""
    return count_rows(_rows_of(_folder(session, caller, version_id), split), word)


def _rows_of(folder: str, split: Split) -> Path:
    return store().fetch(f"{folder}/{split.value}.parquet")


def _views(folder: str, split: Split, rows: Sequence[Mapping[str, Any]]) -> list[ExampleView]:
    if not rows:
        return []
    masks = _masks(f"{folder}/{MASK}", split, [row["row"] for row in rows], ["row", "tokens", "trained_tokens"])
    return [
        ExampleView(
            row["row"],
            json.loads(row["example"])["messages"],
            masks[row["row"]]["tokens"],
            masks[row["row"]]["trained_tokens"],
        )
        for row in rows
    ]


def read_tokens(session: Session, caller: Caller, version_id: UUID, split: Split, row: int) -> TokenView:
    """One row of a checked version as the base model's template writes it, cut where training begins and ends."""
    folder = _folder(session, caller, version_id)
    found = _masks(f"{folder}/{MASK}", split, [row], ["row", "tokens", "trained_tokens", "text", "spans", "error"])
    if row not in found:
        raise NotFound(f"There is no row {row} in the {split.value} split.")
    mask = found[row]
    cut = stretches(mask["text"] or "", json.loads(mask["spans"] or "[]"))
    return TokenView(row, mask["tokens"], mask["trained_tokens"], cut, mask["error"])


def stretches(text: str, spans: Sequence[Sequence[int]]) -> list[Stretch]:
    """The text in pieces, trained and not, in order; nothing is lost and nothing is empty."""
    cut, at = [], 0
    for start, end in sorted((start, end) for start, end in spans):
        cut += [Stretch(text[at:start], False), Stretch(text[max(at, start) : end], True)]
        at = max(at, end)
    return [piece for piece in [*cut, Stretch(text[at:], False)] if piece.text]


def _folder(session: Session, caller: Caller, version_id: UUID) -> str:
    """The key of the folder that holds the version's files."""
    caller.require(Permission.SEE)
    key = files_key(own_row(session, caller, DatasetVersion, version_id, "version"))
    if not (store().fetch(key) / MASK).is_file():
        raise Conflict("This version is being checked anew. Look again when that is done.")
    return key


def _masks(key: str, split: Split, rows: list[int], columns: list[str]) -> dict[int, dict[str, Any]]:
    """Of these rows; only the row groups that may hold one of them are read."""
    import pyarrow.parquet as pq

    path, wanted = store().fetch(key), sorted(rows)
    known, found = path.stat(), dict[int, dict[str, Any]]()
    with pq.ParquetFile(path) as file:
        for n, (first_split, last_split, first, last) in enumerate(_bounds(path, known.st_mtime_ns, known.st_size)):
            at = bisect_left(wanted, first)
            if first_split <= split <= last_split and at < len(wanted) and wanted[at] <= last:
                table = file.read_row_group(n, columns=["split", *columns], use_threads=False)
                found |= {one["row"]: one for one in _of_rows(table, split, wanted).to_pylist()}
    return found


def _of_rows(table: pa.Table, split: Split, rows: list[int]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    is_wanted = pc.is_in(table["row"], value_set=pa.array(rows, pa.int64()))
    return table.filter(pc.and_(pc.equal(table["split"], split.value), is_wanted)).drop_columns("split")


@lru_cache(maxsize=4)
def _bounds(path: Path, changed: int, size: int) -> Sequence[tuple[str, str, int, int]]:
    """Of each row group the first and last split and row; kept, for a thousand groups take longer than their rows."""
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    columns = [metadata.schema.names.index(name) for name in ("split", "row")]
    groups = (metadata.row_group(n) for n in range(metadata.num_row_groups))
    known = ([group.column(n).statistics for n in columns] for group in groups)
    return tuple((split.min, split.max, row.min, row.max) for split, row in known)
