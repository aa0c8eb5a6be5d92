"""Editing the rows of an import before a version is frozen: every step is kept, audited, and can be undone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, func, select

from tensorant_app.db.datasets import Import, RowEdit
from tensorant_app.db.session import now_of
from tensorant_app.domain.datasets import Record, Row, read_record
from tensorant_app.domain.edits import Edit, EditKind, Overlay, fold, standing
from tensorant_app.domain.errors import Conflict, Invalid, NotFound, Refused
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.json_text import parse_object
from tensorant_app.domain.json_values import show_keys
from tensorant_app.domain.layouts import ColumnMapping, Layout, from_stored, recognise
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.services.audit import write_audit
from tensorant_app.services.bases import reads_images
from tensorant_app.services.connections import store
from tensorant_app.services.import_images import image_folder, place_images
from tensorant_app.services.imports import base_of, rows_key
from tensorant_app.services.lookup import own_row
from tensorant_app.services.row_errors import rejected_rows

MOST_ROWS = 100_000
"""Of one step."""


@dataclass(frozen=True, slots=True)
class EditLine:
    """One step for the list of what was done."""

    who: str
    at: datetime
    kind: EditKind
    rows: Sequence[int]
    file_name: str
    """Of an appended file."""


@dataclass(frozen=True, slots=True)
class EditsView:
    ready: int
    left_out: int
    changed: int
    mended: int
    appended: int
    """Rows of other files."""
    still_rejected: int
    lines: Sequence[EditLine]
    """Steps that stand, newest first; at most 50."""


def show_edits(session: Session, caller: Caller, import_id: UUID) -> EditsView:
    caller.require(Permission.SEE)
    row = own_row(session, caller, Import, import_id, "import")
    overlay = overlay_of(session, row.id)
    stored = session.exec(select(RowEdit).where(RowEdit.import_id == row.id).order_by(col(RowEdit.id)))
    by_id = {edit.id: edit for edit in stored}
    newest = [by_id[edit.id] for edit in standing(map(_edit, by_id.values()))][-50:][::-1]
    return EditsView(
        overlay.ready(row.accepted),
        len(overlay.left_out),
        len(overlay.changed),
        len(overlay.mended),
        sum(one.rows for one in overlay.appended),
        row.rejected - len(overlay.mended),
        [EditLine(one.who, one.at, one.kind, one.rows, _name(session, one.source_id)) for one in newest],
    )


def leave_out(session: Session, caller: Caller, import_id: UUID, rows: Sequence[int]) -> None:
    """These rows stay out of versions from now on; the file keeps them."""
    row = _editable(session, caller, import_id)
    overlay = overlay_of(session, row.id)
    _require_rows(session, row, overlay, rows)
    out = (rejected_rows(row.id) - overlay.mended) | overlay.left_out
    wanted = sorted({*rows} - out)
    if not wanted:
        raise Conflict("These rows are left out already.")
    _add(session, caller, row, EditKind.LEAVE_OUT, wanted)


def put_back(session: Session, caller: Caller, import_id: UUID, rows: Sequence[int]) -> None:
    """As the file has them: not left out and not changed any more."""
    row = _editable(session, caller, import_id)
    overlay = overlay_of(session, row.id)
    _require_rows(session, row, overlay, rows)
    wanted = sorted({*rows} & (overlay.left_out | overlay.changed.keys()))
    if not wanted:
        raise Conflict("These rows are as the file has them already.")
    _add(session, caller, row, EditKind.PUT_BACK, wanted)


def change_row(session: Session, caller: Caller, import_id: UUID, number: int, text: str) -> None:
    """Another text for a row, read as strictly as the file; `Refused` names every fault, and nothing is changed."""
    row = _editable(session, caller, import_id)
    overlay = overlay_of(session, row.id)
    _require_rows(session, row, overlay, [number])
    made = _read(session, row, number, text, overlay)
    _add(
        session,
        caller,
        row,
        EditKind.CHANGE,
        [number],
        example=made.example,
        was_rejected=number in rejected_rows(row.id),
    )


def append_file(session: Session, caller: Caller, import_id: UUID, other_id: UUID) -> None:
    """All ready rows of another import of the dataset stand behind this one's; they keep their own numbers besides."""
    row = _editable(session, caller, import_id)
    other = own_row(session, caller, Import, other_id, "import")
    overlay = overlay_of(session, row.id)
    if other.dataset_id != row.dataset_id or other.id == row.id:
        raise Invalid({"file": "Choose another file of the same dataset."})
    if other.state is not ImportState.READY:
        raise Conflict(f"The file {other.file_name} is {other.state.value}; wait until it is ready.")
    if any(one.source == str(other.id) for one in overlay.appended):
        raise Conflict(f"The rows of {other.file_name} were added already.")
    offset = _last(session, row, overlay)
    _add(session, caller, row, EditKind.APPEND, [offset], source_id=other.id, added=other.accepted)


def undo(session: Session, caller: Caller, import_id: UUID) -> None:
    """Take back the newest step that stands; the step and its undoing are both kept."""
    row = _editable(session, caller, import_id)
    steps = standing(edits_of(session, row.id))
    if not steps:
        raise Conflict("There is nothing to undo.")
    _add(session, caller, row, EditKind.UNDO, [], undoes=steps[-1].id)


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


def _editable(session: Session, caller: Caller, import_id: UUID) -> Import:
    caller.require(Permission.PREPARE)
    row = own_row(session, caller, Import, import_id, "import")
    if row.state is not ImportState.READY:
        raise Conflict(f"The file {row.file_name} is {row.state.value}; only a ready one can be edited.")
    return row


def _require_rows(session: Session, row: Import, overlay: Overlay, rows: Sequence[int]) -> None:
    last = _last(session, row, overlay)
    if not rows or len(rows) > MOST_ROWS:
        raise Invalid({"rows": f"Choose between 1 and {MOST_ROWS:,} rows."})
    if strange := next((number for number in rows if not 1 <= number <= last), None):
        raise NotFound(f"There is no row {strange}; the rows are numbered from 1 to {last:,}.")


def _last(session: Session, row: Import, overlay: Overlay) -> int:
    if not overlay.appended:
        return row.rows
    newest = overlay.appended[-1]
    return newest.offset + session.get_one(Import, UUID(newest.source)).rows


def _read(session: Session, row: Import, number: int, text: str, overlay: Overlay) -> Row:
    parsed = parse_object(text)
    if isinstance(parsed, tuple):
        raise Refused(f"Row {number} is not changed:", [f"The text: {parsed[2]}"])
    mapping, imports = _mapping(row, parsed), _its_file_first(row, number, overlay)
    has_images = reads_images(*base_of(session, row)) or any(image_folder(one).is_dir() for one in imports)
    read = read_record(Record(number, None, text), mapping, with_images=has_images)
    if not isinstance(read, Row):
        raise Refused(f"Row {number} is not changed:", [fault.message for fault in read])
    placed = place_images(read, imports) if has_images else read
    if not isinstance(placed, Row):
        raise Refused(f"Row {number} is not changed:", [f"Row {number}: {fault}" for fault in placed])
    return placed


def _its_file_first(row: Import, number: int, overlay: Overlay) -> list[UUID]:
    """This import and those whose rows were added to it, beginning with the one that the row came from."""
    added = sorted(overlay.appended, key=lambda one: -one.offset)
    own = next((UUID(one.source) for one in added if number > one.offset), row.id)
    return list(dict.fromkeys([own, row.id, *(UUID(one.source) for one in added)]))


def _mapping(row: Import, parsed: Any) -> ColumnMapping:
    """A row may be given as a conversation or as the file lays its rows out."""
    if "messages" in parsed:
        return ColumnMapping(Layout.CHAT, {"messages": "messages"})
    found = from_stored(row.mapping) if row.mapping else recognise(parsed)
    if found is None:
        said = f"The row holds {show_keys(parsed)}; write messages, or the columns of the file."
        raise Refused("The row is not changed:", [said])
    return found


def _add(session: Session, caller: Caller, row: Import, kind: EditKind, rows: list[int], **more: Any) -> None:
    at = now_of(session)
    made = RowEdit(
        at=at,
        organization_id=row.organization_id,
        import_id=row.id,
        who=caller.name,
        kind=kind,
        rows=rows,
        **more,
    )
    session.add(made)
    session.flush()
    first = rows[0] if rows else None
    write_audit(session, caller, f"rows.{kind.value}", row.id, edit=made.id, rows=len(rows), first=first)


def _edit(row: RowEdit) -> Edit:
    source = str(row.source_id) if row.source_id else ""
    rows = tuple(row.rows)
    return Edit(row.id or 0, row.kind, rows, row.example, row.was_rejected, source, row.added, row.undoes)


def _name(session: Session, import_id: UUID | None) -> str:
    return session.get_one(Import, import_id).file_name if import_id else ""
