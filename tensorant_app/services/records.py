"""The records of a text file: its kind is told by its beginning, and each kind has its own reader."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from tensorant_app.domain.conversions import path_of
from tensorant_app.domain.data_codes import FileCode, RowCode
from tensorant_app.domain.datasets import ROW_LIMIT, FileError, Record, RowError
from tensorant_app.domain.file_kinds import MIB, WHOLE_LIMIT, FileKind
from tensorant_app.domain.json_arrays import read_json_array
from tensorant_app.domain.json_columns import is_one_row, read_columns
from tensorant_app.domain.json_lines import Tally, read_json_lines
from tensorant_app.domain.json_text import parse, parse_object
from tensorant_app.domain.layouts import recognise
from tensorant_app.domain.tables import SEPARATORS, read_table, separator_of
from tensorant_app.services.containers import FileRefused

Found = Record | RowError | FileError
_BLANKS = b" \t\r\n"
_KINDS = {",": FileKind.CSV, "\t": FileKind.TSV, ";": FileKind.SEMICOLONS}


def read_records(pieces: Iterator[bytes], tally: Tally) -> tuple[FileKind, Iterator[Found]]:
    """UTF-8 text in pieces: what kind it is, and its records. One bad line at the beginning makes no other kind."""
    begin = _until_first_line(pieces)
    text = b"".join(begin).lstrip(_BLANKS)
    mark = _LEADING.sub(b"", text[:100])[:1]
    if mark == b"{":
        return _objects(text, begin, pieces, tally)
    begin = _looked_at(begin, pieces)
    whole, lines = chain(begin, pieces), _lines_of(begin)
    if mark == b"[":
        if _is_no_array(lines):
            return FileKind.JSON_LINES, read_json_lines(whole, tally)
        return FileKind.JSON_ARRAY, _array(whole, text)
    header = text.split(b"\n", 1)[0].split(b"\r", 1)[0]
    separator = separator_of(header.decode(errors="replace")) or ("," if _is_column(header) else None)
    if (
        separator is None
        or b'{"' in header
        or any(map(_is_row, lines[:2] if _names_columns(header, separator) else lines))
    ):
        return FileKind.JSON_LINES, read_json_lines(whole, tally)
    return _KINDS[separator], _table(whole, separator, tally)


_LOOK_AT = MIB
"""Bytes of text in which a row is looked for where the first line shows none."""
_LEADING = re.compile(rb"(?:[ \t\r\n]|\xef\xbb\xbf|\xc2\xa0|\xe2\x80[\x8b-\x8f]|\xe2\x81[\xa0-\xa4])+")
"""White space and invisible characters, which are a fault of the row and hide nothing about the file."""


def _is_column(header: bytes) -> bool:
    """A table of one column has no separator, so its name must be a known one."""
    return recognise([header.decode(errors="replace").strip().strip('"')]) is not None


def _names_columns(header: bytes, separator: str) -> bool:
    names = header.decode(errors="replace").split(separator)
    return recognise([name.strip().strip('"') for name in names]) is not None


def _looked_at(begin: list[bytes], pieces: Iterator[bytes]) -> list[bytes]:
    """As many pieces as are looked at."""
    kept, length = list(begin), sum(map(len, begin))
    while length < _LOOK_AT and (piece := next(pieces, None)) is not None:
        kept.append(piece)
        length += len(piece)
    return kept


def _lines_of(begin: list[bytes]) -> list[bytes]:
    """Those of the beginning that are not blank."""
    return [line for line in map(bytes.strip, re.split(rb"[\r\n]+", b"".join(begin))) if line]


def _is_row(line: bytes) -> bool:
    """One whole object that is no part of another one, as a message of a row over several lines would be."""
    if not (line.startswith(b"{") and line.endswith(b"}")):
        return False
    value = parse_object(line)
    return isinstance(value, dict) and bool(value) and not value.keys() & {"role", "from"}


def _is_no_array(lines: list[bytes]) -> bool:
    """More objects stand alone on their lines than are followed by a comma, as the elements of an array are."""
    after = [*lines[1:], b""]
    alone = sum(_is_row(line) and not then.startswith((b"]", b",")) for line, then in zip(lines, after, strict=True))
    lists = sum(line.startswith(b"[") and isinstance(parse(line), list) for line in lines[:2])
    return alone > sum(line.endswith(b"},") for line in lines) or lists == 2


def _array(pieces: Iterable[bytes], text: bytes) -> Iterator[Found]:
    if text.startswith(b"["):
        return read_json_array(pieces)
    sign = text[:10].decode(errors="replace")[0]
    said = f"The invisible character U+{ord(sign):04X} stands before the JSON array; remove it."
    return iter([FileError(FileCode.BROKEN_ARRAY, said)])


def _until_first_line(pieces: Iterator[bytes]) -> list[bytes]:
    """Pieces until one line that is not blank is whole, and the beginning of the next one."""
    begin: list[bytes] = []
    length = 0
    for piece in pieces:
        begin.append(piece)
        length += len(piece)
        _, mark, more = b"".join(begin).lstrip(_BLANKS).partition(b"\n")
        if length > ROW_LIMIT or (mark and more.strip(_BLANKS)):
            break
    return begin


def _objects(
    text: bytes, begin: list[bytes], pieces: Iterator[bytes], tally: Tally
) -> tuple[FileKind, Iterator[Found]]:
    """Lines of objects, unless the whole file is one object: of columns, or one row written over several lines."""
    first, _, more = text.partition(b"\n")
    is_line = isinstance(parse_object(first), dict) if len(first) <= ROW_LIMIT else True
    if more.lstrip(_BLANKS).startswith(b"{") and (is_line or _starts_object(first)):
        return FileKind.JSON_LINES, read_json_lines(chain(begin, pieces), tally)
    if is_line and more.strip(_BLANKS):
        return FileKind.JSON_LINES, read_json_lines(chain(begin, pieces), tally)
    kept, rest = _bounded(begin, pieces)
    if rest is not None:
        if is_line or any(map(_is_row, _lines_of(begin))):
            return FileKind.JSON_LINES, read_json_lines(chain(kept, rest), tally)
        raise FileRefused(FileCode.TOO_LARGE, _TOO_LARGE)
    body = b"".join(kept).strip(_BLANKS)
    value = parse(body)
    if isinstance(value, dict) and not is_one_row(value) and (columns := read_columns(value)) is not None:
        return FileKind.JSON_COLUMNS, columns
    if is_line or (isinstance(value, tuple) and (b"\n" not in body or any(map(_is_row, _lines_of(kept))))):
        return FileKind.JSON_LINES, read_json_lines(kept, tally)
    if isinstance(value, tuple) and value[1] is RowCode.SEVERAL_VALUES:
        raise FileRefused(FileCode.NOT_JSONL, "The objects are written over several lines. Put each on one line.")
    return FileKind.JSON_LINES, iter([Record(1, 1, body)])


_TOO_LARGE = (
    f"The file is one JSON object of more than {WHOLE_LIMIT // MIB} MiB, which cannot be read piece by piece. "
    "Write JSON Lines: one object on each line."
)


def _starts_object(line: bytes) -> bool:
    """A broken row rather than the opening brace of an object over several lines."""
    return len(line.strip(_BLANKS)) > 1


def _bounded(begin: list[bytes], pieces: Iterator[bytes]) -> tuple[list[bytes], Iterator[bytes] | None]:
    """The whole file where it is small enough, else its beginning and what follows."""
    kept, length = list(begin), sum(map(len, begin))
    for piece in pieces:
        kept.append(piece)
        length += len(piece)
        if length > WHOLE_LIMIT:
            return kept, pieces
    return kept, None


def _table(pieces: Iterable[bytes], separator: str, tally: Tally) -> Iterator[Found]:
    """Cells that hold bytes which are not UTF-8 are named by their column."""
    assert separator in SEPARATORS
    for found in read_table(text_lines(pieces), separator, tally):
        bad = _not_utf8(found) if isinstance(found, Record) else None
        yield bad or found


_ESCAPED = re.compile("[\udc80-\udcff]")


def _not_utf8(record: Record) -> RowError | None:
    values = record.body if isinstance(record.body, dict) else {}
    for column, cell in values.items():
        if not cell.isascii() and (found := _ESCAPED.search(cell)):
            byte = ord(found[0]) - 0xDC00
            path = path_of(column)
            end = f"{path} holds the byte {byte:#04x}, which is not UTF-8; save the file as UTF-8."
            return RowError(
                record.row, record.line, path, RowCode.NOT_UTF8, f"Row {record.row} (line {record.line}): {end}"
            )
    return None


def text_lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Lines with their ends, LF, CRLF or CR; a line beyond the limit comes in parts, which the table refuses."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    rest = ""
    for piece in chain(pieces, [None]):
        text = rest + decoder.decode(piece or b"", final=piece is None)
        # A CR at the end may be half of a CRLF.
        held = "\r" if text.endswith("\r") and piece is not None else ""
        parts = _LINE_END.split(text.removesuffix(held) if held else text)
        rest = parts.pop() + held
        yield from map("".join, zip(parts[::2], parts[1::2], strict=True))
        if len(rest) > 2 * ROW_LIMIT:
            yield rest
            rest = ""
    if rest:
        yield rest


_LINE_END = re.compile(r"(\r\n|\n|\r)")
