"""Checking an adapter that a person handed in, in a process of its own."""

from __future__ import annotations

from pathlib import Path

from jobs.broker import actor
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain.errors import Conflict, Refused, TensorantError
from tensorant_app.domain.runs import AdapterUploadState
from tensorant_app.services import adapter_uploads, places
from tensorant_app.services.adapter_uploads import UploadTask
from tensorant_app.services.adapters import TakenAdapter
from tensorant_app.services.bases import find_base
from tensorant_app.services.connections import tell_disk_trouble
from tensorant_app.services.work import run_process, work_folder


@actor(adapter_uploads.CHECK, queue="slow")
def check(lease: Lease) -> None:
    """Unpack and check it aside, put it where evaluations find it, then say so; or say why not."""
    with reading() as session:
        task = adapter_uploads.read_task(session, lease.subject_id)
    adapter, reason = None, ""
    if task.state is AdapterUploadState.CHECKING:
        try:
            adapter = _taken(lease, task)
        except Conflict:
            reason = "It was cancelled."
        except Refused as refusal:
            reason = " ".join(refusal.reasons)
        except TensorantError as error:
            reason = error.message
        except OSError as error:
            reason = tell_disk_trouble(error)
    with lease.write() as session:
        if adapter is not None:
            adapter_uploads.note_accepted(session, task.id, adapter)
        elif reason:
            adapter_uploads.note_refused(session, task.id, reason)
        lease.done(session)
    adapter_uploads.forget_file(task.id)


def _taken(lease: Lease, task: UploadTask) -> TakenAdapter:
    base = find_base(task.base_repo_id, task.base_revision)
    with reading() as session:
        volume = places.volume_of_run(session, task.run_id)
    with work_folder(lease.subject_id) as folder:
        unpacked = folder / "adapter"
        run_process(adapter_uploads.check_command(task, Path(base.folder), unpacked), lambda: _beat(lease))
        return adapter_uploads.take_unpacked(task, unpacked, volume)


def _beat(lease: Lease) -> None:
    """Hold the lease, and end the process where the upload was cancelled meanwhile."""
    lease.renew()
    with reading() as session:
        if adapter_uploads.read_task(session, lease.subject_id).state is not AdapterUploadState.CHECKING:
            raise Conflict("The upload was cancelled.")
