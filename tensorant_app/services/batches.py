"""A large file of plain chat lines read by several processes: the same rows as the reading makes one by one."""

from __future__ import annotations

import gc
import io
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field

import pyarrow as pa

from tensorant_app.domain.datasets import ROW_LIMIT, FileError, Record, Row, RowError, read_record
from tensorant_app.domain.json_lines import Tally, read_json_lines
from tensorant_app.domain.layouts import ColumnMapping
from tensorant_app.services.fast_rows import read_plain_row
from tensorant_app.services.summaries import Summary

BATCH_BYTES = 1024 * 1024
WORKERS = 2
_WAITING = WORKERS + 1
"""Batches under way, so that memory stays bounded however slow the writing is."""

_LOOK_SECONDS = 1.0

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


@dataclass(slots=True)
class Batch:
    """Rows and faults of some lines; `refused` is the last thing of a file."""

    table: bytes = b""
    """An Arrow stream of `ROWS_SCHEMA`."""
    summary: Summary = field(default_factory=Summary)
    errors: list[RowError] = field(default_factory=list)
    refused: FileError | None = None
    last_row: int = 0
    blank_lines: int = 0

    def open(self) -> pa.Table:
        return pa.ipc.open_stream(pa.py_buffer(self.table)).read_all()


def read_batches(pieces: Iterator[bytes], mapping: ColumnMapping) -> Iterator[Batch]:
    """UTF-8 text in pieces, in order. A worker that dies, mostly for want of memory, is a `MemoryError`."""
    waiting: deque[Future[Batch]] = deque()
    with ProcessPoolExecutor(
        WORKERS, multiprocessing.get_context("fork"), initializer=_begin, initargs=(os.getpid(),)
    ) as pool:
        try:
            for lines, row, line in _numbered(pieces):
                waiting.append(pool.submit(read_batch, lines, row, line, mapping))
                while len(waiting) > _WAITING:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise MemoryError from error
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(parent: int) -> None:
    """A worker's first act. Killed parents close no pipe that both workers hold, so each looks for itself."""
    gc.disable()  # what the collector looks for, the reading never makes
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def read_batch(lines: bytes, row: int, line: int, mapping: ColumnMapping) -> Batch:
    """Whole lines; `row` and `line` are the last numbers before them."""
    tally, rows, batch = Tally(), list[Row](), Batch(last_row=row)
    for record in read_json_lines([lines], tally, row=row, line=line):
        if isinstance(record, FileError):
            batch.refused = record
            break
        batch.last_row = record.row
        read = read_plain_row(record) or read_record(record, mapping)
        if isinstance(read, Row):
            rows.append(read)
        else:
            batch.errors += read
    batch.summary.add(*rows)
    batch.blank_lines = tally.blank_lines
    batch.table = _packed(rows)
    return batch


def table_of(rows: list[Row]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in ROWS_SCHEMA]
    return pa.table(columns, schema=ROWS_SCHEMA)


def _packed(rows: list[Row]) -> bytes:
    packed = io.BytesIO()
    with pa.ipc.new_stream(packed, ROWS_SCHEMA) as stream:
        stream.write_table(table_of(rows))
    return packed.getvalue()


def _numbered(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, int, int]]:
    """Whole lines of about a batch, with the numbers of the row and the line before them."""
    row = line = 0
    for lines in _batched(pieces):
        yield lines, row, line
        if lines.count(b"\r") == lines.count(b"\r\n"):
            line += lines.count(b"\n")
            row += sum(map(bool, map(bytes.strip, lines.split(b"\n"))))
        else:
            tally = Tally()
            row += sum(isinstance(record, Record) for record in read_json_lines([lines], tally))
            line += tally.lines


def _batched(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cut behind line ends, where there are any within the longest row that is read."""
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
