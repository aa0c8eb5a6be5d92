"""The worker's pulse: four times a second it sends what is due, each minute it re-derives promises."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from uuid import UUID

from redis.exceptions import RedisError

from tensorant_app.db.promise import claim_due, put_back
from tensorant_app.log import log_failure

Send = Callable[[str, UUID], None]
Rederive = Callable[[], None]

PULSE = timedelta(seconds=0.25)
PAUSE_AFTER_ERROR = timedelta(seconds=1)
REDERIVE_EVERY = timedelta(minutes=1)
BATCH = 200

REDERIVERS: list[Rederive] = []
"""Each makes the promises that its rows call for, whether they are there already or not."""

_log = logging.getLogger(__name__)


def rederive(function: Rederive) -> Rederive:
    """Call the function when the worker starts and each minute: no lost promise is lost for long."""
    if function not in REDERIVERS:
        REDERIVERS.append(function)
    return function


def send_due(send: Send) -> int:
    """One pulse: claim, commit, send; answers how many were sent."""
    claims = claim_due(BATCH)
    for sent, claim in enumerate(claims):
        try:
            send(claim.kind, claim.subject_id)
        except Exception:
            put_back(claims[sent:])
            raise
    return len(claims)


def rederive_all() -> None:
    for function in REDERIVERS:
        try:
            function()
        except Exception:
            log_failure(_log, f"Re-deriving promises by {function.__module__} failed")


class Tick(threading.Thread):
    """Runs until `stop`; an error of one pulse is logged and the next comes all the same."""

    def __init__(self, send: Send) -> None:
        super().__init__(name="tick", daemon=True)
        self._send = send
        self._stopping = threading.Event()

    def run(self) -> None:
        rederived_at: float | None = None
        while not self._stopping.is_set():
            if rederived_at is None or monotonic() - rederived_at >= REDERIVE_EVERY.total_seconds():
                rederive_all()
                rederived_at = monotonic()
            self._stopping.wait(self._pulse().total_seconds())

    def stop(self, timeout: timedelta = timedelta(seconds=5)) -> None:
        self._stopping.set()
        self.join(timeout.total_seconds())

    def _pulse(self) -> timedelta:
        """Send once; answers how long to wait before the next time."""
        try:
            return PULSE if send_due(self._send) < BATCH else timedelta(0)
        except (ConnectionError, RedisError) as error:
            _log.warning("The queue did not take what is due: %s", error)
        except Exception:
            log_failure(_log, "Sending what is due failed")
        return PAUSE_AFTER_ERROR
