"""The rows of an import with its edits, as a version reads them: sorted by number, each strictly read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tensorant_app.domain.datasets import Record, Row, read_record
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.layouts import ColumnMapping, Layout
from tensorant_app.services.batches import ROWS_SCHEMA, table_of

_BATCH = 4_000


def write_edited(rows: Path, edits: Mapping[str, Any], target: Path) -> Path:
    """`rows` itself where nothing was edited. `edits` is `Overlay.stored()` with a path for each appended import."""
    if not edits:
        return rows
    left_out, changed = set(edits["left_out"]), {int(row): text for row, text in edits["changed"]}
    waiting = sorted(row for row in changed if row not in left_out)
    with pq.ParquetWriter(target, ROWS_SCHEMA, compression="zstd") as writer:
        for table in _tables(rows, edits["appended"]):
            last = table.column("row")[-1].as_py()
            due = [row for row in waiting if row <= last]
            waiting = waiting[len(due) :]
            kept = table.filter(pa.array([row not in left_out and row not in changed for row in _numbers(table)]))
            _write(writer, kept, [_read(row, changed[row]) for row in due])
        _write(writer, None, [_read(row, changed[row]) for row in waiting])
    return target


def _tables(rows: Path, appended: Sequence[Sequence[Any]]) -> Iterator[pa.Table]:
    for path, offset in ((rows, 0), *((Path(path), offset) for path, offset in appended)):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH, columns=ROWS_SCHEMA.names, use_threads=False):
                table = pa.Table.from_batches([batch]).cast(ROWS_SCHEMA)
                if table.num_rows:
                    yield table.set_column(0, "row", pa.array([row + offset for row in _numbers(table)], pa.int64()))


def _numbers(table: pa.Table) -> list[int]:
    found: list[int] = table.column("row").to_pylist()
    return found


def _write(writer: pq.ParquetWriter, kept: pa.Table | None, more: list[Row]) -> None:
    parts = ([kept] if kept is not None else []) + ([table_of(more)] if more else [])
    if parts and (table := pa.concat_tables(parts)).num_rows:
        writer.write_table(table.sort_by("row"))


def _read(row: int, text: str) -> Row:
    # Its images were looked at when it was changed.
    mapping = ColumnMapping(Layout.CHAT, {"messages": "messages"})
    read = read_record(Record(row, None, text), mapping, with_images=True)
    if not isinstance(read, Row):
        raise Invalid({"rows": f"{read[0].message} Change the row again."})
    return read
