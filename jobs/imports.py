"""Reading an imported file in a process of its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

from jobs.broker import actor
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain.errors import Conflict, Refused
from tensorant_app.services import bases, imports
from tensorant_app.services.connections import store, tell_disk_trouble
from tensorant_app.services.image_files import IMAGES, THUMBNAILS
from tensorant_app.services.work import run_work, work_folder


@actor(imports.REACT, queue="slow")
def react(lease: Lease) -> None:
    """Read the file, put its rows and errors into the store, then say what was found."""
    with reading() as session:
        is_wanted = imports.is_checking(session, lease.subject_id)
        base = imports.base_of(session, lease.subject_id)
    result = _read(lease, bases.reads_images(*base)) if is_wanted else None
    with lease.write() as session:
        if result is not None:
            imports.finish_import(session, lease.subject_id, result)
        lease.done(session)


def _read(lease: Lease, reads_images: bool) -> dict[str, object] | None:
    """What the reading process found, its files stored; None where nobody wants it any more."""
    try:
        with work_folder(lease.subject_id) as folder:
            job = {"source": str(store().fetch(imports.source_key(lease.subject_id))), "images": reads_images}
            result = run_work("tensorant_app.services.import_work", job, folder, lambda: _beat(lease))
            if result["accepted"] or result["rejected"]:
                store().put(imports.errors_key(lease.subject_id), folder / "errors.jsonl")
            if result["refused"] is None:
                store().put(imports.warnings_key(lease.subject_id), folder / "warnings.jsonl")
                _take_images(lease.subject_id, folder)
                store().put(imports.rows_key(lease.subject_id), folder / "rows.parquet")
            return result
    except Conflict:
        return None
    except Refused as error:
        return _refused(str(error))
    except OSError as error:
        return _refused(tell_disk_trouble(error))


def _take_images(import_id: UUID, folder: Path) -> None:
    """Before the rows that name them."""
    for name in (IMAGES, THUMBNAILS):
        target = store().fetch(imports.rows_key(import_id)).parent / name
        shutil.rmtree(target, ignore_errors=True)
        if (folder / name).is_dir():
            (folder / name).rename(target)


def _refused(sentence: str) -> dict[str, object]:
    return {"rows": 0, "accepted": 0, "rejected": 0, "refused": sentence}


def _beat(lease: Lease) -> None:
    """Hold the lease, and end the process where the import was cancelled meanwhile."""
    lease.renew()
    with reading() as session:
        if not imports.is_checking(session, lease.subject_id):
            raise Conflict("The import was cancelled.")
