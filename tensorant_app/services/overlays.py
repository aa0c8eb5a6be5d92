"""What the edits of an import come to, as lists, versions and deletions ask for it; every step is in `services.edits`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, func, select

from tensorant_app.db.datasets import Import, RowEdit
from tensorant_app.domain.edits import Edit, Overlay, fold
from tensorant_app.services.connections import store
from tensorant_app.services.imports import rows_key
from tensorant_app.services.row_errors import rejected_rows


@dataclass(frozen=True, slots=True)
class EditedCounts:
    ready: int
    """Rows that a version is made of."""
    with_errors: int
    """Rejected rows that nobody has mended or left out."""
    left_out: int = 0
    """Rows that somebody left out, of either kind."""


def counts_of(session: Session, row: Import, until: int | None = None) -> EditedCounts:
    """After all steps, or after one of them. Other organizations' rows are the caller's to keep out."""
    overlay = overlay_of(session, row.id, until)
    if overlay.is_empty:
        return EditedCounts(row.accepted, row.rejected)
    rejected = rejected_rows(row.id)
    return EditedCounts(
        overlay.ready(row.accepted, rejected), len(overlay.open_errors(rejected)), len(overlay.left_out)
    )


def overlay_of(session: Session, import_id: UUID, until: int | None = None) -> Overlay:
    """What the steps come to, up to one of them."""
    return fold(edits_of(session, import_id, until))


def edits_of(session: Session, import_id: UUID, until: int | None = None) -> list[Edit]:
    found = select(RowEdit).where(RowEdit.import_id == import_id).order_by(col(RowEdit.id))
    if until is not None:
        found = found.where(col(RowEdit.id) <= until)
    return [_edit(one) for one in session.exec(found)]


def newest_edit(session: Session, import_ids: Iterable[UUID]) -> int:
    """The last step of any of them; 0 where there is none."""
    last = select(func.max(RowEdit.id)).where(col(RowEdit.import_id).in_(list(import_ids)))
    return session.exec(last).one() or 0


def files_with(session: Session, import_id: UUID) -> list[str]:
    """Names of the files that this one's rows were added to, whether or not that was undone: it can be looked at."""
    targets = select(RowEdit.import_id).where(RowEdit.source_id == import_id)
    alive = select(Import).where(col(Import.id).in_(targets), col(Import.deleted_at).is_(None))
    return [one.file_name for one in session.exec(alive.order_by(col(Import.created_at)))]


def edited_source(session: Session, import_id: UUID, until: int) -> dict[str, Any]:
    """The steps in the form of a job file, with the path of each appended file's rows."""
    stored = overlay_of(session, import_id, until).stored()
    if stored:
        appended: Any = stored["appended"]
        stored["appended"] = [[str(store().fetch(rows_key(UUID(source)))), offset] for source, offset in appended]
    return stored


def _edit(row: RowEdit) -> Edit:
    source = str(row.source_id) if row.source_id else ""
    rows = tuple(row.rows)
    return Edit(row.id or 0, row.kind, rows, row.example, row.was_rejected, source, row.added, row.undoes)
