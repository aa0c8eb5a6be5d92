"""The process that looks through a version's rows: `python -m tensorant_app.services.safety_work JOB`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tensorant_app.domain.safety import Finding, check_values
from tensorant_app.domain.safety_settings import word_finder
from tensorant_app.services.import_work import Progress
from trainer.contract import RESULT, SPLIT_COLUMNS, write_file

LISTED = 5_000
"""Places that are stored; rows beyond them are counted."""
_TELL_ROWS = 500


def main(job_path: Path) -> None:
    """Read job["files"], write result.json beside the job: what was found, by row."""
    job = json.loads(job_path.read_text())
    find_word = word_finder(job["words"])
    progress = Progress(
        job_path.parent, sum(pq.read_metadata(path).num_rows for path in job["files"].values()), "safety"
    )
    listed: list[dict[str, Any]] = []
    refused: list[tuple[str, int]] = []
    for done, (split, row, example) in enumerate(read_rows(job["files"]), start=1):
        found = check_values(json.loads(example), find_word)
        if found:
            refused.append((split, row))
        listed += [_stored(split, row, one, names_split=job["names_split"]) for one in found[: LISTED - len(listed)]]
        if done % _TELL_ROWS == 0:
            progress.tell(done)
    write_file(job_path.parent / RESULT, json.dumps({"safety": listed, "refused": refused}))


def name_of(split: str, row: int, *, names_split: bool) -> str:
    """Rows are told by their number; by their split as well where splits come from several files."""
    return f"{split.capitalize()} row {row}" if names_split else f"Row {row}"


def _stored(split: str, row: int, found: Finding, *, names_split: bool) -> dict[str, Any]:
    message = f"{name_of(split, row, names_split=names_split)}: {found.sentence}"
    return {"split": split, "row": row, "path": found.path, "code": found.code.value, "message": message}


def read_rows(files: dict[str, str]) -> Iterator[tuple[str, int, str]]:
    for split, path in files.items():
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(256, columns=list(SPLIT_COLUMNS), use_threads=False):
                for row, example in zip(*(batch.column(name).to_pylist() for name in SPLIT_COLUMNS), strict=True):
                    yield split, row, example


if __name__ == "__main__":
    main(Path(sys.argv[1]))
