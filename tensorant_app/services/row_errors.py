"""What an import found, as people mend it: errors and warnings by kind, biggest first, and the rows of a kind by page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlmodel import Session

from tensorant_app.domain.data_codes import NoticeCode, RowCode
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.members import Caller
from tensorant_app.services.connections import store
from tensorant_app.services.imports import errors_key, show_import, warnings_key

PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """One kind of error or warning: how many rows have it, how often it is named, and the first sentence."""

    code: str
    rows: int
    findings: int
    example: str


@dataclass(frozen=True, slots=True)
class ErrorRow:
    row: int | None
    """None where it is about the file."""
    line: int | None
    path: str
    message: str


def group_errors(session: Session, caller: Caller, import_id: UUID) -> Sequence[ErrorGroup]:
    show_import(session, caller, import_id)
    return _groups(errors_key(import_id))


def group_warnings(session: Session, caller: Caller, import_id: UUID) -> Sequence[ErrorGroup]:
    show_import(session, caller, import_id)
    return _groups(warnings_key(import_id))


def rows_with(
    session: Session, caller: Caller, import_id: UUID, code: str, *, start: int = 0
) -> tuple[Sequence[ErrorRow], int]:
    """Up to 50 errors or warnings of one kind, and how many there are."""
    if start < 0:
        raise Invalid({"start": "A page begins at row 0 or later."})
    show_import(session, caller, import_id)
    key = warnings_key(import_id) if code in [*NoticeCode] else errors_key(import_id)
    total = next((group.findings for group in _groups(key) if group.code == code), 0)
    page: list[ErrorRow] = []
    for n, found in enumerate(_findings(store().fetch(key), code)):
        if n >= start:
            page.append(ErrorRow(found["row"], found["line"], found["path"], found["message"]))
        if len(page) == PAGE_ROWS:
            break
    return page, total


def rejected_rows(import_id: UUID) -> frozenset[int]:
    """The numbers of all rejected rows; for services, which have asked who the caller is."""
    path = store().fetch(errors_key(import_id))
    if not path.is_file():
        return frozenset()
    known = path.stat()
    return _rejected(path, known.st_mtime_ns, known.st_size)


@lru_cache(maxsize=16)
def _rejected(path: Path, changed: int, size: int) -> frozenset[int]:
    return frozenset(found["row"] for found in _findings(path))


def is_code(text: str) -> bool:
    """Whether a row can have it, as an error or a warning."""
    return text in [*RowCode, *NoticeCode]


def rows_of_kind(import_id: UUID, code: str) -> frozenset[int]:
    """The numbers of all rows that have this error or warning; as `rejected_rows`."""
    path = store().fetch(warnings_key(import_id) if code in [*NoticeCode] else errors_key(import_id))
    if not code or not path.is_file():
        return frozenset()
    known = path.stat()
    return _of_kind(path, code, known.st_mtime_ns, known.st_size)


@lru_cache(maxsize=16)
def _of_kind(path: Path, code: str, changed: int, size: int) -> frozenset[int]:
    return frozenset(found["row"] for found in _findings(path, code) if found["row"] is not None)


def _groups(key: str) -> Sequence[ErrorGroup]:
    path = store().fetch(key)
    if not path.is_file():
        return ()
    known = path.stat()
    return _grouped(path, known.st_mtime_ns, known.st_size)


@lru_cache(maxsize=32)
def _grouped(path: Path, changed: int, size: int) -> Sequence[ErrorGroup]:
    """Reads the whole file, once for as long as it is the same one."""
    rows: dict[str, set[int | None]] = {}
    counts: dict[str, int] = {}
    examples: dict[str, str] = {}
    for found in _findings(path):
        code = found["code"]
        rows.setdefault(code, set()).add(found["row"])
        counts[code] = counts.get(code, 0) + 1
        examples.setdefault(code, found["message"])
    groups = [ErrorGroup(code, len(found), counts[code], examples[code]) for code, found in rows.items()]
    return tuple(sorted(groups, key=lambda group: (-group.rows, group.code)))


def _findings(path: Path, code: str = "") -> Iterator[dict[str, Any]]:
    """All of them, or those of one kind; lines of other kinds are not parsed."""
    if not path.is_file():
        return
    mark = f'"code": {json.dumps(code)}'
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if code and mark not in line:
                continue
            found: dict[str, Any] = json.loads(line)
            if not code or found["code"] == code:
                yield found
