"""An upload before it is read: what it is, how its columns are understood, and what its first rows become."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.datasets import Import
from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.file_kinds import FileKind, Wrapping
from tensorant_app.domain.import_previews import SHOWN, PreviewRow, preview_rows, unpack
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.layouts import ColumnMapping, choose_columns, from_stored
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.services import imports
from tensorant_app.services.bases import reads_images
from tensorant_app.services.connections import store
from tensorant_app.services.lookup import own_row


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a person says in the mapper: a layout, and the column of each field; an empty one means none."""

    layout: str
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Preview:
    kind: FileKind
    wrapping: Wrapping
    columns: Sequence[str]
    mapping: ColumnMapping | None
    """The one chosen, else the one recognised; None where a person has to say."""
    wrong: Mapping[str, str]
    """Field → what its choice lacks."""
    question: str | None
    """Why a mapping is needed, where no layout was recognised."""
    rows: Sequence[PreviewRow]


def show_preview(session: Session, caller: Caller, import_id: UUID, chosen: Chosen | None = None) -> Preview | None:
    """None before its first rows have been looked at, and once it is read."""
    caller.require(Permission.SEE)
    row = own_row(session, caller, Import, import_id, "import")
    if not row.previewed or row.state is not ImportState.RECEIVING:
        return None
    found = _stored(row.id)
    mapping, wrong = _mapping(found, chosen)
    records = [unpack(packed) for packed in found["records"]][:SHOWN]
    return Preview(
        FileKind(found["kind"]),
        Wrapping(found["wrapping"]),
        found["columns"],
        mapping,
        wrong,
        found["question"],
        preview_rows(records, mapping, with_images=reads_images(*imports.base_of(session, row))) if mapping else (),
    )


def start_reading(session: Session, caller: Caller, import_id: UUID, chosen: Chosen) -> None:
    """A person has seen the first rows and agrees: read the whole file in this way."""
    caller.require(Permission.PREPARE)
    row = own_row(session, caller, Import, import_id, "import")
    if not row.previewed or row.state is not ImportState.RECEIVING:
        raise Conflict(f"The file {row.file_name} does not wait for this any more. Look again.")
    mapping = choose_columns(chosen.layout, chosen.columns, _stored(row.id)["columns"])
    imports.check_import(session, caller, import_id, mapping=mapping)


def _mapping(found: Mapping[str, Any], chosen: Chosen | None) -> tuple[ColumnMapping | None, Mapping[str, str]]:
    if chosen is None:
        return (from_stored(found["mapping"]) if found["mapping"] else None), {}
    try:
        return choose_columns(chosen.layout, chosen.columns, found["columns"]), {}
    except Invalid as error:
        return None, error.fields


def _stored(import_id: UUID) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store().fetch(imports.preview_key(import_id)).read_text())
    return found
