"""A Pod's log lines, and the event stream that tells them and can be taken up again where it broke off."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.runpod_emulator.clock import text_of
from tests.runpod_emulator.wire import ApiError, Request

MOST = 5000
CONTAINER, SYSTEM = "container", "system"


@dataclass(frozen=True, slots=True)
class LogLine:
    at: datetime
    number: int
    """From 1, over both sources."""
    source: str
    text: str

    @property
    def cursor(self) -> str:
        return f"{text_of(self.at)}/{self.number:012d}"

    def event(self) -> bytes:
        data = json.dumps({"ts": text_of(self.at), "source": self.source, "line": self.text})
        return f"id: {self.cursor}\ndata: {data}\n\n".encode()


@dataclass(slots=True)
class Logs:
    lines: list[LogLine] = field(default_factory=list)
    _adding: threading.Lock = field(default_factory=threading.Lock)
    """A real program's output is read by a thread of its own."""

    def add(self, at: datetime, source: str, text: str) -> None:
        with self._adding:
            for line in text.splitlines():
                self.lines.append(LogLine(at, len(self.lines) + 1, source, line))

    def said(self, source: str) -> list[str]:
        return [line.text for line in self.lines if line.source == source]


@dataclass(frozen=True, slots=True)
class Asked:
    """From where, and of what, a stream is wanted."""

    source: str | None
    tail: int
    since: datetime | None
    after: tuple[datetime, int] | None

    @classmethod
    def of(cls, request: Request) -> Asked:
        source, tail = request.asked("source"), request.asked("tail") or "100"
        if source not in {None, CONTAINER, SYSTEM}:
            raise ApiError(422, "Request validation failed.", [f"query.source: {source!r} is not a log source"])
        if not tail.isdecimal() or int(tail) > MOST:
            raise ApiError(422, "Request validation failed.", [f"query.tail: {tail!r} is not between 0 and {MOST}"])
        since, after = request.asked("since"), request.headers.get("last-event-id")
        return cls(source, int(tail), _time(since) if since else None, _cursor(after) if after else None)

    def first(self, lines: Sequence[LogLine]) -> int:
        """The index of the first line to tell."""
        if self.after is not None:
            at, number = self.after
            return next((i for i, line in enumerate(lines) if line.at >= at and line.number > number), len(lines))
        if self.since is not None:
            since = self.since
            return next((i for i, line in enumerate(lines) if line.at >= since), len(lines))
        fitting = [i for i, line in enumerate(lines) if self.source in {None, line.source}]
        return fitting[-self.tail] if 0 < self.tail <= len(fitting) else 0 if self.tail else len(lines)


def stream(logs: Logs, asked: Asked, wait: Callable[[], bool]) -> Iterator[bytes]:
    """Events as they come, from now on; `wait` answers False when nothing more can come."""
    return _events(logs, asked, wait, asked.first(logs.lines))


def _events(logs: Logs, asked: Asked, wait: Callable[[], bool], index: int) -> Iterator[bytes]:
    goes_on = True
    while goes_on:
        goes_on = wait()
        told = False
        while index < len(logs.lines):
            line = logs.lines[index]
            index += 1
            if asked.source in {None, line.source}:
                told = True
                yield line.event()
        if goes_on and not told:
            yield b": keep-alive\n\n"


def _cursor(text: str) -> tuple[datetime, int]:
    at, _, number = text.partition("/")
    return _time(at), int(number) if number.isdecimal() else 0


def _time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ApiError(422, "Request validation failed.", [f"{text!r} is not a date-time"]) from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)
