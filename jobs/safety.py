"""Looking through a frozen version once more, by the safety settings of now."""

from __future__ import annotations

from pathlib import Path

from jobs.broker import actor
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import now_of, reading
from tensorant_app.domain.errors import TensorantError
from tensorant_app.services import safety, versions
from tensorant_app.services.connections import store, tell_disk_trouble
from tensorant_app.services.safety import SafetyInput
from tensorant_app.services.work import work_folder
from trainer.contract import Split


@actor(safety.REACT, queue="slow")
def react(lease: Lease) -> None:
    """Where the settings change meanwhile, the promise stays and the next look begins anew."""
    with reading() as session:
        job = safety.read_input(session, lease.subject_id) if safety.is_asked(session, lease.subject_id) else None
        key = versions.frozen_key(versions.report_of(session, lease.subject_id).content_sha256) if job else ""
    if job is None:
        with lease.write() as session:
            lease.done(session)
        return
    found = _look(lease, job, store().fetch(key))
    with lease.write() as session:
        if isinstance(found, str):
            safety.note_failure(session, job.version_id, found)
            lease.done(session)
        elif not safety.finish(session, job.version_id, found, job):
            lease.again(session, now_of(session))
        else:
            lease.done(session)


def _look(lease: Lease, job: SafetyInput, frozen: Path) -> dict[str, object] | str:
    """What was found, or the sentence of what stopped it."""
    files = {split.value: frozen / f"{split.value}.parquet" for split in Split}
    try:
        with work_folder(job.version_id) as folder:
            return safety.check_files(job, files, folder, lease.renew)
    except TensorantError as error:
        return str(error)
    except OSError as error:
        return tell_disk_trouble(error)
