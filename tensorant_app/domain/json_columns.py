"""One JSON object of columns, as data frames write it: lists of equal length, or objects with the same keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tensorant_app.domain.data_codes import FileCode
from tensorant_app.domain.datasets import FileError, Record
from tensorant_app.domain.json_values import RepeatedKey, show
from tensorant_app.domain.layouts import recognise

Columns = Mapping[str, object]


def is_one_row(value: Columns) -> bool:
    """A row's own lists hold messages, which are objects; a column's lists hold rows."""
    mapping = recognise(value)
    if mapping is None:
        return False
    needed = [value[column] for column in mapping.columns.values()]
    return any(isinstance(one, str) or (isinstance(one, list) and one and isinstance(one[0], dict)) for one in needed)


def read_columns(value: Columns) -> Iterator[Record | FileError] | None:
    """None where the object holds no columns."""
    cells = list(value.values())
    repeated = [one.key for one in (value, *cells) if isinstance(one, RepeatedKey)]
    if repeated:
        return iter([_uneven(f"the key {show(repeated[0])} stands twice")])
    if cells and all(isinstance(column, list) for column in cells):
        return _zipped({name: column for name, column in value.items() if isinstance(column, list)})
    if cells and all(isinstance(column, dict) and column for column in cells):
        return _by_key({name: column for name, column in value.items() if isinstance(column, dict)})
    return None


def _zipped(columns: Mapping[str, list[object]]) -> Iterator[Record | FileError]:
    lengths = {name: len(column) for name, column in columns.items()}
    if len({*lengths.values()}) > 1:
        yield _uneven(", ".join(f"{show(name)} {length:,}" for name, length in list(lengths.items())[:6]))
        return
    for n, cells in enumerate(zip(*columns.values(), strict=True), start=1):
        yield Record(n, None, dict(zip(columns, cells, strict=True)))


def _by_key(columns: Mapping[str, dict[str, object]]) -> Iterator[Record | FileError]:
    first = next(iter(columns.values()))
    if any(column.keys() != first.keys() for column in columns.values()):
        yield _uneven("their keys differ")
        return
    for n, key in enumerate(first, start=1):
        yield Record(n, None, {name: column[key] for name, column in columns.items()})


def _uneven(what: str) -> FileError:
    said = f"The columns of the JSON object do not belong together ({what}). Write one object for each row."
    return FileError(FileCode.BROKEN_TABLE, said)
