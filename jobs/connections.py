"""Whether the credentials of each outside account still work: looked at when they change, and every hour."""

from __future__ import annotations

from datetime import timedelta

from jobs.broker import actor
from tensorant_app.db import clock
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain.connections import ConnectionState
from tensorant_app.domain.errors import AuthFailed
from tensorant_app.services import connecting
from tensorant_app.services.connecting import CheckResult
from tensorant_app.services.connection_checks import look

_HOUR = timedelta(hours=1)


@actor(connecting.CHECK, queue="fast")
def check(lease: Lease) -> None:
    """One look at one connection. An outage of the provider says nothing about the key: it is tried again with backoff."""
    try:
        with reading() as session:
            task = connecting.read_check(session, lease.subject_id)
    except AuthFailed as closed:
        _note(lease, None, CheckResult(ConnectionState.FAILED, closed.message))
        return
    if task is None:
        with lease.write() as session:
            lease.done(session)
        return
    _note(lease, task.revision, look(task))


def _note(lease: Lease, revision: int | None, result: CheckResult) -> None:
    with lease.write() as session:
        if connecting.note_check(session, lease.subject_id, revision, result):
            lease.again(session, clock.now() + _HOUR)
        else:
            lease.again(session, clock.now())
