"""A worker process whose jobs write down that they ran: `python -m tests.jobs.acting`."""

from __future__ import annotations

import os
from time import sleep

from jobs import worker
from jobs.broker import actor
from tensorant_app.db.promise import Lease
from tensorant_app.settings import get_settings


def note(line: str) -> None:
    with (get_settings().data_dir / "notes").open("a") as notes:
        notes.write(f"{line}\n")


@actor("test.note")
def write_note(lease: Lease) -> None:
    note(f"noted {lease.subject_id} {os.getpid()}")
    with lease.write() as session:
        lease.done(session)


@actor("test.sleep")
def sleep_for_a_while(lease: Lease) -> None:
    note("began")
    sleep(1.5)
    note("ended")
    with lease.write() as session:
        lease.done(session)


if __name__ == "__main__":
    worker.main()
