"""Looking at an upload's first rows, and reading an imported file, each in a process of its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

from jobs.broker import actor
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain.errors import Conflict, Refused
from tensorant_app.domain.imports import ImportState
from tensorant_app.services import imports, uploads
from tensorant_app.services.bases import control_tokens, reads_images
from tensorant_app.services.connections import store, tell_disk_trouble
from tensorant_app.services.image_files import IMAGE_NAMES, IMAGES, THUMBNAILS
from tensorant_app.services.imports import ImportWork
from tensorant_app.services.work import run_work, work_folder
from trainer.contract import RESULT


@actor(imports.REACT, queue="slow")
def react(lease: Lease) -> None:
    """Do what the import's state calls for, then say what was found; of a cancelled one nothing is left."""
    with reading() as session:
        work = imports.work_on(session, lease.subject_id)
    result = _perform(lease, work) if work else None
    with reading() as session:
        is_thrown_away = imports.is_thrown_away(session, lease.subject_id)
    if is_thrown_away:
        uploads.throw_away(lease.subject_id)
    with lease.write() as session:
        if is_thrown_away:
            imports.note_thrown_away(session, lease.subject_id)
        if work is not None and result is not None:
            if work.state is ImportState.RECEIVING:
                imports.finish_preview(session, lease.subject_id, result["refused"])
            else:
                imports.finish_import(session, lease.subject_id, result)
        lease.done(session)


def _perform(lease: Lease, work: ImportWork) -> dict[str, Any] | None:
    """What the process found, its files stored; None where nobody wants it any more."""
    try:
        return _look(lease, work) if work.state is ImportState.RECEIVING else _read(lease, work)
    except Conflict:
        return None
    except Refused as error:
        return _refused(str(error))
    except OSError as error:
        return _refused(tell_disk_trouble(error))


def _look(lease: Lease, work: ImportWork) -> dict[str, Any]:
    with work_folder(lease.subject_id) as folder:
        source = str(store().fetch(imports.source_key(lease.subject_id)))
        job = {"source": source, "images": reads_images(*work.base)}
        result = run_work("tensorant_app.services.preview_work", job, folder, lambda: _beat(lease))
        store().put(imports.preview_key(lease.subject_id), folder / RESULT)
        return result


def _read(lease: Lease, work: ImportWork) -> dict[str, Any]:
    import_id = lease.subject_id
    with work_folder(import_id) as folder:
        job = {
            "source": str(store().fetch(imports.source_key(import_id))),
            "mapping": work.mapping,
            "tokens": list(control_tokens(*work.base)),
            "images": reads_images(*work.base),
        }
        result = run_work("tensorant_app.services.import_work", job, folder, lambda: _beat(lease))
        if result["accepted"] or result["rejected"]:
            store().put(imports.errors_key(import_id), folder / "errors.jsonl")
        if (folder / "bad_rows.jsonl").exists():
            store().put(imports.bad_rows_key(import_id), folder / "bad_rows.jsonl")
        if result["refused"] is None:
            store().put(imports.warnings_key(import_id), folder / "warnings.jsonl")
            _take_images(import_id, folder)
            store().put(imports.rows_key(import_id), folder / "rows.parquet")
        return result


def _take_images(import_id: UUID, folder: Path) -> None:
    """Before the rows that name them."""
    for name in (IMAGES, THUMBNAILS, IMAGE_NAMES):
        target = store().fetch(imports.rows_key(import_id)).parent / name
        shutil.rmtree(target, ignore_errors=True)
        if (folder / name).exists():
            (folder / name).rename(target)


def _refused(sentence: str) -> dict[str, Any]:
    return {"rows": 0, "accepted": 0, "rejected": 0, "refused": sentence}


def _beat(lease: Lease) -> None:
    """Hold the lease, and end the process where the import was cancelled meanwhile."""
    lease.renew()
    with reading() as session:
        if imports.work_on(session, lease.subject_id) is None:
            raise Conflict("The import was cancelled.")
