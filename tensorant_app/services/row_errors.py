"""The errors of an import as people mend them: by kind, biggest first, and the rows of a kind a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlmodel import Session

from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.members import Caller
from tensorant_app.services.imports import read_errors

PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """One kind of error: how many rows have it, and the first sentence as an example."""

    code: str
    rows: int
    example: str


@dataclass(frozen=True, slots=True)
class ErrorRow:
    row: int
    line: int | None
    path: str
    message: str


def group_errors(session: Session, caller: Caller, import_id: UUID) -> list[ErrorGroup]:
    rows: dict[str, set[int]] = {}
    examples: dict[str, str] = {}
    for error in read_errors(session, caller, import_id):
        rows.setdefault(error["code"], set()).add(error["row"])
        examples.setdefault(error["code"], error["message"])
    groups = [ErrorGroup(code, len(found), examples[code]) for code, found in rows.items()]
    return sorted(groups, key=lambda group: (-group.rows, group.code))


def rows_with(
    session: Session, caller: Caller, import_id: UUID, code: str, *, start: int = 0
) -> tuple[Sequence[ErrorRow], int]:
    """Up to 50 errors of one kind, and how many there are."""
    if start < 0:
        raise Invalid({"start": "A page begins at row 0 or later."})
    page: list[ErrorRow] = []
    total = 0
    for error in read_errors(session, caller, import_id):
        if error["code"] != code:
            continue
        if start <= total < start + PAGE_ROWS:
            page.append(ErrorRow(error["row"], error["line"], error["path"], error["message"]))
        total += 1
    return page, total
