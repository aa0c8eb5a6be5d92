"""Rows of a Parquet file, nested columns too, a few at a time."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from tensorant_app.domain.data_codes import FileCode, NoticeCode
from tensorant_app.domain.datasets import Notice, Record
from tensorant_app.domain.tables import COLUMN_LIMIT
from tensorant_app.services.containers import FileRefused
from trainer.contract import SPLIT_COLUMNS

_BATCH = 64


def read_parquet(tables: Iterable[Path | IO[bytes]]) -> Iterator[Record | Notice]:
    """Rows of one file after another; columns of types that JSON has, the others are named and left out.

    Null fields count as left out. A split of a version holds each row as text, and is read as that text.
    """
    row = 0
    for table in tables:
        for found in _read(table):
            row += isinstance(found, Record)
            yield found._replace(row=row) if isinstance(found, Record) else found


def _read(table: Path | IO[bytes]) -> Iterator[Record | Notice]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(table, pre_buffer=False) as file:
            if len(file.schema_arrow) > COLUMN_LIMIT:
                raise FileRefused(FileCode.TOO_LARGE, f"The file has more than {COLUMN_LIMIT:,} columns.")
            kept = []
            for field in file.schema_arrow:
                if _is_json(field.type):
                    kept.append(field.name)
                else:
                    said = (
                        f"The column {field.name} holds {field.type} values and is not kept; training does not read it."
                    )
                    yield Notice(None, None, field.name, NoticeCode.COLUMN_LEFT_OUT, said)
            is_split = kept == [*SPLIT_COLUMNS] and pa.types.is_string(file.schema_arrow.field(1).type)
            for batch in file.iter_batches(_BATCH, columns=kept, use_threads=False):
                for values in batch.to_pylist():
                    whole = values[SPLIT_COLUMNS[1]] if is_split else None
                    yield Record(0, None, whole or {name: pruned(value) for name, value in values.items()})
    except (FileRefused, MemoryError):
        raise
    except (pa.ArrowException, OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        said = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise FileRefused(
            FileCode.BROKEN_PARQUET, f"The Parquet file cannot be read: {said}. Write it again."
        ) from error


def _is_json(kind: Any) -> bool:
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_json(kind.value_type)
    if types.is_struct(kind):
        return all(_is_json(kind.field(n).type) for n in range(kind.num_fields))
    if types.is_dictionary(kind):
        return _is_json(kind.value_type)
    plain = (
        types.is_null,
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_string,
        types.is_large_string,
    )
    return any(fits(kind) for fits in plain)


def pruned(value: object) -> object:
    """Without the null fields that every object of a column gets from the others."""
    if isinstance(value, dict):
        return {key: pruned(inner) for key, inner in value.items() if inner is not None}
    return [pruned(inner) for inner in value] if isinstance(value, list) else value
