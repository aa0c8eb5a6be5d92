"""What a run's machine wrote: its log, its own events and its steps, as lines; and the events of run and machine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine, MachineEvent
from tensorant_app.db.runs import Run, RunEvent
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.steps import Cause
from tensorant_app.log import redact
from tensorant_app.providers.base import FileStore
from tensorant_app.services.connections import home_volume
from tensorant_app.services.lookup import own_row
from trainer.contract import EVENTS, LOG, METRICS, AttemptKeys

FIRST_LINES = 200
_TAIL_BYTES = 64 << 10
"""Read of each file when a page opens; the whole is on the volume."""
_MOST_BYTES = 256 << 10
"""Read of each file at one look; the next goes on."""
_LONGEST = 2_000
"""Characters of a line."""
_BAD = re.compile(r"(error|traceback|exception|killed|out of memory)\b", re.IGNORECASE)
_ODD = re.compile(r"warn(ing)?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the log; `at` is empty where the line does not say when."""

    at: str
    level: str
    """info, warning or error."""
    words: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a page has read an attempt's files."""

    attempt: int = 0
    log: int | None = None
    events: int | None = None
    metrics: int | None = None


@dataclass(frozen=True, slots=True)
class News:
    """Lines since the cursor, and the cursor to go on from; `begins` where they replace what was shown."""

    lines: Sequence[Line]
    cursor: Cursor
    begins: bool


@dataclass(frozen=True, slots=True)
class Happening:
    """A step of the run or of one of its machines."""

    at: datetime
    subject: str
    """run, or the machine's name."""
    verb: str
    state: str
    cause: Cause
    sentence: str | None


def read_log(session: Session, caller: Caller, run_id: UUID, cursor: Cursor) -> News:
    """What is new in the current attempt's files; the last 200 lines for a cursor of another attempt."""
    caller.require(Permission.SEE)
    run = own_row(session, caller, Run, run_id, "run")
    return _read(home_volume(), Use.RUN, run.id, run.attempt, cursor)


def read_evaluation_log(session: Session, caller: Caller, evaluation_id: UUID, cursor: Cursor) -> News:
    """The same for an evaluation."""
    caller.require(Permission.SEE)
    row = own_row(session, caller, Evaluation, evaluation_id, "evaluation")
    return _read(home_volume(), Use.EVALUATION, row.id, row.attempt, cursor)


def list_happenings(session: Session, caller: Caller, run_id: UUID) -> list[Happening]:
    """Steps of the run and of all its machines, newest first."""
    caller.require(Permission.SEE)
    run = own_row(session, caller, Run, run_id, "run")
    of_run = session.exec(select(RunEvent).where(RunEvent.subject_id == run.id))
    found = [Happening(e.at, "run", e.verb, e.state, e.cause, e.sentence) for e in of_run]
    of_machines = session.exec(
        select(MachineEvent, Machine.name)
        .join(Machine, col(Machine.id) == col(MachineEvent.subject_id))
        .where(Machine.use == Use.RUN, Machine.subject_id == run.id)
    )
    found += [Happening(e.at, name, e.verb, e.state, e.cause, e.sentence) for e, name in of_machines]
    return sorted(found, key=lambda happening: happening.at)[::-1]


def _read(volume: FileStore, use: Use, subject_id: UUID, attempt: int, cursor: Cursor) -> News:
    if attempt == 0:
        return News([], Cursor(), begins=cursor.attempt != 0)
    begins = cursor.attempt != attempt
    known = Cursor(attempt) if begins else cursor
    folder = AttemptKeys.of(use.plural, str(subject_id), attempt).outputs
    log, log_to = _tail(volume, f"{folder}/{LOG}", known.log)
    events, events_to = _tail(volume, f"{folder}/{EVENTS}", known.events)
    steps, steps_to = _tail(volume, f"{folder}/{METRICS}", known.metrics)
    told = sorted([*_told(events, _event), *_told(steps, _step)], key=lambda one: one.at)
    lines = _woven(told, [(at, _plain(text)) for at, text in log if text.strip()])
    return News(lines[-FIRST_LINES:], Cursor(attempt, log_to, events_to, steps_to), begins)


def _tail(volume: FileStore, key: str, read_to: int | None) -> tuple[list[tuple[int, str]], int | None]:
    """The whole lines from there on, each with the byte it begins at; of a file never read the last ones."""
    size = volume.size(key)
    if size is None or size == read_to:
        return [], read_to
    start = max(size - _TAIL_BYTES, 0) if read_to is None or read_to > size else read_to
    with volume.open(key, start) as file:
        data = file.read(_MOST_BYTES)
    is_endless = len(data) == _MOST_BYTES and b"\n" not in data
    whole = data if is_endless else data[: data.rfind(b"\n") + 1]
    lines, at = [], start
    for line in whole.splitlines(keepends=True):
        lines.append((at, line.decode(errors="replace").rstrip("\r\n")))
        at += len(line)
    if start and (read_to is None or read_to > size):
        lines = lines[1:]
    return lines, start + len(whole)


@dataclass(frozen=True, slots=True)
class _Told:
    """A line that says when; `log` is how long log.txt was then, where the trainer noted it."""

    at: str
    line: Line
    log: int | None


def _told(lines: Sequence[tuple[int, str]], say: Callable[[Mapping[str, Any]], Line | None]) -> Iterator[_Told]:
    for _, text in lines:
        try:
            facts = json.loads(text)
            line = say(facts) if isinstance(facts, dict) else None
        except (ValueError, KeyError, TypeError):
            continue
        if line is not None:
            log = facts.get("log")
            yield _Told(str(facts["at"]), line, log if isinstance(log, int) else None)


def _woven(told: Sequence[_Told], plain: Sequence[tuple[int, Line]]) -> list[Line]:
    """Lines of log.txt say no time: each stands before the first event that found it written, or else at the end."""
    lines: list[Line] = []
    taken = 0
    for one in told:
        while one.log is not None and taken < len(plain) and plain[taken][0] < one.log:
            lines.append(plain[taken][1])
            taken += 1
        lines.append(one.line)
    return [*lines, *(line for _, line in plain[taken:])]


def _event(facts: Mapping[str, Any]) -> Line | None:
    """One of the trainer's own events in words."""
    kind = facts["kind"]
    words = {
        "started": "started",
        "restarted": "started again on the same machine",
        "rows_prepared": "rows prepared",
        "model_loaded": "model loaded",
    }.get(kind, str(kind).replace("_", " "))
    known = {"at", "machine", "attempt", "boot", "kind", "log"}
    more = " ".join(f"{name} {_short(value)}" for name, value in facts.items() if name not in known)
    return Line(_clock(facts), "error" if kind == "failed" else "info", redact(f"{words} {more}".strip())[:_LONGEST])


def _step(facts: Mapping[str, Any]) -> Line | None:
    if "validation_loss" in facts:
        return Line(_clock(facts), "info", f"validation at {facts['step']:,} loss {facts['validation_loss']:.3f}")
    if "loss" not in facts:
        return None
    figures = f"loss {facts['loss']:.3f} lr {facts['learning_rate']:.2e} grad {facts['grad_norm']:.2f}"
    words = f"step {facts['step']:,} {figures} {facts['tokens_per_second']:,.0f} tok/s"
    return Line(_clock(facts), "info", words)


def _plain(text: str) -> Line:
    level = "error" if _BAD.search(text) else "warning" if _ODD.search(text) else "info"
    return Line("", level, redact(text)[:_LONGEST])


def _clock(facts: Mapping[str, Any]) -> str:
    return str(facts["at"])[11:19]


def _short(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 200 else f"{text[:200]} …"
