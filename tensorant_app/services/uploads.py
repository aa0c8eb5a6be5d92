"""Files that arrive in pieces: announced, received at the right place, and handed to their import when whole.

How much has arrived is the length of the file itself, so nothing is written to the database for a piece, and a killed
process or a dropped connection loses at most the piece under way.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.datasets import Import
from tensorant_app.domain.errors import Conflict, Invalid, NotFound, Refused
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.runs import AdapterUploadState
from tensorant_app.services import imports
from tensorant_app.services.connections import store
from tensorant_app.services.lookup import own_row
from tensorant_app.settings import get_settings

LARGEST_PIECE = 8 * 1024 * 1024
_KEEP_FREE = 512 * 1024 * 1024
"""Bytes that an upload leaves to the rest of the installation."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_OPEN = frozenset({ImportState.RECEIVING, AdapterUploadState.RECEIVING})
_GOES_ON = _OPEN | {
    ImportState.CHECKING,
    ImportState.READY,
    AdapterUploadState.CHECKING,
    AdapterUploadState.ACCEPTED,
}
"""The last piece may be sent again: its answer may have been lost."""


class WrongOffset(Conflict):
    """The piece does not begin where the file ends; `offset` is where the next one must."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"{offset} bytes of this file have arrived; go on from there.")
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload as its sender sees it; the id is the import's."""

    id: UUID
    offset: int
    size: int
    state: ImportState | AdapterUploadState


def start_upload(session: Session, caller: Caller, dataset_id: UUID, file_name: str, size: int) -> Upload:
    """Announce a file. Refused here, before a byte is sent, where it is too large."""
    caller.require(Permission.PREPARE)
    settings = get_settings()
    if not file_name.strip() or not 0 < size <= settings.max_upload_bytes:
        largest = f"{settings.max_upload_bytes / 1024**3:.3g} GiB"
        raise Invalid({"file": f"A file has a name and between 1 byte and {largest}. Split a larger one into several."})
    if shutil.disk_usage(settings.uploads_dir).free < 2 * size + _KEEP_FREE:
        raise Refused("There is no room for this file.", ["The console's disk is nearly full. Ask the operator."])
    import_id = imports.start_import(session, caller, dataset_id, _plain_name(file_name))
    row = session.get_one(Import, import_id)
    row.size = size
    session.add(row)
    return Upload(import_id, 0, size, row.state)


def show_upload(session: Session, caller: Caller, upload_id: UUID) -> Upload:
    """Where to go on; the caller must be allowed to."""
    caller.require(Permission.PREPARE)
    row = own_row(session, caller, Import, upload_id, "upload")
    if row.size is None:
        raise NotFound(f"There is no upload {upload_id} here.")
    offset = _length(upload_id) if row.state is ImportState.RECEIVING else row.size
    return Upload(row.id, offset, row.size, row.state)


def check_piece(upload: Upload, offset: int, length: int) -> None:
    """Whether a piece may be read at all: decided by its place and length alone, before a byte of it."""
    if upload.state not in _GOES_ON:
        raise Conflict(f"This upload is {upload.state.value}. Start it again.")
    if not 0 < length <= LARGEST_PIECE:
        raise Invalid({"piece": f"A piece has between 1 and {LARGEST_PIECE} bytes."})
    if offset < 0 or offset + length > upload.size:
        raise Invalid({"piece": f"This piece goes beyond the {upload.size} bytes that were announced."})
    if offset > upload.offset or offset < upload.offset < offset + length:
        raise WrongOffset(upload.offset)


def receive_piece(upload: Upload, offset: int, piece: bytes) -> int:
    """Put the piece at its place; the same piece again changes nothing. Answers how much has arrived."""
    if upload.state not in _OPEN or upload.offset == upload.size:
        return upload.size
    with _file(upload.id) as file:
        end = file.seek(0, os.SEEK_END)
        if offset + len(piece) <= end:
            file.seek(offset)
            if file.read(len(piece)) != piece:
                raise Conflict("Another piece has arrived at this place. Cancel the upload and start it again.")
            return end
        if offset != end:
            raise WrongOffset(end)
        try:
            _write_all(file, piece)
        except OSError as error:
            file.truncate(end)
            if error.errno not in _FULL:
                raise
            raise Refused("The upload stopped.", ["The console's disk is full. What has arrived is kept."]) from error
    return offset + len(piece)


def finish_upload(session: Session, caller: Caller, upload_id: UUID) -> None:
    """Every byte is here: the file belongs to its import, and its first rows are looked at. Twice is once."""
    caller.require(Permission.PREPARE)
    row = own_row(session, caller, Import, upload_id, "upload")
    if row.state is not ImportState.RECEIVING:
        return
    key, path = imports.source_key(upload_id), part_of(upload_id)
    if path.exists():
        if path.stat().st_size != row.size:
            raise WrongOffset(path.stat().st_size)
        store().take(key, path)
    imports.await_person(session, caller, upload_id)


def cancel_upload(session: Session, caller: Caller, upload_id: UUID) -> None:
    caller.require(Permission.PREPARE)
    own_row(session, caller, Import, upload_id, "upload")
    imports.cancel_import(session, caller, upload_id)


def throw_away(upload_id: UUID) -> None:
    """Remove what has arrived of a cancelled file, and what was read of it. Harmless to repeat."""
    part_of(upload_id).unlink(missing_ok=True)
    shutil.rmtree(store().fetch(imports.folder_key(upload_id)), ignore_errors=True)


def part_of(upload_id: UUID) -> Path:
    """Where its pieces are put together."""
    return get_settings().uploads_dir / f"{upload_id}.part"


def arrived(upload_id: UUID) -> int:
    """Bytes of it that are here."""
    path = part_of(upload_id)
    return path.stat().st_size if path.exists() else 0


def _length(upload_id: UUID) -> int:
    path = part_of(upload_id)
    if path.exists():
        return path.stat().st_size
    return store().size(imports.source_key(upload_id)) or 0


@contextmanager
def _file(upload_id: UUID) -> Iterator[FileIO]:
    """The file under a lock, so that two senders of one upload take turns; without a buffer that outlives an error."""
    with FileIO(os.open(part_of(upload_id), os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _write_all(file: FileIO, piece: bytes) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[file.write(rest) :]


def _plain_name(file_name: str) -> str:
    """Only shown, never a path: what follows the last separator."""
    name = file_name.replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in name if letter.isprintable())[:200] or "file"
