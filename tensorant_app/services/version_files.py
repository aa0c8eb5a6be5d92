"""The files of a version: rows of an import as they are read, the rows of each split, and what rows are compared by."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tensorant_app.domain.versions import KEYS
from trainer.contract import SPLIT_COLUMNS, Split

SPLIT_SCHEMA = pa.schema([(SPLIT_COLUMNS[0], pa.int64()), (SPLIT_COLUMNS[1], pa.string())])
KEYS_SCHEMA = pa.schema(
    [("split", pa.string()), ("row", pa.int64()), ("sha256", pa.binary(32)), ("question_key", pa.binary(16))]
)
_ROW_GROUP = 1_000
_HASH_BYTES = 32
_READ = ["row", "example", "sha256", "copy_key", "question_key"]


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of an import."""

    path: Path
    split: Split | None = None
    """Where all of them belong; None where they are divided."""

    @property
    def rows(self) -> int:
        return int(pq.read_metadata(self.path).num_rows)


class SourceRow(NamedTuple):
    place: int
    """From 0, over all sources."""
    number: int
    """In its file, from 1."""
    example: str
    sha256: str
    copy_key: bytes
    question_key: bytes


def read_rows(source: Source, place: int = 0) -> Iterator[SourceRow]:
    """In order, piece by piece; the first one stands at `place`."""
    with pq.ParquetFile(source.path) as file:
        for batch in file.iter_batches(256, columns=_READ, use_threads=False):
            for values in zip(*(batch.column(name).to_pylist() for name in _READ), strict=True):
                yield SourceRow(place, *values)
                place += 1


class Writers:
    """One Parquet file for each split, and `KEYS`, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._splits = {split: _Rows(folder / f"{split.value}.parquet", SPLIT_SCHEMA) for split in Split}
        self._keys = _Rows(folder / KEYS, KEYS_SCHEMA)
        self.hashes = bytearray()
        """Of every row that was handed in, in order, also of those in no split."""

    def add(self, split: Split | None, row: SourceRow) -> None:
        """None is a row that stays out."""
        self.hashes += (sha256 := bytes.fromhex(row.sha256))
        if split is not None:
            self._splits[split].add(row.number, row.example)
            self._keys.add(split.value, row.number, sha256, row.question_key)

    def __enter__(self) -> Writers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for rows in (*self._splits.values(), self._keys):
            rows.close()


class _Rows:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._held: list[tuple[Any, ...]] = []

    def add(self, *values: Any) -> None:
        self._held.append(values)
        if len(self._held) == _ROW_GROUP:
            self._write()

    def _write(self) -> None:
        columns = [list(column) for column in zip(*self._held, strict=True)] or [[] for _ in self._schema]
        self._writer.write_table(pa.table(columns, schema=self._schema))
        self._held.clear()

    def close(self) -> None:
        if self._held:
            self._write()
        self._writer.close()


def content_hash(numbers: array[int], hashes: bytearray, splits: Mapping[int, Split]) -> str:
    """Of what is in it and where: the same rows in the same splits give the same name on every machine."""
    digest = hashlib.sha256()
    for place in sorted(splits, key=lambda place: (numbers[place], splits[place].value)):
        sha256 = hashes[_HASH_BYTES * place : _HASH_BYTES * (place + 1)].hex()
        digest.update(f"{splits[place].value} {numbers[place]} {sha256}\n".encode())
    return digest.hexdigest()
