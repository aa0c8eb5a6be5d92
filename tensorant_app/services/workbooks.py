"""Rows of an Excel workbook: one filled sheet, its first row the header."""

from __future__ import annotations

import datetime
import re
import zipfile
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from tensorant_app.domain.conversions import path_of
from tensorant_app.domain.data_codes import FileCode, RowCode
from tensorant_app.domain.datasets import Record, RowError
from tensorant_app.domain.file_kinds import MIB, WORKBOOK_LIMIT, WORKBOOK_TEXTS_LIMIT
from tensorant_app.domain.json_lines import Tally
from tensorant_app.domain.tables import column_names, header_fault
from tensorant_app.domain.wording import count
from tensorant_app.services.containers import FileRefused, too_much, unpacked_limit


def read_workbook(path: Path, tally: Tally) -> Iterator[Record | RowError]:
    """A row's line is its number in the sheet."""
    _check_sizes(path)
    from openpyxl import load_workbook

    try:
        with path.open("rb") as file:
            book = load_workbook(file, read_only=True, data_only=True, keep_links=False)
            sheet = _only_sheet(book)
            formulas = load_workbook(path, read_only=True, keep_links=False) if _has_formulas(path) else None
            try:
                yield from _read_sheet(sheet, formulas[sheet.title] if formulas else None, tally)
            finally:
                book.close()
                if formulas:
                    formulas.close()
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


def _has_formulas(path: Path) -> bool:
    """Only then the sheet is read twice: openpyxl shows either formulas or their values."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith("xl/worksheets/"):
                with archive.open(name) as sheet:
                    before = b""
                    while piece := sheet.read(MIB):
                        if _FORMULA.search(before + piece):
                            return True
                        before = piece[-16:]
    return False


_FORMULA = re.compile(rb"<(?:\w{1,8}:)?f[ />]")


def _read_sheet(sheet: Any, formulas: Any, tally: Tally) -> Iterator[Record | RowError]:
    twins = formulas.iter_rows() if formulas is not None else repeat(())
    rows = enumerate(zip(sheet.iter_rows(), twins, strict=formulas is not None), start=1)
    names, row = list[str](), 0
    for line, (cells, written) in rows:
        values = [_plain(cell.value) for cell in _trimmed(cells, written)]
        if not values:
            tally.blank_lines += 1
        elif not names:
            names = column_names([str(name) if name is not None else "" for name in values])
            if refusal := header_fault(names):
                raise FileRefused(FileCode.BROKEN_TABLE, f"{refusal} The header stands in row {line} of the sheet.")
            tally.columns = tuple(names)
        else:
            row += 1
            faults = [*_cell_faults(row, line, names, (cells, written))]
            if len(values) > len(names):
                end = f"it has {count(len(values), 'cell')}, and the header has {count(len(names), 'column')}."
                faults.insert(0, RowError(row, line, "", RowCode.BAD_CELLS, f"Row {row} (line {line}): {end}"))
            if faults:
                yield from faults
            else:
                filled = values + [None] * (len(names) - len(values))
                yield Record(row, line, dict(zip(names, filled, strict=True)))


def _cell_faults(row: int, line: int, names: Sequence[str], cells: tuple[Any, Any]) -> Iterator[RowError]:
    """Errors that a formula ended with, and formulas whose value nobody saved."""
    shown, written = cells
    for name, cell, formula in zip(names, shown, [*written] or repeat(None), strict=False):
        path = path_of(name)
        if cell.data_type == "e":
            end = f"is the error {cell.value}; mend the formula, or leave the cell empty."
        elif cell.value is None and formula is not None and formula.data_type == "f":
            end = "is a formula without a saved value; open the workbook in a spreadsheet program and save it there."
        else:
            continue
        yield RowError(row, line, path, RowCode.NO_VALUE, f"Row {row} (line {line}): {path} {end}")


def _trimmed(cells: Sequence[Any], written: Sequence[Any]) -> list[Any]:
    """Without the empty cells at the end; a formula is not empty."""
    kinds = [
        cell.value is not None or (n < len(written) and written[n].value is not None) for n, cell in enumerate(cells)
    ]
    filled = [n for n, is_filled in enumerate(kinds) if is_filled]
    return list(cells[: filled[-1] + 1]) if filled else []


def _plain(cell: Any) -> object:
    is_moment = isinstance(cell, datetime.date | datetime.time | datetime.timedelta)
    if is_moment:
        return cell.isoformat() if hasattr(cell, "isoformat") else str(cell)
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), cell) if isinstance(cell, str) and "_x" in cell else cell


_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
"""How a workbook writes signs that XML does without, such as _x000D_ for a carriage return."""
