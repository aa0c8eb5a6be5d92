"""Reading a chat file row by row: what can be trained, what cannot, and where exactly the fault is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tensorant_app.domain.examples import (
    DEPTH_LIMIT,
    Fault,
    Notice,
    RepeatedKey,
    RowCode,
    faults_of,
    hash_example,
    kind_of,
    notices_of,
)

LINE_LIMIT = 4 * 1024 * 1024
"""Bytes of one line; read files with `readline(LINE_LIMIT + 1)`, so that a longer line never fills the memory."""
PROBE_ROWS = 20
"""A file without one JSON object in its first rows is not read further."""


class FileCode(StrEnum):
    EMPTY = "empty"
    ARRAY = "array"
    NOT_JSONL = "not_jsonl"
    OTHER_FORMAT = "other_format"
    LINE_TOO_LONG = "line_too_long"


@dataclass(frozen=True, slots=True)
class Row:
    """One example that can be stored."""

    row: int
    """From 1; blank lines are not counted."""
    line: int
    """Physical line, from 1."""
    example: str
    """JSON text without spaces, keys in the file's order: a template may render tools in that order."""
    sha256: str
    """Of the JSON text with sorted keys: equal for rows that differ only in spacing, escapes or order of keys."""
    warnings: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class RowError:
    """One fault of one row; a row with several is named several times."""

    row: int
    line: int
    path: str
    """Such as `messages[1].content`, counted from 0; empty for the whole row."""
    code: RowCode
    message: str


@dataclass(frozen=True, slots=True)
class FileError:
    """Why the file as a whole is refused; the last thing read, and it stands for all row errors before it."""

    code: FileCode
    message: str


@dataclass(frozen=True, slots=True)
class Duplicate:
    row: int
    first: int
    """The earlier row with the same content."""


def read_rows(lines: Iterable[bytes | str]) -> Iterator[Row | RowError | FileError]:
    """Every row or its faults, in order, one line in memory; lines end at LF alone, as binary files give them."""
    row, is_jsonl = 0, False
    for line, raw in enumerate(lines, start=1):
        body = _strip(raw, line)
        if not body:
            continue
        row += 1
        if refusal := _refuse_file(body, row, line):
            yield refusal
            return
        found = read_row(body, row, line)
        if isinstance(found, Row):
            yield found
        else:
            yield from found
        is_jsonl = is_jsonl or isinstance(found, Row) or found[0].code not in _NO_OBJECT
        if not is_jsonl and row == PROBE_ROWS:
            break
    if row == 0:
        yield FileError(FileCode.EMPTY, "The file is empty; put one JSON object on each line.")
    elif not is_jsonl:
        yield FileError(FileCode.NOT_JSONL, _not_jsonl(row))


def read_row(body: bytes | str, row: int, line: int) -> Row | tuple[RowError, ...]:
    """One line, without its line end."""
    parsed = _parse(body)
    faults = [parsed] if isinstance(parsed, tuple) else faults_of(parsed)
    if isinstance(parsed, tuple) or faults:
        return tuple(RowError(row, line, path, code, f"Row {row} (line {line}): {end}") for path, code, end in faults)
    example = json.dumps(parsed, ensure_ascii=False, separators=(",", ":"))
    return Row(row, line, example, hash_example(parsed), tuple(notices_of(parsed)))


def find_duplicates(rows: Iterable[tuple[int, str]]) -> Iterator[Duplicate]:
    """Rows (number, hash or copy key) that repeat an earlier one; keeps one entry per different row."""
    first: dict[str, int] = {}
    for row, key in rows:
        if (seen := first.setdefault(key, row)) != row:
            yield Duplicate(row, seen)


_NO_OBJECT = {RowCode.NOT_UTF8, RowCode.NOT_JSON, RowCode.NOT_OBJECT}
_OTHER_FORMATS = {
    b"\x1f\x8b": "gzip file; unpack it first",
    b"PK\x03\x04": "zip archive; unpack it first",
    b"PAR1": "Parquet file; export it as JSONL",
    b"\xff\xfe": "UTF-16 text file; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text file; save it as UTF-8",
}


def _strip(raw: bytes | str, line: int) -> bytes | str:
    """Without line end, outer blanks and, in the first line, the byte order mark."""
    if isinstance(raw, str):
        return (raw.removeprefix("\ufeff") if line == 1 else raw).strip(" \t\r\n")
    return (raw.removeprefix(b"\xef\xbb\xbf") if line == 1 else raw).strip(b" \t\r\n")


def _refuse_file(body: bytes | str, row: int, line: int) -> FileError | None:
    if len(body) > LINE_LIMIT:
        limit = f"{LINE_LIMIT // 1024 // 1024} MiB"
        return FileError(FileCode.LINE_TOO_LONG, f"Line {line} is longer than {limit}; split or shorten that example.")
    if row > 1:
        return None
    if body[:1] in ("[", b"["):
        convert = "write each element on a line of its own, such as with: jq -c '.[]' data.json > data.jsonl"
        return FileError(FileCode.ARRAY, f"The file is a JSON array; {convert}")
    for start, what in _OTHER_FORMATS.items():
        if isinstance(body, bytes) and body.startswith(start):
            return FileError(FileCode.OTHER_FORMAT, f"The file is a {what}.")
    return None


def _not_jsonl(rows: int) -> str:
    looked = "The only row is no JSON object" if rows == 1 else f"None of the first {rows} rows is a JSON object"
    return f'{looked}; put one whole object such as {{"messages": [...]}} on each line.'


def _parse(body: bytes | str) -> dict[str, object] | Fault:
    try:
        text = body if isinstance(body, str) else body.decode()
        value = json.loads(text, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        return "", RowCode.NOT_UTF8, f"byte {error.start + 1} is not UTF-8; save the file as UTF-8."
    except json.JSONDecodeError as error:
        return "", RowCode.NOT_JSON, f"not JSON at column {error.colno}: {_explain(error)}."
    except RecursionError:
        return "", RowCode.TOO_DEEP, f"more than {DEPTH_LIMIT} objects and lists inside each other."
    except ValueError:
        return "", RowCode.NOT_JSON, "a number has too many digits; write it as text."
    if not isinstance(value, dict):
        return "", RowCode.NOT_OBJECT, f"{kind_of(value)} instead of a JSON object; write {{...}} with messages."
    return value


def _explain(error: json.JSONDecodeError) -> str:
    text, at = error.doc, error.pos
    if at >= len(text) or error.msg.startswith("Unterminated"):
        return "the line ends in the middle; it was cut off"
    if text[at] == "'":
        return "JSON needs double quotation marks, not single ones"
    if text[at] in "}]" and text[:at].rstrip().endswith(","):
        return f"a comma too many before {text[at]}"
    if error.msg.startswith("Expecting ',' delimiter"):
        return 'a comma is missing, or a quotation mark inside a text is not written as \\"'
    return error.msg[:1].lower() + error.msg[1:]


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    keys = [key for key, _ in pairs]
    repeated = RepeatedKey(value)
    repeated.key = next(key for key in keys if keys.count(key) > 1)
    return repeated
