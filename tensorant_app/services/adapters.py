"""The adapter of a run: proved against its manifest, packed as a download, and added once."""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db import clock
from tensorant_app.db.runs import Adapter, Run
from tensorant_app.db.session import now_of
from tensorant_app.domain.machines import Use
from tensorant_app.domain.runs import RunReason, RunState
from tensorant_app.domain.steps import Cause, Move
from tensorant_app.providers.base import FileStore
from tensorant_app.services import runs
from tensorant_app.services.connections import store
from trainer.contract import MANIFEST, AttemptKeys, BadManifest, Manifest, hash_file, verify_folder

_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TakenAdapter:
    """An adapter that matches its manifest, and its download in the store."""

    attempt: int
    key: str
    """Its folder on the volume."""
    manifest: Manifest
    zip_key: str
    zip_sha256: str


def take_from(volume: FileStore, run_id: UUID, attempt: int, key: str) -> TakenAdapter | None:
    """The folder, hashed against its manifest and zipped into the store; None where it does not match, or is not there.

    Raises what the volume raises where it could not be read.
    """
    try:
        folder = volume.fetch(key)
        manifest = verify_folder(folder)
    except (BadManifest, FileNotFoundError) as error:
        _log.warning("The adapter %s is not taken: %s", key, error)
        return None
    zip_key = f"adapters/{run_id}-{attempt}.zip"
    path = store().fetch(zip_key)
    _zip_folder(folder, [*manifest.files, MANIFEST], path)
    return TakenAdapter(attempt, key, manifest, zip_key, hash_file(path).sha256)


def find_on(volume: FileStore, run_id: UUID, attempts: int) -> TakenAdapter | None:
    """The newest finished adapter of any attempt that matches its manifest: a person asked for whatever there is."""
    for attempt in range(attempts, 0, -1):
        key = AttemptKeys.of(Use.RUN.plural, str(run_id), attempt).adapter
        if volume.size(f"{key}/{MANIFEST}") is None:
            continue
        if found := take_from(volume, run_id, attempt, key):
            return found
    return None


def add_adapter(session: Session, run: Run, adapter: TakenAdapter) -> None:
    """A run has one adapter, the first that was proved whole; it is never replaced."""
    at = now_of(session)
    row = Adapter(
        id=clock.new_id(at),
        created_at=at,
        organization_id=run.organization_id,
        run_id=run.id,
        attempt=adapter.attempt,
        key=adapter.key,
        manifest=asdict(adapter.manifest),
        zip_key=adapter.zip_key,
        zip_sha256=adapter.zip_sha256,
    )
    session.add(row)


def note_verified(session: Session, run_id: UUID, adapter: TakenAdapter | None) -> None:
    """What **Verify adapter** found: the adapter is ready, or a person decides between going on and ending it."""
    run = session.get_one(Run, run_id)
    run.verify_wanted_at = None
    if run.state is not RunState.NEEDS_RECOVERY:
        return
    if adapter is None:
        run.reason = RunReason.NOT_FOUND
        run.sentence = "No finished adapter lies on the volume. Resume with a longer limit, or cancel the run."
        return
    recover(session, run, adapter, f"The adapter of attempt {adapter.attempt} was found and matches its manifest.")


def note_unverified(session: Session, run_id: UUID, trouble: str) -> None:
    """The volume could not be read for a good while: whether an adapter lies there stays open, and may be asked again."""
    run = session.get_one(Run, run_id)
    run.verify_wanted_at = None
    run.sentence = f"{trouble} Verify the adapter again when that is mended."


def recover(session: Session, run: Run, adapter: TakenAdapter, sentence: str) -> None:
    """A run that needed recovery has its adapter; its machine goes."""
    add_adapter(session, run, adapter)
    runs.advance(session, run, Move("ready", RunReason.RECOVERED, sentence), Cause.WORKER)


def _zip_folder(folder: Path, names: Sequence[str], target: Path) -> None:
    """The same bytes for the same files: no times, a fixed order."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}")
    try:
        _write_zip(folder, names, aside)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    aside.replace(target)


def _write_zip(folder: Path, names: Sequence[str], aside: Path) -> None:
    with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in sorted(names):
            with (folder / name).open("rb") as source, archive.open(zipfile.ZipInfo(name, _ZIP_TIME), "w") as file:
                while piece := source.read(1 << 20):
                    file.write(piece)
