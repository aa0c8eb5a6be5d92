"""Removing the files of versions and imports that were deleted."""

from __future__ import annotations

from jobs.broker import actor
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.services import deletions


@actor(deletions.REACT, queue="slow")
def react(lease: Lease) -> None:
    with reading() as session:
        remains = deletions.read_remains(session, lease.subject_id)
    if remains is not None:
        deletions.remove_files(remains)
    with lease.write() as session:
        if remains is not None:
            deletions.finish(session, lease.subject_id)
        lease.done(session)
