"""Once a day the room of files that nobody owns any more is given back."""

from __future__ import annotations

import logging

from jobs.broker import actor
from tensorant_app.db import clock
from tensorant_app.db.promise import Lease
from tensorant_app.db.session import reading
from tensorant_app.domain.readiness import gib
from tensorant_app.services import leftovers

_log = logging.getLogger(__name__)


@actor(leftovers.SWEEP, queue="slow")
def sweep(lease: Lease) -> None:
    """Uploads that nobody goes on with are given up first, and committed: then their files are nobody's."""
    now = clock.now()
    with lease.write() as session:
        leftovers.give_up_uploads(session, now)
    with reading(now) as session:
        found = leftovers.find_leftovers(session, now)
    freed = leftovers.remove(found)
    with lease.write() as session:
        lease.again(session, now + leftovers.EVERY)
    if freed:
        _log.info("%d files and folders that nobody owned were removed; %s given back.", len(found), gib(freed))
