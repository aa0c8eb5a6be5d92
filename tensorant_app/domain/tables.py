"""Text tables: CSV, TSV and semicolons, with quoted cells that may hold separators, quotation marks and line ends."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tensorant_app.domain.data_codes import FileCode, RowCode
from tensorant_app.domain.datasets import ROW_LIMIT, FileError, Record, RowError
from tensorant_app.domain.json_lines import Tally, too_long
from tensorant_app.domain.json_values import show
from tensorant_app.domain.wording import count

SEPARATORS = {",": "CSV", "\t": "TSV", ";": "semicolon-separated table"}
COLUMN_LIMIT = 1_000


def separator_of(header: str) -> str | None:
    """The separator that stands most often outside quotation marks in the first line; None where none does."""
    outside = "".join(header.split('"')[::2])
    counts = {mark: outside.count(mark) for mark in SEPARATORS}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else None


def read_table(lines: Iterable[str], separator: str, tally: Tally) -> Iterator[Record | RowError | FileError]:
    """Lines with their ends; the first row names the columns. A row's line is the one that it begins in."""
    csv.field_size_limit(ROW_LIMIT)
    raw: list[str] = []
    reader = csv.reader(_kept(lines, raw), delimiter=separator, strict=True)
    try:
        while (header := next(reader, None)) is not None and _is_before(header):
            tally.blank_lines += not any(map(str.strip, header))
    except csv.Error as error:
        yield FileError(FileCode.BROKEN_TABLE, f"The header in line {reader.line_num} cannot be read: {error}.")
        return
    if header is None:
        return
    names = column_names(header)
    if refusal := header_fault(names):
        yield FileError(FileCode.BROKEN_TABLE, refusal)
        return
    tally.columns = tuple(names)
    row = 0
    while True:
        line = reader.line_num + 1
        raw.clear()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            row += 1
            if "field larger" in str(error):
                yield too_long(f"The row in line {line}") if line == reader.line_num else _unclosed(line)
                return
            code = RowCode.CUT_OFF if "unexpected end" in str(error) else RowCode.BAD_CELLS
            yield _fault(row, line, code, _said(error) + _reach(line, reader.line_num))
            continue
        if not cells:
            tally.blank_lines += 1
            continue
        row += 1
        if len(names) < len(cells) <= len(header) and not any(map(str.strip, cells[len(names) :])):
            del cells[len(names) :]
        if any(map(_is_quoted_late, cells)) and f'{separator} "' in "".join(raw):
            end = (
                "a blank stands before the quotation mark of a cell, which is then part of its text; remove the blank."
            )
            yield _fault(row, line, RowCode.BAD_CELLS, end)
        elif len(cells) == len(names):
            yield Record(row, line, dict(zip(names, cells, strict=True)))
        else:
            held, columns = count(len(cells), "cell"), count(len(names), "column")
            end = f"it has {held}, and the header has {columns}; quote cells that hold {show(separator)}."
            yield _fault(row, line, RowCode.BAD_CELLS, end + _reach(line, reader.line_num))


def _kept(lines: Iterable[str], raw: list[str]) -> Iterator[str]:
    for line in lines:
        raw.append(line)
        yield line


def _is_quoted_late(cell: str) -> bool:
    return cell[:1] == " " and cell.lstrip(" ")[:1] == '"'


def _is_before(cells: Sequence[str]) -> bool:
    """A blank line, or the one that tells a spreadsheet program the separator."""
    return not any(map(str.strip, cells)) or (len(cells) == 2 and cells[0].lower() == "sep=" and not cells[1])


def column_names(header: Sequence[str]) -> list[str]:
    """Without the blank ones at its end, under which cells are blank too; the first column may hold an index, which data
    frames write without a name."""
    named = [n for n, name in enumerate(header) if name.strip()]
    names = list(header[: named[-1] + 1]) if len(named) > 1 else list(header)
    if len(names) > 2 and not names[0].strip() and INDEX not in names:
        names[0] = INDEX
    return names


INDEX = "column 1"


def header_fault(header: Sequence[str]) -> str | None:
    """Why these names cannot be columns."""
    if len(header) > COLUMN_LIMIT:
        return f"The table has {len(header):,} columns; at most {COLUMN_LIMIT:,} are read."
    for n, name in enumerate(header, start=1):
        if not name.strip():
            return f"Column {n} of the table has no name; the first row must name every column."
    odd = next((n for n, name in enumerate(header, start=1) if not _is_text(name)), None)
    if odd is not None:
        return f"The name of column {odd} of the table is not UTF-8, or holds NUL; save the file as UTF-8."
    twice = next((name for name, times in Counter(header).items() if times > 1), None)
    return f"Two columns of the table are called {show(twice)}; rename one." if twice is not None else None


def _is_text(name: str) -> bool:
    return "\0" not in name and not any("\ud800" <= sign <= "\udfff" for sign in name)


def _said(error: csv.Error) -> str:
    if "expected after" in str(error):
        return 'a quotation mark inside a quoted cell is not doubled; write "" for one.'
    if "unexpected end" in str(error):
        return "the file ends inside a quoted cell; it was cut off, or a quotation mark is missing."
    return f"the row cannot be read: {error}."


def _reach(first: int, last: int) -> str:
    """A quotation mark too many takes the lines behind it into its cell, and they are lost with it."""
    return f" It reaches to line {last}, because a quoted cell goes on there." if last > first else ""


def _fault(row: int, line: int, code: RowCode, end: str) -> RowError:
    return RowError(row, line, "", code, f"Row {row} (line {line}): {end}")


def _unclosed(line: int) -> FileError:
    end = f"more than {ROW_LIMIT // 1024 // 1024} MiB follow a quotation mark that nothing closes; close it."
    return FileError(FileCode.BROKEN_TABLE, f"In the row that begins in line {line} {end}")
