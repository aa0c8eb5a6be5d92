"""Rows of a data file as the reading hands them on: what can be stored, what cannot, and where exactly the fault is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from tensorant_app.domain.conversions import CALL, MESSAGE_PATH, Converted, convert
from tensorant_app.domain.copies import keys_of
from tensorant_app.domain.data_codes import FileCode, NoticeCode, RowCode
from tensorant_app.domain.examples import faults_of
from tensorant_app.domain.json_text import parse_object
from tensorant_app.domain.json_values import value_faults
from tensorant_app.domain.layouts import VERDICTS, ColumnMapping, is_preference

ROW_LIMIT = 4 * 1024 * 1024
"""Bytes of one row as text."""


FAULT_LIMIT = 100
"""Faults of one row that are listed; one with more says so."""


class Record(NamedTuple):
    """One row of a file as it stands there: JSON text not yet read, or values of a table."""

    row: int
    """From 1; blank lines are not counted."""
    line: int | None
    """Physical line, from 1; None where the file has no lines."""
    body: bytes | str | Mapping[str, object]
    fault: str = ""
    """What is wrong around the row, as the end of a sentence: it stays out, whatever it holds."""


class Row(NamedTuple):
    """One example that can be stored."""

    row: int
    line: int | None
    example: str
    """JSON text without spaces; role and content first in each message, the other keys in the file's order."""
    sha256: str
    """Of the JSON text with sorted keys: equal for rows that differ only in spacing, escapes or order of keys."""
    copy_key: bytes
    question_key: bytes
    reply_length: int
    """Characters of the last reply."""
    places: str = ""
    """JSON list: of each message where its text stands in the row, or, with a dot at the end, where it stands itself, with
    all its fields (or only its call of the old form); empty where that is `messages[n].`."""


@dataclass(frozen=True, slots=True)
class RowError:
    """One fault of one row; a row with several is named several times."""

    row: int
    line: int | None
    path: str
    """As in the file, such as `messages[1].content` or `conversations[0].from`; empty for the whole row."""
    code: RowCode
    message: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something odd that blocks nothing."""

    row: int | None
    """None where it is about the file."""
    line: int | None
    path: str
    code: NoticeCode
    message: str


@dataclass(frozen=True, slots=True)
class FileError:
    """Why the file as a whole is refused; the last thing read, and it stands for everything before it."""

    code: FileCode
    message: str


def read_record(record: Record, mapping: ColumnMapping, *, with_images: bool = False) -> Row | tuple[RowError, ...]:
    """Every fault of the row, or the row as it is stored."""
    if record.fault:
        return (RowError(record.row, record.line, "", RowCode.NOT_JSON, f"{name_of(record)}: {record.fault}"),)
    body = record.body
    parsed = parse_object(body) if isinstance(body, bytes | str) else body
    if isinstance(parsed, tuple):
        return (RowError(record.row, record.line, "", parsed[1], f"{name_of(record)}: {parsed[2]}"),)
    if is_preference(parsed) and not mapping.used & VERDICTS:
        end = "holds a preference (replies to choose between, or a verdict), which cannot be trained yet."
        return (_error(record, "", RowCode.PREFERENCE, end),)
    faults = list(islice(value_faults(parsed), FAULT_LIMIT + 1))
    if not any(code is RowCode.TOO_DEEP for _, code, _ in faults):
        made = convert(parsed, mapping)
        found = faults_of(made.example, with_images=with_images)
        faults += made.faults
        faults += [(made.source_path(path), code, end) for path, code, end in islice(found, FAULT_LIMIT + 1)]
    if len(faults) > FAULT_LIMIT:
        faults[FAULT_LIMIT:] = [("", faults[FAULT_LIMIT][1], "has more faults than are listed here.")]
    if faults:
        return tuple(_error(record, *fault) for fault in faults)
    return store(record, made.example, _places_of(made))


def store(record: Record, example: dict[str, object], places: str = "") -> Row:
    """A row without faults as it is stored."""
    messages: list[dict[str, object]] = example["messages"]  # type: ignore[assignment]
    text = json.dumps(example, ensure_ascii=False, separators=(",", ":"))
    keys = keys_of(messages, example.get("tools"))
    reply = messages[-1].get("content")
    length = len(reply) if isinstance(reply, str) else 0
    return Row(record.row, record.line, text, hash_example(example), keys.copy, keys.question, length, places)


def hash_example(example: Mapping[str, object]) -> str:
    canonical = json.dumps(example, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def moved(error: RowError, rows: int, lines: int) -> RowError:
    """A fault found in a part of a file, as it is named in the whole file; so many rows and lines stand before it."""
    here = Record(error.row, error.line, "")
    there = Record(error.row + rows, None if error.line is None else error.line + lines, "")
    said = name_of(there) + error.message.removeprefix(name_of(here))
    return replace(error, row=there.row, line=there.line, message=said)


def name_of(record: Record | Row) -> str:
    return f"Row {record.row}" if record.line is None else f"Row {record.row} (line {record.line})"


def _error(record: Record, path: str, code: RowCode, end: str) -> RowError:
    return RowError(record.row, record.line, path, code, f"{name_of(record)}: {path or 'the row'} {end}")


def _places_of(made: Converted) -> str:
    places = [
        f"{place.fields.get(CALL, place.whole)}." if place.keeps_rest else made.source_path(f"messages[{n}].content")
        for n, place in enumerate(made.places)
    ]
    return "" if places == usual_places(len(places)) else json.dumps(places)


def usual_places(messages: int) -> list[str]:
    """Of so many messages that stand in the file as they are stored."""
    return [f"messages[{n}]." for n in range(messages)]


def source_path(path: str, places: Sequence[str]) -> str:
    """A path of a stored example as the file's author knows it, by the row's `places`."""
    found = MESSAGE_PATH.match(path)
    if found is None or int(found[1]) >= len(places):
        return path
    place, rest = places[int(found[1])], path[found.end() :]
    if not place.endswith("."):
        return place
    whole = place.removesuffix(".")
    if whole.endswith(_OLD_CALL):
        if rest.startswith(f".{CALL}"):
            return whole + rest.removeprefix(f".{CALL}")
        whole = whole.removesuffix(_OLD_CALL)
    return whole + rest


_OLD_CALL = ".function_call"
