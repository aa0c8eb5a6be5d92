"""What a run answered to the project's pinned prompts, checkpoint by checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.runs import Run
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.providers.base import FileStore
from tensorant_app.services import machines
from tensorant_app.services.connections import home_volume
from tensorant_app.services.lookup import own_row
from trainer.contract import SAMPLES, Sample, load_lines

_MOST_BYTES = 512 << 10
"""Read of each attempt's file: the newest answers; the whole is on the volume."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer to a prompt, at the step of its checkpoint."""

    step: int
    answer: str
    stopped: bool
    """False where it reached its token limit."""


@dataclass(frozen=True, slots=True)
class PromptAnswers:
    prompt: str
    answers: Sequence[Answered]
    """Newest first; of a step done again the later one counts."""


@dataclass(frozen=True, slots=True)
class Samples:
    version: str
    """Changes with every new answer."""
    prompts: Sequence[PromptAnswers]


def show_samples(session: Session, caller: Caller, run_id: UUID, seen: str = "") -> Samples | None:
    """None where nothing is new since the version that the page has seen."""
    caller.require(Permission.SEE)
    run = own_row(session, caller, Run, run_id, "run")
    keys = list(_keys(session, run))
    version = ",".join(str(volume.size(key) or 0) for volume, key in keys) or "none"
    if version == seen:
        return None
    found: dict[str, dict[int, Answered]] = {}
    for volume, key in keys:
        for sample in _read(volume, key):
            found.setdefault(sample.prompt, {})[sample.step] = Answered(sample.step, sample.answer, sample.stopped)
    answers = [
        PromptAnswers(prompt, [by_step[step] for step in sorted(by_step, reverse=True)])
        for prompt, by_step in found.items()
    ]
    return Samples(version, answers)


def _keys(session: Session, run: Run) -> Iterator[tuple[FileStore, str]]:
    """The file of each attempt; a rented machine's job brings it home."""
    for attempt in range(1, run.attempt + 1):
        machine = machines.machine_of(session, Use.RUN, run.id, attempt)
        if machine is not None:
            yield home_volume(), f"{machine.outputs_key}/{SAMPLES}"


def _read(volume: FileStore, key: str) -> Iterator[Sample]:
    size = volume.size(key)
    if not size:
        return
    start = max(size - _MOST_BYTES, 0)
    with volume.open(key, start) as file:
        whole = file.read().split(b"\n")[1 if start else 0 : -1]
    # Not `splitlines` of the text: an answer may hold what Python takes for the end of a line, such as U+2028.
    yield from load_lines(Sample, [f"{line.decode(errors='replace')}\n" for line in whole])
