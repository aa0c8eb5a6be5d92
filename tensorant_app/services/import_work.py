"""The process that reads an imported file: `python -m tensorant_app.services.import_work JOB`."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tensorant_app.domain.datasets import FileError, Notice, Row, RowError
from tensorant_app.domain.layouts import ColumnMapping, from_stored
from tensorant_app.domain.notices import COMMON_TOKENS, notices_of
from tensorant_app.services.bad_rows import keep_bad_rows
from tensorant_app.services.batches import ROWS_SCHEMA, Batch, table_of
from tensorant_app.services.data_check import finders_for
from tensorant_app.services.processes import in_processes, limit_memory
from tensorant_app.services.reading import Reading
from tensorant_app.services.summaries import Summary
from trainer.contract import PROGRESS, RESULT, write_file

ROWS, ERRORS, WARNINGS, BAD_ROWS = "rows.parquet", "errors.jsonl", "warnings.jsonl", "bad_rows.jsonl"
_SHARES = {"reading": (0, 60), "collecting": (60, 65), "looking": (65, 100)}
"""From which to which percent of the whole each step goes, so that a bar never goes back."""
_BATCH, _BATCH_LENGTH = 4_000, 32 * 1024 * 1024
_LOOKED_AT, _WORTH_PROCESSES = 256, 2_000
"""Rows whose texts are in memory at once, and from how many on a second process costs less than it gives."""
_TELL_SECONDS = 0.5
_NONE = "No row of the file can be trained on. Read the list of errors, mend the file, and import it again."


def main(job_path: Path) -> None:
    """Read job["source"] into rows.parquet, errors.jsonl, warnings.jsonl and result.json beside the job."""
    job = json.loads(job_path.read_text())
    mapping = from_stored(job["mapping"]) if job.get("mapping") else None
    try:
        result = read_file(
            Path(job["source"]),
            job_path.parent,
            mapping=mapping,
            tokens=job.get("tokens", COMMON_TOKENS),
            with_images=job.get("images", False),
        )
    except MemoryError:
        result = _too_large()
    write_file(job_path.parent / RESULT, json.dumps(result))


def read_file(
    source: Path,
    folder: Path,
    *,
    mapping: ColumnMapping | None = None,
    tokens: tuple[str, ...] | list[str] = COMMON_TOKENS,
    with_images: bool = False,
) -> dict[str, Any]:
    """Counts of rows seen, accepted and rejected; `refused` is the sentence for the whole file."""
    result = read_rows(source, folder, mapping=mapping, with_images=with_images)
    if result["rejected"]:
        progress = Progress(folder, result["rows"], "collecting")
        keep_bad_rows(source, folder / ERRORS, folder / BAD_ROWS, progress.tell)
    if result["refused"] is None:
        result["warnings"] += list_notices(folder, result["accepted"], tokens)
    return result


def read_rows(
    source: Path, folder: Path, *, mapping: ColumnMapping | None = None, with_images: bool = False
) -> dict[str, Any]:
    """The strict reading alone: rows, errors, and what the whole file shows; of a vision project its images too."""
    progress = Progress(folder, source.stat().st_size, "reading")
    reading = Reading(
        source, mapping=mapping, tell=progress.tell, shares_in=folder, with_images=with_images, keep=folder
    )
    summary, last_bad, rejected, warnings = Summary(), 0, 0, 0
    with (
        _Rows(folder / ROWS, summary) as rows,
        (folder / ERRORS).open("w", encoding="utf-8") as errors,
        (folder / WARNINGS).open("w", encoding="utf-8") as listed,
    ):
        for found in reading:
            match found:
                case Row():
                    rows.add(found)
                case Batch():
                    rows.add_batch(found)
                    rejected += len({fault.row for fault in found.errors})
                    for fault in found.errors:
                        _write(errors, fault)
                case RowError():
                    rejected += found.row != last_bad
                    last_bad = found.row
                    _write(errors, found)
                case Notice():
                    warnings += 1
                    _write(listed, found)
                case FileError():
                    return _result(reading, 0, 0, 0, found.message)
        rows.flush()
        for notice in summary.notices():
            warnings += 1
            _write(listed, notice)
    accepted = len(summary.rows)
    return _result(reading, accepted, rejected, warnings, None if accepted else _NONE) | {
        "duplicates": summary.duplicate_rows,
        "copies": summary.copied_rows,
    }


def _too_large() -> dict[str, Any]:
    return {
        "rows": 0,
        "accepted": 0,
        "rejected": 0,
        "refused": "The file needs more memory than an import may take. Split it.",
    }


def list_notices(folder: Path, rows: int, tokens: tuple[str, ...] | list[str]) -> int:
    """A second pass over the stored rows, for what is odd in one row; answers how many notices there are."""
    path, progress, count, done = folder / ROWS, Progress(folder, rows, "looking"), 0, 0
    groups = pq.read_metadata(path).num_row_groups
    calls = (partial(_look, path, group, tuple(tokens)) for group in range(groups))
    with (folder / WARNINGS).open("a", encoding="utf-8") as listed:
        for looked, found, lines in in_processes(calls) if rows >= _WORTH_PROCESSES else (call() for call in calls):
            listed.write(lines)
            count, done = count + found, done + looked
            progress.tell(done)
    return count


def _look(path: Path, group: int, tokens: tuple[str, ...]) -> tuple[int, int, str]:
    """How many rows one group of them has, how many notices, and these as lines."""
    finders, lines, rows = _finders(tokens), list[str](), 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_LOOKED_AT, row_groups=[group], use_threads=False):
            rows += len(batch)
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                lines += [_line(notice) for notice in notices_of(Row(*values), finders)]
    return rows, len(lines), "".join(lines)


_finders = cache(finders_for)
"""Of the few sets of tokens that one process looks for."""


class _Rows:
    """Rows of one Parquet file; a batch is compressed in a thread while the next one is read."""

    def __init__(self, path: Path, summary: Summary) -> None:
        self._summary = summary
        # Texts, hashes and keys hardly ever repeat: a dictionary of them is made and thrown away.
        self._writer = pq.ParquetWriter(
            path, ROWS_SCHEMA, compression="zstd", use_dictionary=["places"], write_statistics=["row", "line"]
        )
        self._pool = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None
        self._batch: list[Row] = []
        self._length = 0

    def add(self, row: Row) -> None:
        self._batch.append(row)
        self._length += len(row.example)
        if len(self._batch) == _BATCH or self._length > _BATCH_LENGTH:
            self.flush()

    def flush(self) -> None:
        if not self._batch:
            return
        table = table_of(self._batch)
        self._batch.clear()
        self._length = 0
        self._write(table)

    def add_batch(self, batch: Batch) -> None:
        self._write(batch.open())

    def _write(self, table: pa.Table) -> None:
        self._summary.take(table)
        self._wait()
        self._pending = self._pool.submit(self._writer.write_table, table)

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def __enter__(self) -> _Rows:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.flush()
            self._wait()
        finally:
            self._pool.shutdown()
            self._writer.close()


class Progress:
    """progress.json beside the job: how much of all steps is done and which one goes on, at most twice a second."""

    def __init__(self, folder: Path, total: int, step: str) -> None:
        self._path, self._total, self._step, self._next = folder / PROGRESS, max(total, 1), step, 0.0
        self._from, self._to = _SHARES.get(step, (0, 100))

    def tell(self, done: int) -> None:
        if (at := time.monotonic()) >= self._next:
            self._next = at + _TELL_SECONDS
            part = min(done / self._total, 1.0)
            percent = self._from + int(part * (self._to - self._from))
            write_file(self._path, json.dumps({"done": percent, "total": 100, "step": self._step}), is_durable=False)


def _write(file: Any, found: RowError | Notice) -> None:
    file.write(_line(found))


def _line(found: RowError | Notice) -> str:
    return json.dumps(asdict(found), ensure_ascii=False) + "\n"


def _result(reading: Reading, accepted: int, rejected: int, warnings: int, refused: str | None) -> dict[str, Any]:
    return {
        "format": reading.format,
        "rows": reading.rows,
        "accepted": accepted,
        "rejected": rejected,
        "blank_lines": reading.tally.blank_lines,
        "warnings": warnings,
        "refused": refused,
    }


if __name__ == "__main__":
    limit_memory()
    main(Path(sys.argv[1]))
