"""Reading an imported file in a process of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

from jobs.broker import actor
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain.errors import Conflict, Refused
from tensorant_app.services import imports
from tensorant_app.services.connections import store
from tensorant_app.services.work import run_work
from tensorant_app.settings import get_settings


@actor(imports.REACT, queue="slow")
def react(lease: Lease) -> None:
    """Read the file, put its rows and errors into the store, then say what was found."""
    import_id = lease.subject_id
    with reading() as session:
        is_wanted = imports.is_checking(session, import_id)
    if is_wanted:
        with tempfile.TemporaryDirectory(dir=get_settings().store_dir, prefix=".work-") as name:
            folder = Path(name)
            result = _read(lease, folder)
            if result["refused"] is None:
                store().put(imports.rows_key(import_id), folder / "rows.parquet")
                store().put(imports.errors_key(import_id), folder / "errors.jsonl")
            with lease.write() as session:
                imports.finish_import(session, import_id, result)
                lease.done(session)
        return
    with lease.write() as session:
        lease.done(session)


def _read(lease: Lease, folder: Path) -> dict[str, object]:
    """The reading process's result; a process that stopped half-way refuses the file with its reason."""
    job = {"source": str(store().fetch(imports.source_key(lease.subject_id)))}
    try:
        return run_work("tensorant_app.services.import_work", job, folder, lambda: _beat(lease))
    except Refused as error:
        return {"rows": 0, "accepted": 0, "rejected": 0, "refused": str(error)}


def _beat(lease: Lease) -> None:
    """Hold the lease, and end the process where the import was cancelled meanwhile."""
    lease.renew()
    with reading() as session:
        if not imports.is_checking(session, lease.subject_id):
            raise Conflict("The import was cancelled.")
