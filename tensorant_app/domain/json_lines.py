"""JSON Lines: one object on each line, however the lines end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tensorant_app.domain.data_codes import FileCode
from tensorant_app.domain.datasets import ROW_LIMIT, FileError, Record
from tensorant_app.domain.json_text import parse_object

_BLANKS = b" \t\r\n"


@dataclass(slots=True)
class Tally:
    """What the reading counts beside its rows."""

    blank_lines: int = 0
    lines: int = 0
    """The number of the last line of JSON Lines that was read whole."""
    columns: tuple[str, ...] = ()
    """Names in the header of a table."""


def read_json_lines(
    chunks: Iterable[bytes], tally: Tally, *, row: int = 0, line: int = 0
) -> Iterator[Record | FileError]:
    """UTF-8 text in pieces of any size, as rows; lines end at LF, and at CR where what it divides is not one value.

    `row` and `line` are the last numbers before the text.
    """
    for raw in _lines(chunks):
        if len(raw) > ROW_LIMIT:
            tally.lines = line
            yield too_long(f"Line {line + 1}")
            return
        body = raw.strip(_BLANKS)
        if body and b"\r" not in body:
            row += 1
            line += 1
            yield Record(row, line, body)
            continue
        is_one = b"\r" not in body or isinstance(parse_object(body), dict)
        for piece in [body] if is_one else raw.removesuffix(b"\r").split(b"\r"):
            line += 1
            body = piece.strip(_BLANKS)
            if body:
                row += 1
                yield Record(row, line, body)
            else:
                tally.blank_lines += 1
    tally.lines = line


def too_long(what: str) -> FileError:
    limit = f"{ROW_LIMIT // 1024 // 1024} MiB"
    return FileError(FileCode.ROW_TOO_LONG, f"{what} is longer than {limit}; split or shorten that example.")


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Without their LF. A longer rest than may be is handed on as it is and ends the reading."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > ROW_LIMIT:
            head, mark, tail = rest.rpartition(b"\r")
            if not mark or len(head) > 2 * ROW_LIMIT:
                break
            yield from head.split(b"\r")
            rest = tail
    if rest:
        yield rest
