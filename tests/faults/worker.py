"""A worker process that is forked with everything imported that it would import as it begins."""

from __future__ import annotations

import os
from collections.abc import Mapping

from jobs import broker, worker

broker.load_actors()


def work(environment: Mapping[str, str]) -> None:
    """What `python -m jobs.worker` does, silently, in the installation that the environment names."""
    os.environ.clear()
    os.environ.update(environment)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    worker.main()
