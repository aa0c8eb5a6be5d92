"""Finding a row for a caller: another organization's is as if it were not there."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from sqlmodel import Session, SQLModel

from tensorant_app.domain.errors import NotFound
from tensorant_app.domain.members import Caller

T = TypeVar("T", bound=SQLModel)


def own_row(session: Session, caller: Caller, table: type[T], row_id: UUID, noun: str) -> T:
    """The row, or `NotFound`; the operator sees every organization's."""
    row: Any = session.get(table, row_id)
    is_gone = row is None or getattr(row, "deleted_at", None) is not None
    if is_gone or not (caller.is_operator or row.organization_id == caller.organization_id):
        raise NotFound(f"There is no {noun} {row_id} here.")
    return row  # type: ignore[no-any-return]


def hold_row(session: Session, caller: Caller, table: type[T], row_id: UUID, noun: str) -> T:
    """The same, held until the end of the transaction: nobody deletes it or begins to use it meanwhile."""
    session.refresh(own_row(session, caller, table, row_id, noun), with_for_update=True)
    return own_row(session, caller, table, row_id, noun)
