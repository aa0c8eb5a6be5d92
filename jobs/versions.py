"""Checking and freezing dataset versions in processes of their own."""

from __future__ import annotations

import shutil
from typing import Any

from jobs.broker import actor
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain.errors import TensorantError
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import versions
from tensorant_app.services.connections import store, tell_disk_trouble
from tensorant_app.services.versions import CheckInput
from tensorant_app.services.work import FILES, work_folder


@actor(versions.REACT, queue="slow")
def react(lease: Lease) -> None:
    with reading() as session:
        job = versions.check_input(session, lease.subject_id)
    if job.state is VersionState.CHECKING:
        _check(lease, job)
    elif job.state is VersionState.FREEZING:
        _freeze(lease)
    else:
        with lease.write() as session:
            lease.done(session)


def _check(lease: Lease, job: CheckInput) -> None:
    """Work aside, then rename: a draft's files are those of its last whole check, or none."""
    found = _found(lease, job)
    with lease.write() as session:
        if found is not None and versions.is_asked(session, job):
            versions.finish_check(session, job.version_id, found)
        lease.done(session)


def _found(lease: Lease, job: CheckInput) -> dict[str, Any] | None:
    """The report's stored form or the problem, the files in their place; None where it was cancelled meanwhile."""
    try:
        with work_folder(job.version_id) as aside:
            folder = aside / FILES
            folder.mkdir()
            found = versions.check_files(job, folder, lambda: _beat(lease, job))
            if not found["problem"]:
                # Somebody else may have checked it meanwhile, and be freezing what this would replace.
                _beat(lease, job)
                target = store().fetch(versions.draft_key(job.version_id))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.rmtree(target, ignore_errors=True)
                folder.rename(target)
            return found
    except Cancelled:
        return None
    except TensorantError as error:
        return {"problem": str(error)}
    except OSError as error:
        return {"problem": tell_disk_trouble(error)}


class Cancelled(Exception):
    """Nobody waits for this check any more."""


def _beat(lease: Lease, job: CheckInput) -> None:
    lease.renew()
    with reading() as session:
        if not versions.is_asked(session, job):
            raise Cancelled


def _freeze(lease: Lease) -> None:
    """A freeze has no way back: what stops it is shown, and it is tried again."""
    with reading() as session:
        content_sha256, facts = versions.manifest_facts(session, lease.subject_id)
    try:
        versions.freeze_files(lease.subject_id, content_sha256, facts)
    except OSError as error:
        with lease.write() as session:
            versions.note_problem(session, lease.subject_id, tell_disk_trouble(error))
        raise
    with lease.write() as session:
        versions.finish_freeze(session, lease.subject_id, content_sha256)
        lease.done(session)
