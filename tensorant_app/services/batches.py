"""A large file of plain chat lines read by several processes: the same rows as the reading makes one by one."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tensorant_app.domain.datasets import ROW_LIMIT, FileError, Row, RowError, moved, read_record
from tensorant_app.domain.json_lines import Tally, read_json_lines, too_long
from tensorant_app.domain.layouts import ColumnMapping
from tensorant_app.services.fast_rows import read_plain
from tensorant_app.services.processes import in_processes

BATCH_BYTES = 1024 * 1024
ROWS_SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("line", pa.int64()),
        ("example", pa.string()),
        ("sha256", pa.string()),
        ("copy_key", pa.binary(16)),
        ("question_key", pa.binary(16)),
        ("reply_length", pa.int64()),
        ("places", pa.string()),
    ]
)
"""The fields of `Row`, in order."""


class Stretch(NamedTuple):
    """Whole lines of a file, as places of bytes: who reads them opens the file."""

    path: Path
    start: int
    end: int


@dataclass(slots=True)
class Batch:
    """Rows and faults of some lines; `refused` is the last thing of a file."""

    table: Path
    """An Arrow stream of `ROWS_SCHEMA`, its rows and lines counted from the batch's beginning. A file is handed over
    with less work than a pipe takes, and is read where it lies."""
    errors: list[RowError] = field(default_factory=list)
    refused: FileError | None = None
    rows: int = 0
    lines: int = 0
    blank_lines: int = 0
    before: tuple[int, int] = (0, 0)
    """Rows and lines of the file before it."""

    def open(self) -> pa.Table:
        """Once: the file's name goes, and its pages with the table."""
        table = pa.ipc.open_stream(pa.memory_map(str(self.table))).read_all()
        self.table.unlink()
        for n, before in enumerate(self.before):
            table = table.set_column(n, ROWS_SCHEMA[n], pc.add(table.column(n), before))
        return table

    def place(self, rows: int, lines: int) -> None:
        """Say what stands before it; its faults are named by their numbers in the file from now on."""
        self.before = rows, lines
        self.errors = [moved(error, rows, lines) for error in self.errors]
        if self.refused is not None:
            self.refused = too_long(f"Line {lines + self.lines + 1}")


def read_batches(parts: Iterable[bytes | Stretch], mapping: ColumnMapping, folder: Path) -> Iterator[Batch]:
    """Whole lines in UTF-8, in order; their tables lie in `folder` until they are opened."""
    rows = lines = 0
    calls = (partial(read_batch, part, mapping, folder / f".batch-{n}") for n, part in enumerate(parts))
    for batch in in_processes(calls):
        batch.place(rows, lines)
        rows, lines = rows + batch.rows, lines + batch.lines
        yield batch


_Stored = tuple[int, int | None, bytes, bytes, bytes, bytes, int, str]
"""The fields of `Row`, its text and its hash as bytes."""


def read_batch(part: bytes | Stretch, mapping: ColumnMapping, table: Path) -> Batch:
    tally, rows, batch = Tally(), list[_Stored](), Batch(table)
    for record in read_json_lines([part if isinstance(part, bytes) else _bytes_of(part)], tally):
        if isinstance(record, FileError):
            batch.refused = record
            break
        batch.rows, line, body, _ = record
        plain = read_plain(body) if isinstance(body, bytes) else None
        if plain is not None:
            rows.append((batch.rows, line, *plain, ""))
            continue
        read = read_record(record, mapping)
        if isinstance(read, Row):
            rows.append(_as_stored(read))
        else:
            batch.errors += read
    batch.lines, batch.blank_lines = tally.lines, tally.blank_lines
    _write(rows, table)
    return batch


def _bytes_of(part: Stretch) -> bytes:
    with part.path.open("rb") as file:
        file.seek(part.start)
        return file.read(part.end - part.start)


def _as_stored(row: Row) -> _Stored:
    number, line, example, sha256, *others = row
    return number, line, example.encode(), bytes.fromhex(sha256), *others  # type: ignore[return-value]


def _write(rows: Sequence[_Stored], path: Path) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in ROWS_SCHEMA]
    columns[3] = [sha256.hex() for sha256 in columns[3]]
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, ROWS_SCHEMA) as stream:
        stream.write_table(pa.table(columns, schema=ROWS_SCHEMA))


def table_of(rows: list[Row]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in ROWS_SCHEMA]
    return pa.table(columns, schema=ROWS_SCHEMA)


def stretches_of(path: Path, begin: int, tell: Callable[[int], None] = lambda at: None) -> Iterator[Stretch]:
    """Of a file of UTF-8 text from that byte on; `tell` hears how far it was handed out."""
    size = path.stat().st_size
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        while begin < size:
            end = _end_of(text, begin, size)
            yield Stretch(path, begin, end)
            begin = end
            tell(begin)


def _end_of(text: mmap.mmap, begin: int, size: int) -> int:
    """Behind the last line end of about a batch, or behind the next one within the longest row that is read."""
    end = begin + BATCH_BYTES
    if end >= size:
        return size
    last = min(begin + 2 * ROW_LIMIT, size)
    cut = 1 + text.rfind(b"\n", begin, end) or 1 + text.find(b"\n", end, last)
    return cut or 1 + text.rfind(b"\r", begin, last) or last


def parts_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same of text that comes in pieces: cut behind line ends, where there are any within the longest row."""
    held: list[bytes] = []
    length = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length < BATCH_BYTES or (b"\n" not in piece and length <= 2 * ROW_LIMIT):
            continue
        text = b"".join(held)
        cut = 1 + text.rfind(b"\n") or 1 + text.rfind(b"\r") or len(text)
        yield text[:cut]
        held, length = [text[cut:]], len(text) - cut
    if length:
        yield b"".join(held)
