"""Editing the rows of an import before a version is frozen: every step is kept, audited, and can be undone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.datasets import Import, RowEdit
from tensorant_app.db.session import now_of
from tensorant_app.domain.datasets import Record, Row, read_record
from tensorant_app.domain.edits import MOST_ROWS, EditKind, Overlay, fold, standing
from tensorant_app.domain.errors import Conflict, Invalid, NotFound, Refused
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.json_text import parse_object
from tensorant_app.domain.json_values import show_keys
from tensorant_app.domain.layouts import ColumnMapping, Layout, from_stored, recognise
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.services.audit import write_audit
from tensorant_app.services.bases import reads_images
from tensorant_app.services.import_images import image_folder, place_images
from tensorant_app.services.imports import base_of
from tensorant_app.services.lookup import hold_row, own_row
from tensorant_app.services.overlays import edits_of, newest_edit, overlay_of
from tensorant_app.services.row_errors import rejected_rows


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
    steps = edits_of(session, row.id)
    overlay, rejected = fold(steps), rejected_rows(row.id)
    newest = [session.get_one(RowEdit, one.id) for one in standing(steps)[-50:][::-1]]
    return EditsView(
        overlay.ready(row.accepted, rejected),
        len(overlay.left_out),
        len(overlay.changed),
        len(overlay.mended),
        sum(one.rows for one in overlay.appended),
        len(overlay.open_errors(rejected)),
        [EditLine(one.who, one.at, one.kind, one.rows, _name(session, one.source_id)) for one in newest],
    )


def leave_out(
    session: Session,
    caller: Caller,
    import_id: UUID,
    rows: Sequence[int],
    *,
    because: str = "",
    seen: int | None = None,
) -> int:
    """These rows stay out of versions from now on; the file keeps them. How many were not out before.

    Of rejected rows it says that somebody knows of them. `because` goes into the audit. Where the rows were looked up
    before, `seen` is the newest step of then: `Conflict` where there was another one since.
    """
    row, overlay = _open(session, caller, import_id, rows, seen)
    wanted = sorted({*rows} - overlay.left_out)
    if not wanted:
        raise Conflict("These rows are left out already.")
    _add(session, caller, row, EditKind.LEAVE_OUT, wanted, because)
    return len(wanted)


def put_back(
    session: Session,
    caller: Caller,
    import_id: UUID,
    rows: Sequence[int],
    *,
    because: str = "",
    seen: int | None = None,
) -> int:
    """As the file has them: not left out and not changed any more. How many were; the rest as `leave_out`."""
    row, overlay = _open(session, caller, import_id, rows, seen)
    wanted = sorted({*rows} & (overlay.left_out | overlay.changed.keys()))
    if not wanted:
        raise Conflict("These rows are as the file has them already.")
    _add(session, caller, row, EditKind.PUT_BACK, wanted, because)
    return len(wanted)


def change_row(session: Session, caller: Caller, import_id: UUID, number: int, text: str) -> None:
    """Another text for a row, read as strictly as the file; `Refused` names every fault, and nothing is changed."""
    row, overlay = _open(session, caller, import_id, [number])
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
    """All ready rows of another import of the dataset stand behind this one's; they keep their own numbers besides.

    As its file has them: what was edited there stays there.
    """
    row = _editable(session, caller, import_id)
    try:
        other = hold_row(session, caller, Import, other_id, "import")
    except NotFound:
        raise NotFound("The file whose rows should be added is not there any more. Choose another one.") from None
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


def _editable(session: Session, caller: Caller, import_id: UUID) -> Import:
    caller.require(Permission.PREPARE)
    row = own_row(session, caller, Import, import_id, "import")
    if row.state is not ImportState.READY:
        raise Conflict(f"The file {row.file_name} is {row.state.value}; only a ready one can be edited.")
    return row


def _open(
    session: Session, caller: Caller, import_id: UUID, rows: Sequence[int], seen: int | None = None
) -> tuple[Import, Overlay]:
    """The import and its steps, where `rows` are its own and nobody took another step since `seen`."""
    row = _editable(session, caller, import_id)
    if seen is not None and newest_edit(session, [row.id]) != seen:
        raise Conflict("Somebody edited the rows of this file meanwhile. Look at them again, then decide.")
    overlay = overlay_of(session, row.id)
    _require_rows(session, row, overlay, rows)
    return row, overlay


def _require_rows(session: Session, row: Import, overlay: Overlay, rows: Sequence[int]) -> None:
    last = _last(session, row, overlay)
    if not rows or len(rows) > MOST_ROWS:
        raise Invalid({"rows": f"Choose between 1 and {MOST_ROWS:,} rows."})
    if strange := next((number for number in rows if not 1 <= number <= last), None):
        raise NotFound(f"There is no row {strange}; the rows are numbered from 1 to {last:,}.")
    for one in overlay.appended:
        if missing := {number - one.offset for number in rows} & rejected_rows(UUID(one.source)):
            there = min(missing)
            named = f"row {there} of {_name(session, UUID(one.source))}"
            raise NotFound(f"Row {there + one.offset} is {named}, which has errors and was not added.")


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


def _add(
    session: Session, caller: Caller, row: Import, kind: EditKind, rows: list[int], because: str = "", **more: Any
) -> None:
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
    first, why = rows[0] if rows else None, because or None
    write_audit(session, caller, f"rows.{kind.value}", row.id, edit=made.id, rows=len(rows), first=first, because=why)


def _name(session: Session, import_id: UUID | None) -> str:
    return session.get_one(Import, import_id).file_name if import_id else ""
