"""The worker process: `python -m jobs.worker`. One tick, threads for fast jobs, threads for slow ones."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from time import sleep

import dramatiq
from dramatiq.worker import Worker

from jobs.broker import send, set_up_broker
from jobs.tick import Tick
from tensorant_app.db import migrate
from tensorant_app.db.session import set_hint_sender
from tensorant_app.log import set_up_logging
from tensorant_app.settings import get_settings

THREADS = {"fast": 6, "slow": 2}
"""Apart, so that long jobs never keep the machines waiting."""
DRAIN = timedelta(seconds=20)
"""How long a job may go on after SIGTERM; the supervisor kills a little later."""

IDLE_MS = 1000
"""How long a thread without work sleeps before it looks whether it should stop."""

_log = logging.getLogger(__name__)


def start_workers(broker: dramatiq.Broker) -> list[Worker]:
    # The time limits' own thread starts with this signal, which only Dramatiq's CLI would send.
    broker.emit_after("process_boot")
    workers = [
        Worker(broker, queues={queue}, worker_threads=threads, worker_timeout=IDLE_MS)
        for queue, threads in THREADS.items()
    ]
    broker.logger.addFilter(_is_news)
    for worker in workers:
        worker.start()
    broker.logger.removeFilter(_is_news)
    return workers


def _is_news(record: logging.LogRecord) -> bool:
    """Every worker brings one middleware of its own, and of two workers the broker warns; two are meant."""
    return "middleware of the same type twice" not in record.msg


def stop_workers(broker: dramatiq.Broker, workers: list[Worker]) -> None:
    """Let running jobs end; what is still running after `DRAIN` dies with the process."""
    timeout = DRAIN // timedelta(milliseconds=1)
    stopping = [threading.Thread(target=worker.stop, args=(timeout,)) for worker in workers]
    for thread in stopping:
        thread.start()
    for thread in stopping:
        thread.join(DRAIN.total_seconds() + 1)
    broker.close()


def run(is_stopping: Callable[[], bool]) -> None:
    """Work until told to stop, then drain."""
    migrate.require_current()
    url = get_settings().broker_url
    broker = set_up_broker(url)
    set_hint_sender(send)
    workers, tick = start_workers(broker), Tick(send)
    tick.start()
    _log.info("Working; hints go through %s.", "Redis" if url else "this process alone")
    while not is_stopping():
        sleep(0.1)
    _log.info("Stopping: jobs that are running get %s s to end.", DRAIN.seconds)
    tick.stop()
    set_hint_sender(None)
    stop_workers(broker, workers)


def main() -> None:
    set_up_logging("worker")
    # A plain list: an Event set by a signal's handler can wait for the thread it interrupted.
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: signals.append(number))
    run(lambda: bool(signals))
    logging.shutdown()
    # A job that outlived the drain must not keep the process: its lease runs out by itself.
    os._exit(0)


if __name__ == "__main__":
    main()
