"""Tells, through the machine's own log, what lies in its output folder: for a console that cannot read this disk."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainer.contract import (
    EVENTS,
    LONGEST_TOLD,
    METRICS,
    RESULT,
    SAMPLES,
    STATUS,
    TRIAL,
    Result,
    Told,
    dump,
    load,
    tell_line,
)

TICK = 1.0
HEARTBEAT = 10.0
"""Seconds between two heartbeats of one phase; a new phase is told at once."""
AGAIN = 60.0
"""Seconds after which the end is told once more: a log is not kept for ever, and a console may have been away."""
_GROWING = (EVENTS, METRICS, SAMPLES)
_LONGEST_SENTENCE = 2_000


@contextmanager
def telling(outputs: Path, write: Callable[[bytes], None]) -> Iterator[Teller]:
    """A thread that tells, for as long as the work and the waiting after it last."""
    teller, over = Teller(outputs, write), threading.Event()

    def run() -> None:
        while not over.wait(TICK):
            teller.tell()

    threading.Thread(target=run, name="teller", daemon=True).start()
    try:
        yield teller
    finally:
        over.set()


@dataclass(slots=True)
class Teller:
    """What grows is told line by line, from its first line at each start of the container; the rest whole, when it changed."""

    outputs: Path
    write: Callable[[bytes], None]
    """One line of the log."""
    clock: Callable[[], float] = time.monotonic
    _lines: dict[str, int] = field(default_factory=dict)
    _bytes: dict[str, int] = field(default_factory=dict)
    _whole: dict[str, str] = field(default_factory=dict)
    _phase: object = None
    _told_at: dict[str, float] = field(default_factory=dict)
    _has_ended: bool = False

    def ends(self) -> None:
        """Nothing more is to be done here: now the result may be told."""
        self._has_ended = True

    def tell(self) -> None:
        """Everything that is new, the result last: whoever heard it has heard all."""
        for name in _GROWING:
            self._tell_lines(name)
        self._tell_status()
        self._tell_whole(TRIAL)
        if self._has_ended:
            self._tell_whole(RESULT)

    def _tell_lines(self, name: str) -> None:
        try:
            with (self.outputs / name).open("rb") as file:
                file.seek(self._bytes.get(name, 0))
                new = file.read()
        except OSError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        for line in whole.splitlines():
            number = self._lines.get(name, 0)
            self._lines[name] = number + 1
            if len(line) <= LONGEST_TOLD:
                self._say(Told(name, number, line.decode(errors="replace")))
        self._bytes[name] = self._bytes.get(name, 0) + len(whole)

    def _tell_status(self) -> None:
        text = self._text(STATUS)
        try:
            phase = json.loads(text)["phase"] if text else None
        except (ValueError, KeyError, TypeError):
            return
        is_due = phase != self._phase or self._age(STATUS) >= HEARTBEAT
        if phase is not None and is_due and text != self._whole.get(STATUS):
            self._phase = phase
            self._say_whole(STATUS, text)

    def _tell_whole(self, name: str) -> None:
        text = self._text(name)
        if text and (text != self._whole.get(name) or self._age(name) >= AGAIN):
            self._say_whole(name, text)

    def _say_whole(self, name: str, text: str) -> None:
        self._whole[name], self._told_at[name] = text, self.clock()
        told = Told(name, None, _short(text) if name == RESULT else text)
        if len(told.text.encode()) <= LONGEST_TOLD:
            self._say(told)

    def _say(self, told: Told) -> None:
        self.write(f"{tell_line(told)}\n".encode())

    def _text(self, name: str) -> str:
        try:
            return (self.outputs / name).read_text().strip()
        except (OSError, ValueError):
            return ""

    def _age(self, name: str) -> float:
        return self.clock() - self._told_at.get(name, float("-inf"))


def _short(text: str) -> str:
    """A result whose sentence would not fit into a line of a log."""
    try:
        result = load(Result, text)
    except (ValueError, TypeError, KeyError):
        return text
    if result.failure is None or len(result.failure.message) <= _LONGEST_SENTENCE:
        return text
    message = f"{result.failure.message[:_LONGEST_SENTENCE]} … The whole is in the machine's own result."
    return dump(replace(result, failure=replace(result.failure, message=message)))
