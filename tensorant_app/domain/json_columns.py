"""One JSON object of columns, as data frames write it: lists of equal length, or objects with the same keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tensorant_app.domain.data_codes import FileCode
from tensorant_app.domain.datasets import FileError, Record
from tensorant_app.domain.json_values import RepeatedKey, show
from tensorant_app.domain.layouts import is_preference, recognise
from tensorant_app.domain.tables import INDEX

Columns = Mapping[str, object]


def is_one_row(value: Columns) -> bool:
    """A row's own lists hold messages, which are objects; a column's lists hold rows."""
    mapping = recognise(value)
    if mapping is None:
        return False
    return any(_is_of_a_row(value[column]) for column in mapping.columns.values())


def _is_of_a_row(one: object) -> bool:
    """A text, messages, or a message in place of their list."""
    is_message = isinstance(one, dict) and not one.keys().isdisjoint(("role", "from"))
    return isinstance(one, str) or is_message or (isinstance(one, list) and bool(one) and isinstance(one[0], dict))


def read_columns(value: Columns) -> Iterator[Record | FileError] | None:
    """None where the object holds no columns."""
    cells = list(value.values())
    repeated = [one.key for one in (value, *cells) if isinstance(one, RepeatedKey)]
    if repeated:
        return iter([_uneven(f"the key {show(repeated[0])} stands twice")])
    if cells and all(isinstance(column, list) for column in cells):
        return _zipped({name: column for name, column in value.items() if isinstance(column, list)})
    is_row = recognise(value) is not None or is_preference(value)
    if cells and not is_row and all(isinstance(row, dict) and recognise(row) for row in cells):
        return _under_names({name: row for name, row in value.items() if isinstance(row, dict)})
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


def _under_names(rows: Mapping[str, dict[str, object]]) -> Iterator[Record | FileError]:
    for n, (name, row) in enumerate(rows.items(), start=1):
        yield Record(n, None, row if INDEX in row else {INDEX: name, **row})


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
