"""The rejected rows of a file as they stand in it, each with every reason: what a person mends and imports again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain, groupby, islice
from pathlib import Path
from typing import IO, Any

from tensorant_app.domain.datasets import Record, RowError
from tensorant_app.domain.file_kinds import FileKind
from tensorant_app.services.containers import open_file, read_text
from tensorant_app.services.reading import raw_rows
from tensorant_app.services.records import text_lines

_TABLES = (FileKind.CSV, FileKind.TSV, FileKind.SEMICOLONS)


def keep_bad_rows(source: Path, errors: Path, target: Path, tell: Callable[[int], None] = lambda row: None) -> None:
    """One JSON object a line: row, line, reasons, and `raw`, which is null where the file has no text of the row."""
    with errors.open(encoding="utf-8") as lines, target.open("w", encoding="utf-8") as kept:
        raws = _Raws(source)
        for row, faults in groupby(map(json.loads, lines), key=lambda fault: int(fault["row"])):
            tell(row)
            _write(kept, row, list(faults), raws.raw_of(row))


def _write(kept: IO[str], row: int, faults: list[dict[str, Any]], raw: object) -> None:
    reasons = [{name: fault[name] for name in ("path", "code", "message")} for fault in faults]
    line = {"row": row, "line": faults[0]["line"], "reasons": reasons, "raw": raw}
    kept.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace").decode() + "\n")


class _Raws:
    """Walks the file beside its errors, in one pass, for rows are asked for in order."""

    def __init__(self, source: Path) -> None:
        kind, self._rows = raw_rows(source)
        self._lines = _lines_of(source) if kind in _TABLES else None
        self._at_line = 1

    def raw_of(self, row: int) -> object:
        for found in self._rows:
            if (found.row or 0) >= row:
                return self._text(found) if found.row == row else None
        return None

    def _text(self, found: Record | RowError) -> object:
        if isinstance(found, Record):
            body = found.body
            return body.decode("utf-8", "backslashreplace") if isinstance(body, bytes) else body
        return self._lines_from(found.line) if self._lines is not None and found.line else None

    def _lines_from(self, line: int) -> str | None:
        """The text from this line up to where the next row begins."""
        following = next(self._rows, None)
        if following is not None:
            self._rows = chain([following], self._rows)
        end = following.line if following is not None else None
        assert self._lines is not None
        skipped = line - self._at_line
        text = list(islice(self._lines, skipped, None if end is None else end - self._at_line))
        self._at_line = self._at_line + skipped + len(text)
        return "".join(text).rstrip("\r\n").encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _lines_of(source: Path) -> Iterator[str]:
    return text_lines(read_text(open_file(source)))
