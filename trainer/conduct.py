"""Runs one job from its lock to its one result: takes the attempt, watches the work, and writes down how it ended."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from trainer.attempt import MOST_BOOTS, Attempt, Ending, take
from trainer.contract import MANIFEST, AttemptKeys, EvaluateJob, MaskJob, Outcome, TrainJob, load
from trainer.errors import TrainerError, exit_code_of, failure_of
from trainer.ranks import answer_for_all, rank_and_size
from trainer.watchdog import Halt, Watchdog

Job = TypeVar("Job", TrainJob, EvaluateJob)
Readable = TypeVar("Readable", TrainJob, EvaluateJob, MaskJob)
Work = Callable[[Job, Attempt, Watchdog], Ending]


def conduct(cls: type[Job], use: str, volume: Path, key: str, find_work: Callable[[], Work[Job]]) -> int:
    """The exit code: 0 also where another process does, or did, this attempt."""
    job = read_job(cls, volume / key)
    if job is None:
        return 2
    keys = AttemptKeys.of(use, job.subject_id, job.attempt)
    rank, size = rank_and_size()
    attempt = take(volume.resolve(), keys, machine=job.machine, number=job.attempt, rank=rank)
    if attempt is None:
        return 0
    watch = Watchdog(attempt, others=size if rank == 0 else 1)
    watch.start()
    job = replace(job, base=job.base.found_on(attempt.volume))
    ending = _worked(job, attempt, watch, find_work)
    if rank == 0 and size > 1:
        ending = answer_for_all(attempt, ending, size)
    attempt.finish(ending)
    watch.end()
    return exit_code_of(ending.failure.code) if ending.failure else 0


def read_job(cls: type[Readable], path: Path) -> Readable | None:
    try:
        return load(cls, path.read_text())
    except (OSError, ValueError, TypeError) as error:
        print(TrainerError("job_unreadable", what=f"{path}: {error}").failure.message, file=sys.stderr)
        return None


def set_environment(threads: int | None) -> int:
    """Before torch is loaded; answers the number of threads. Spinning ones would burn a neighbour's time (measured)."""
    count = threads or int(os.environ.get("OMP_NUM_THREADS") or 0) or len(os.sched_getaffinity(0))
    os.environ.update(OMP_NUM_THREADS=str(count), GOMP_SPINCOUNT="0", OMP_WAIT_POLICY="passive")
    os.environ.update(
        TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1"
    )
    return count


def load_libraries(threads: int | None) -> None:
    """Torch and transformers, quiet and with their threads set."""
    count = set_environment(threads)
    import torch
    from transformers.utils import logging

    torch.set_num_threads(count)
    logging.disable_progress_bar()


def _worked(job: Job, attempt: Attempt, watch: Watchdog, find_work: Callable[[], Work[Job]]) -> Ending:
    """The work's ending, whatever it raises."""
    try:
        attempt.journal.open()
        attempt.journal.event("started" if attempt.boot == 1 else "restarted")
        if attempt.boot > MOST_BOOTS and not (attempt.volume / attempt.keys.adapter / MANIFEST).exists():
            raise TrainerError("restarted_too_often", boots=attempt.boot)
        load_libraries(job.threads)
        return find_work()(job, attempt, watch)
    except Halt as halt:
        return Ending(halt.outcome, step=watch.status.step, total_steps=watch.status.total_steps)
    except BaseException as error:
        traceback.print_exc()
        ending = Ending(Outcome.FAILED, failure_of(error), step=watch.status.step, total_steps=watch.status.total_steps)
        _note_failure(attempt, ending)
        return ending


def _note_failure(attempt: Attempt, ending: Ending) -> None:
    if ending.failure is None:
        return
    try:
        attempt.journal.event("failed", code=ending.failure.code, message=ending.failure.message)
    except OSError as error:  # a full disk is often why it failed
        print(f"The event could not be written: {error}", file=sys.stderr)
