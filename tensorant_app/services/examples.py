"""Readable pages of a frozen version's rows, read from its Parquet files a page at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.services.connections import store
from tensorant_app.services.lookup import own_row
from tensorant_app.services.versions import frozen_key
from trainer.contract import MASK, Split

PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class ExampleView:
    row: int
    """Its number in the imported file."""
    messages: Sequence[Mapping[str, Any]]
    tokens: int
    trained_tokens: int


def read_page(session: Session, caller: Caller, version_id: UUID, split: Split, *, start: int = 0) -> list[ExampleView]:
    """Up to 50 rows from `start`, counted from 0 within the split."""
    caller.require(Permission.SEE)
    version = own_row(session, caller, DatasetVersion, version_id, "version")
    if version.content_sha256 is None:
        raise Conflict("Only a frozen version has pages. Freeze it first.")
    if start < 0:
        raise Invalid({"start": "A page begins at row 0 or later."})
    folder = frozen_key(version.content_sha256)
    rows = _slice(f"{folder}/{split.value}.parquet", ["row", "example"], start)
    masks = _masks(f"{folder}/{MASK}", split, [row["row"] for row in rows]) if rows else {}
    return [
        ExampleView(
            row["row"],
            json.loads(row["example"])["messages"],
            masks[row["row"]]["tokens"],
            masks[row["row"]]["trained_tokens"],
        )
        for row in rows
    ]


def _slice(key: str, columns: list[str], start: int) -> list[dict[str, Any]]:
    """Reads only the row groups that the page lies in."""
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = []
    with pq.ParquetFile(store().fetch(key)) as file:
        before = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if before + count > start and len(found) < PAGE_ROWS:
                first = max(start - before, 0)
                table = file.read_row_group(group, columns=columns).slice(first, PAGE_ROWS - len(found))
                found.extend(table.to_pylist())
            before += count
    return found


def _masks(key: str, split: Split, rows: list[int]) -> dict[int, dict[str, Any]]:
    import pyarrow.parquet as pq

    table = pq.read_table(
        store().fetch(key),
        columns=["row", "tokens", "trained_tokens"],
        filters=[("split", "=", split.value), ("row", "in", rows)],
    )
    return {row["row"]: row for row in table.to_pylist()}
