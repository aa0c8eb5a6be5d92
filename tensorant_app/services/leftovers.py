"""Files of the console that nobody owns any more: found by age and by the rows that would name them, removed once a day."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from tensorant_app.db.datasets import DatasetVersion, Import
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.promise import ensure, is_leased
from tensorant_app.db.runs import Adapter, AdapterUpload, Run
from tensorant_app.domain.evaluations import LIFECYCLE as EVALUATION
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.runs import LIFECYCLE as RUN
from tensorant_app.domain.runs import AdapterUploadState
from tensorant_app.services import adapter_uploads, imports, uploads
from tensorant_app.settings import get_settings

SWEEP = "store.sweep"
THIS_INSTALLATION = UUID(int=0)
EVERY = timedelta(days=1)
UNFINISHED = timedelta(days=1)
"""No work lasts so long: what a killed process left behind."""
UNNAMED = timedelta(days=7)
"""A row may be about to be written, and somebody may still look for the file."""
_WORK = re.compile(r"\.work-(?:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-)?")
_ASIDE = re.compile(r"\..+\.(?:\d+|[0-9a-f]{32})")
"""A file that was being written beside its place."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file, or a folder with all that is in it."""

    path: Path
    bytes: int
    why: str


def promise_all(session: Session) -> None:
    ensure(session, SWEEP, [THIS_INSTALLATION])


def find_leftovers(session: Session, now: datetime) -> list[Leftover]:
    """What `remove` would take away now. Whatever a live row owns, or is young, is never among it."""
    settings = get_settings()
    found = [
        *_work_folders(session, settings.store_dir, now),
        *_parts(session, settings.uploads_dir, now),
        *_unnamed(session, settings.store_dir, now),
        *_cached(session, settings.data_dir / "cache", now),
        *_asides([settings.store_dir, settings.data_dir / "cache"], now),
    ]
    return [Leftover(path, _size(path), why) for path, why in found]


def give_up_uploads(session: Session, now: datetime) -> None:
    """Uploads of which no byte came for a week are cancelled, so that their files are nobody's."""
    receiving = select(Import).where(
        Import.state == ImportState.RECEIVING, col(Import.size).is_not(None), col(Import.arrived).is_(False)
    )
    for row in session.exec(receiving):
        if _is_older(_last_byte(row.id, row.created_at), UNNAMED, now):
            imports.give_up(session, row)
    adapters = select(AdapterUpload).where(AdapterUpload.state == AdapterUploadState.RECEIVING)
    for upload in session.exec(adapters):
        if _is_older(_last_byte(upload.id, upload.created_at), UNNAMED, now):
            adapter_uploads.give_up(upload)


def remove(leftovers: Sequence[Leftover]) -> int:
    """Bytes that were given back. What cannot be removed stays for the next day."""
    freed = 0
    for leftover in leftovers:
        if leftover.path.is_dir() and not leftover.path.is_symlink():
            shutil.rmtree(leftover.path, ignore_errors=True)
        else:
            leftover.path.unlink(missing_ok=True)
        freed += 0 if leftover.path.exists() else leftover.bytes
    return freed


Found = Iterator[tuple[Path, str]]


def _work_folders(session: Session, folder: Path, now: datetime) -> Found:
    for path in _entries(folder):
        if (match := _WORK.match(path.name)) is None or not _is_older(_newest(path), UNFINISHED, now):
            continue
        if match[1] is None or not is_leased(session, UUID(match[1]), now):
            yield path, "a process was killed before it had finished"


def _parts(session: Session, folder: Path, now: datetime) -> Found:
    for path in _entries(folder):
        upload_id = _id_of(path.stem)
        if path.suffix != ".part" or upload_id is None or not _is_older(_newest(path), UNFINISHED, now):
            continue
        row, adapter = session.get(Import, upload_id), session.get(AdapterUpload, upload_id)
        is_import = row is not None and row.state is ImportState.RECEIVING
        is_adapter = adapter is not None and adapter.state is AdapterUploadState.RECEIVING
        if not is_import and not is_adapter:
            yield path, "nobody goes on with this upload"


def _unnamed(session: Session, store: Path, now: datetime) -> Found:
    """By kind of file, what no row names. A cancelled import's files are of no use to anybody."""
    named: dict[str, set[str]] = {
        "imports": _words(session, select(Import.id).where(Import.state != ImportState.CANCELLED)),
        "versions": {"drafts"} | _words(session, select(DatasetVersion.content_sha256)),
        "versions/drafts": _words(
            session, select(DatasetVersion.id).where(col(DatasetVersion.content_sha256).is_(None))
        ),
        "evaluations": _words(session, select(Evaluation.id)),
        "adapters": {Path(key).stem for key in session.exec(select(Adapter.zip_key)) if key},
        "adapter_uploads": _words(
            session, select(AdapterUpload.id).where(AdapterUpload.state == AdapterUploadState.CHECKING)
        ),
    }
    working = _words(session, select(Run.id).where(col(Run.state).not_in(list(RUN.final))))
    for kind, names in named.items():
        for path in _entries(store / kind):
            is_working = kind == "adapters" and path.stem[:36] in working
            is_named = path.stem in names or path.name in names or is_working or path.name.startswith(".")
            if not is_named and _is_older(_newest(path), UNNAMED, now):
                yield path, "nothing in the database names it"


def _cached(session: Session, cache: Path, now: datetime) -> Found:
    """Copies of a network volume's files; a work that is not over may be reading them."""
    live_runs = _words(session, select(Run.id).where(col(Run.state).not_in(list(RUN.final))))
    live = live_runs | _words(
        session, select(Evaluation.id).where(col(Evaluation.state).not_in(list(EVALUATION.final)))
    )
    for volume in _entries(cache):
        for use in _entries(volume):
            for subject in _entries(use):
                if subject.name not in live and _is_older(_newest(subject), UNNAMED, now):
                    yield subject, "a copy of what lies on the network volume"


def _asides(folders: Sequence[Path], now: datetime) -> Found:
    for folder in folders:
        for path in folder.rglob(".*"):
            in_work = any(_WORK.match(part) for part in path.relative_to(folder).parts)
            if (
                path.is_file()
                and not in_work
                and _ASIDE.fullmatch(path.name)
                and _is_older(_newest(path), UNFINISHED, now)
            ):
                yield path, "it was never written whole"


def _last_byte(upload_id: UUID, created_at: datetime) -> datetime:
    part = uploads.part_of(upload_id)
    return max(created_at, _newest(part)) if part.exists() else created_at


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _newest(path: Path) -> datetime:
    """When it, or anything in it, was written last."""
    inside = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
    return datetime.fromtimestamp(max(one.lstat().st_mtime for one in inside), UTC)


def _is_older(written: datetime, age: timedelta, now: datetime) -> bool:
    return now - written > age


def _size(path: Path) -> int:
    inside = path.rglob("*") if path.is_dir() else [path]
    return sum(one.lstat().st_size for one in inside if not one.is_dir())


def _id_of(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _words(session: Session, query: SelectOfScalar[Any]) -> set[str]:
    return {str(found) for found in session.exec(query) if found is not None}
