"""Rows of an Excel workbook: one filled sheet, its first row the header."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorant_app.domain.data_codes import FileCode, RowCode
from tensorant_app.domain.datasets import Record, RowError
from tensorant_app.domain.file_kinds import MIB, WORKBOOK_LIMIT, WORKBOOK_TEXTS_LIMIT
from tensorant_app.domain.json_lines import Tally
from tensorant_app.domain.tables import header_fault
from tensorant_app.services.containers import FileRefused, too_much, unpacked_limit


def read_workbook(path: Path, tally: Tally) -> Iterator[Record | RowError]:
    """A row's line is its number in the sheet."""
    _check_sizes(path)
    from openpyxl import load_workbook

    try:
        with path.open("rb") as file:
            book = load_workbook(file, read_only=True, data_only=True, keep_links=False)
            yield from _read_sheet(_only_sheet(book), tally)
            book.close()
    except (FileRefused, MemoryError):
        raise
    except Exception as error:  # openpyxl raises whatever a damaged workbook makes of its parsing
        said = f"The workbook cannot be read ({error}). Save it again as .xlsx."
        raise FileRefused(FileCode.BROKEN_WORKBOOK, said) from error


def _check_sizes(path: Path) -> None:
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
    limit = min(unpacked_limit(size), WORKBOOK_LIMIT)
    if sum(sizes.values()) > limit:
        raise too_much(size, sum(sizes.values()), limit)
    if sizes.get("xl/sharedStrings.xml", 0) > WORKBOOK_TEXTS_LIMIT:
        said = f"The workbook holds more than {WORKBOOK_TEXTS_LIMIT // MIB} MiB of texts. Save it as CSV (UTF-8)."
        raise FileRefused(FileCode.TOO_LARGE, said)


def _only_sheet(book: Any) -> Any:
    sheets = []
    for sheet in book.worksheets:
        sheet.reset_dimensions()
        if next(sheet.iter_rows(values_only=True), None) is not None:
            sheets.append(sheet)
    if len(sheets) != 1:
        names = ", ".join(sheet.title for sheet in sheets[:5])
        held = f"{len(sheets)} filled sheets ({names}); keep the one with the rows" if sheets else "no filled sheet"
        raise FileRefused(FileCode.BROKEN_WORKBOOK, f"The workbook holds {held}.")
    return sheets[0]


def _read_sheet(sheet: Any, tally: Tally) -> Iterator[Record | RowError]:
    rows = enumerate(sheet.iter_rows(values_only=True), start=1)
    header = _trimmed(next(rows)[1])
    if refusal := header_fault([str(name) if name is not None else "" for name in header]):
        raise FileRefused(FileCode.BROKEN_TABLE, refusal)
    names, row = [str(name) for name in header], 0
    for line, cells in rows:
        values = [_plain(cell) for cell in _trimmed(cells)]
        if not values:
            tally.blank_lines += 1
            continue
        row += 1
        if len(values) <= len(names):
            yield Record(row, line, dict(zip(names, values + [None] * (len(names) - len(values)), strict=True)))
        else:
            end = f"it has {len(values)} cells, and the header has {len(names)} columns."
            yield RowError(row, line, "", RowCode.BAD_CELLS, f"Row {row} (line {line}): {end}")


def _trimmed(cells: tuple[Any, ...]) -> list[Any]:
    """Without the empty cells at the end."""
    filled = [n for n, cell in enumerate(cells) if cell is not None]
    return list(cells[: filled[-1] + 1]) if filled else []


def _plain(cell: Any) -> object:
    is_moment = isinstance(cell, datetime.date | datetime.time | datetime.timedelta)
    return (cell.isoformat() if hasattr(cell, "isoformat") else str(cell)) if is_moment else cell
