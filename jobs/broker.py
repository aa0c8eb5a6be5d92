"""How a promise becomes a call: kinds and their actors, and the queue that carries hints."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from uuid import UUID

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import TimeLimit
from dramatiq.middleware.time_limit import TimeLimitExceeded

import jobs
from tensorant_app.db import clock
from tensorant_app.db.promise import Lease, LeaseLost, take_lease
from tensorant_app.log import log_failure

Queue = Literal["fast", "slow"]
Work = Callable[[Lease], None]

TIME_LIMITS: dict[Queue, timedelta] = {"fast": timedelta(seconds=60), "slow": timedelta(hours=2)}

_HEARTBEAT_TIMEOUT_MS = 20_000
_MAINTENANCE_CHANCE = 100_000
"""In a million commands. Dramatiq's own 1,000 left a dead worker's messages lying for minutes."""
_PATIENCE_SECONDS = 5
"""A hint that takes longer is not worth waiting for."""

_log = logging.getLogger(__name__)
_broker: dramatiq.Broker | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What looks at the promises of one kind."""

    kind: str
    queue: Queue
    work: Work


JOBS: dict[str, Job] = {}
"""By kind; filled as the modules of `jobs` are imported."""


def actor(kind: str, *, queue: Queue = "fast") -> Callable[[Work], Work]:
    """The function looks at every promise of this kind, under its lease.

    It comes back unchanged, so that tests call it with a lease.
    """

    def register(work: Work) -> Work:
        known = JOBS.get(kind)
        if known is not None and known.work.__qualname__ != work.__qualname__:
            raise ValueError(f"Two actors want to look at {kind} promises.")
        JOBS[kind] = Job(kind, queue, work)
        return work

    return register


def perform(kind: str, subject_id: str) -> None:
    """Take the lease, look, and keep the promise whatever goes wrong; never raises."""
    job = JOBS[kind]
    lease = take_lease(kind, UUID(subject_id), clock.now())
    if lease is None:
        return
    try:
        with lease.kept() if job.queue == "slow" else nullcontext():
            job.work(lease)
        if lease.is_open:
            raise RuntimeError("The job ended without saying when to look again.")
    except LeaseLost as lost:
        _log.warning("%s What this job found is thrown away.", lost)
    except (Exception, TimeLimitExceeded) as error:
        log_failure(_log, f"The job {kind} {subject_id} failed")
        if lease.is_open:
            lease.release_after_error(error)


def set_up_broker(url: str | None) -> dramatiq.Broker:
    """Redis at `url`, or None for a queue inside this process; knows every actor in `jobs`.

    Messages are hints, so nothing is retried and nothing is kept as a dead letter: the promise is.
    """
    global _broker
    load_actors()
    broker = _make_broker(url)
    for job in JOBS.values():
        _declare(broker, job)
    dramatiq.set_broker(broker)
    _broker = broker
    return broker


def load_actors() -> None:
    """Import every module of `jobs`, so that each kind is known."""
    for module in pkgutil.iter_modules(jobs.__path__, "jobs."):
        importlib.import_module(module.name)


def send(kind: str, subject_id: UUID) -> None:
    """Tell a worker to look. May raise what the connection raises; a lost message is no loss."""
    if _broker is None:
        return
    if kind not in JOBS:
        _log.warning("No actor looks at %s promises: is this worker older than the database?", kind)
        return
    _broker.enqueue(_broker.get_actor(kind).message(str(subject_id)))


def ping() -> str | None:
    """Why no hint gets through; None where they do."""
    if not isinstance(_broker, RedisBroker):
        return None
    try:
        _broker.client.ping()
    except Exception as error:
        return f"does not answer ({error.__class__.__name__}): hints are late, nothing is lost"
    return None


def _declare(broker: dramatiq.Broker, job: Job) -> None:
    def call(subject_id: str) -> None:
        perform(job.kind, subject_id)

    limit = TIME_LIMITS[job.queue] // timedelta(milliseconds=1)
    dramatiq.Actor(
        call,
        broker=broker,
        actor_name=job.kind,
        queue_name=job.queue,
        priority=0,
        options={"time_limit": limit},
    )


def _make_broker(url: str | None) -> dramatiq.Broker:
    middleware: list[dramatiq.Middleware] = [TimeLimit()]
    if url is None:
        return StubBroker(middleware)
    client = redis.Redis.from_url(url, socket_connect_timeout=_PATIENCE_SECONDS, socket_timeout=_PATIENCE_SECONDS)
    return RedisBroker(  # type: ignore[no-untyped-call]
        client=client,
        middleware=middleware,
        heartbeat_timeout=_HEARTBEAT_TIMEOUT_MS,
        maintenance_chance=_MAINTENANCE_CHANCE,
    )
