"""The process that splits and checks a version: `python -m tensorant_app.services.version_work JOB`."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tensorant_app.domain.copies import copy_key, find_duplicates
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.labels import closed_set, single_answer
from tensorant_app.domain.safety import check_example
from tensorant_app.domain.splits import Counts, Fractions, Shares, split_rows, warn_few_test_rows
from trainer.contract import RESULT, SPLIT_COLUMNS, Split, write_file

_ROW_GROUP = 1_000
SPLIT_SCHEMA = pa.schema([(SPLIT_COLUMNS[0], pa.int64()), (SPLIT_COLUMNS[1], pa.string())])


def main(job_path: Path) -> None:
    """Read job["rows"], write one Parquet file per split and result.json beside the job."""
    job = json.loads(job_path.read_text())
    folder = job_path.parent
    table = pq.read_table(job["rows"])
    rows: list[dict[str, Any]] = table.to_pylist()
    try:
        splits = split_rows(
            [(row["row"], copy_key(row["example"])) for row in rows], shares_of(job["split"]), job["split"]["seed"]
        )
        result = build(rows, splits, folder)
    except Invalid as error:
        result = {"problem": error.message}
    write_file(folder / RESULT, json.dumps(result))


def shares_of(split: Mapping[str, Any]) -> Shares:
    """The stored form of a split: either `fractions` or `counts`, and a seed."""
    return Fractions(**split["fractions"]) if "fractions" in split else Counts(**split["counts"])


def build(rows: Sequence[Mapping[str, Any]], splits: Mapping[int, Split], folder: Path) -> dict[str, Any]:
    kept = [row for row in rows if row["row"] in splits]
    safety = [
        {
            "row": row["row"],
            "path": finding.path,
            "code": finding.code.value,
            "message": f"Row {row['row']}: {finding.sentence}",
        }
        for row in kept
        for finding in check_example(row["example"])
    ]
    for split in Split:
        _write_split([row for row in kept if splits[row["row"]] is split], folder / f"{split.value}.parquet")
    counts = Counter(splits.values())
    warning = warn_few_test_rows(splits)
    duplicates = sum(1 for _ in find_duplicates((row["row"], row["sha256"]) for row in kept))
    if duplicates:
        noun = "row is a copy" if duplicates == 1 else "rows are copies"
        copies = f"{duplicates} {noun} of an earlier row; copies stay in one split."
    return {
        "problem": None,
        "rows": {split.value: counts[split] for split in Split},
        "labels": list(closed_set(single_answer(row["example"]) for row in kept)),
        "safety": safety,
        "warnings": [*([warning] if warning else []), *([copies] if duplicates else [])],
        "content_sha256": content_hash(kept, splits),
    }


def content_hash(rows: Sequence[Mapping[str, Any]], splits: Mapping[int, Split]) -> str:
    """Of what is in it and where: the same rows in the same splits give the same name on every machine."""
    digest = hashlib.sha256()
    for row in sorted(rows, key=lambda row: int(row["row"])):
        digest.update(f"{splits[row['row']].value} {row['row']} {row['sha256']}\n".encode())
    return digest.hexdigest()


def _write_split(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    columns = [[row[name] for row in rows] for name in SPLIT_SCHEMA.names]
    pq.write_table(pa.table(columns, schema=SPLIT_SCHEMA), path, compression="zstd", row_group_size=_ROW_GROUP)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
