"""The process that reads an imported file: `python -m tensorant_app.services.import_work JOB`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tensorant_app.domain.datasets import LINE_LIMIT, FileError, Row, RowError, read_rows
from trainer.contract import PROGRESS, RESULT, write_file

ROWS_SCHEMA = pa.schema([("row", pa.int64()), ("line", pa.int64()), ("example", pa.string()), ("sha256", pa.string())])
_BATCH = 5_000
_TELL_SECONDS = 0.5
_NONE = "No row of the file can be trained on. Read the list of errors, mend the file, and import it again."


def main(job_path: Path) -> None:
    """Read job["source"] into rows.parquet, errors.jsonl and result.json beside the job."""
    job = json.loads(job_path.read_text())
    folder = job_path.parent
    result = read_file(Path(job["source"]), folder)
    write_file(folder / RESULT, json.dumps(result))


def read_file(source: Path, folder: Path) -> dict[str, Any]:
    """Counts of rows seen, accepted and rejected; `refused` is the sentence for the whole file."""
    tell = _Teller(folder / PROGRESS, source.stat().st_size)
    accepted, bad_rows, last_row = 0, set[int](), 0
    batch: list[Row] = []
    with (
        source.open("rb") as file,
        (folder / "errors.jsonl").open("w", encoding="utf-8") as errors,
        pq.ParquetWriter(folder / "rows.parquet", ROWS_SCHEMA, compression="zstd") as writer,
    ):
        for found in read_rows(_lines(file)):
            match found:
                case FileError(message=message):
                    return {"rows": last_row, "accepted": 0, "rejected": 0, "refused": message}
                case RowError(row=row):
                    last_row = row
                    bad_rows.add(row)
                    errors.write(json.dumps(asdict(found), ensure_ascii=False) + "\n")
                case Row(row=row):
                    last_row, accepted = row, accepted + 1
                    batch.append(found)
            if len(batch) == _BATCH:
                _write(writer, batch)
            tell(file)
        _write(writer, batch)
    return {"rows": last_row, "accepted": accepted, "rejected": len(bad_rows), "refused": None if accepted else _NONE}


class _Teller:
    """Writes down how many bytes are read, at most twice a second."""

    def __init__(self, path: Path, total: int) -> None:
        self._path, self._total, self._next = path, total, 0.0

    def __call__(self, file: BinaryIO) -> None:
        if (at := time.monotonic()) >= self._next:
            write_file(self._path, json.dumps({"done": file.tell(), "total": self._total}))
            self._next = at + _TELL_SECONDS


def _lines(file: Any) -> Iterator[bytes]:
    while line := file.readline(LINE_LIMIT + 1):
        yield line


def _write(writer: pq.ParquetWriter, batch: list[Row]) -> None:
    if batch:
        columns = [[getattr(row, name) for row in batch] for name in ROWS_SCHEMA.names]
        writer.write_table(pa.table(columns, schema=ROWS_SCHEMA))
        batch.clear()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
