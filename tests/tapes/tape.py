"""A tape: the replies of a provider in the order in which it gives them, and when each holds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

_OFFSET = re.compile(r"\+\s*(\d+(?:\.\d+)?)\s*(s|m|h)\b")
_SPOKEN = re.compile(r"(\d+(?:\.\d+)?)\s*(second|minute|hour)s? later")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "second": 1, "minute": 60, "hour": 3600}
_CALL = re.compile(r"(GET|POST|PATCH|PUT|DELETE)\b(?:\s+(\d{3}))?(?:\s+(/\S+))?")


@dataclass(frozen=True, slots=True)
class Reply:
    """One entry of a tape."""

    method: str
    path: str
    without: tuple[str, ...]
    """Holds only where these query parameters are not all there."""
    status: int | None
    body: Any
    headers: Mapping[str, str]
    fault: str
    times: int | None
    is_for_ever: bool
    until: str | None
    since: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens outside, at its time; the text as it stands on the tape."""

    at: datetime
    text: str


@dataclass(slots=True)
class Tape:
    name: str
    starts: datetime
    run: Mapping[str, Any]
    replies: Sequence[Reply]
    said: Sequence[Mapping[str, Any]]
    """What the process on the machine says, in order."""
    events: Sequence[Event]
    time_zone: str | None
    happened: Counter[str] = field(default_factory=Counter)
    """Calls as `METHOD STATUS PATH`, and words such as `new key`."""
    _used: Counter[int] = field(default_factory=Counter)

    @classmethod
    def read(cls, path: Path) -> Tape:
        raw = json.loads(path.read_text(encoding="utf-8"))
        starts = datetime.fromisoformat(raw.get("clock") or raw["clock_start"])
        entries = raw.get("replies", [])
        return cls(
            name=path.stem,
            starts=starts,
            run=raw.get("run", {}),
            replies=[_reply(one) for one in entries if not one["on"].startswith("trainer")],
            said=[word for one in entries if one["on"].startswith("trainer") for word in _words(one["body"])],
            events=_events(raw.get("events", []), starts),
            time_zone=raw.get("server_timezone"),
        )

    def has(self, method: str, path: str) -> bool:
        return any((one.method, one.path) == (method, path) for one in self.replies)

    def pods(self) -> Mapping[str, str | None]:
        """Ids of machines that the tape can show one by one, with their names."""
        found: dict[str, str | None] = {}
        for one in self.replies:
            if match := re.fullmatch(r"/v2/pods/([^/]+)", one.path):
                name = one.body.get("name") if isinstance(one.body, dict) else None
                found[match[1]] = found.get(match[1]) or name
        return found

    def answer(self, method: str, path: str, query: Mapping[str, str], now: datetime) -> Reply | None:
        """The reply whose turn it is; None where the tape knows no such call."""
        mine = [n for n, one in enumerate(self.replies) if (one.method, one.path) == (method, path)]
        special = [n for n in mine if (names := self.replies[n].without) and not set(names) <= query.keys()]
        if special:
            return self.replies[special[0]]
        mine = [n for n in mine if not self.replies[n].without]
        # Whatever was waiting for something that has happened comes before all that stood in front of it.
        freed = [n for n in mine if self.replies[n].after and self._has_happened(self.replies[n].after, now)]
        turn = [n for n in mine if not freed or n >= freed[-1]]
        for n in turn:
            if self._holds(n, is_last=n == turn[-1], now=now):
                self._used[n] += 1
                return self.replies[n]
        return self.replies[turn[-1]] if turn and not self.replies[turn[-1]].after else None

    def note(self, method: str, path: str, status: int | None) -> None:
        self.happened[f"{method} {status} {path}"] += 1

    def _holds(self, n: int, *, is_last: bool, now: datetime) -> bool:
        one = self.replies[n]
        if one.after and not self._has_happened(one.after, now):
            return False
        if one.since and not self._has_happened(one.since, now):
            return False
        if one.until:
            return not self._has_happened(one.until, now)
        if one.times is not None:
            return self._used[n] < one.times
        return one.is_for_ever or is_last or self._used[n] < 1

    def _has_happened(self, what: str | None, now: datetime) -> bool:
        """A clock time, an offset from the tape's own, a call that succeeded, or a word."""
        assert what is not None
        if (at := time_in(what, self.starts)) is not None:
            return now >= at
        if match := _CALL.match(what):
            method, status, path = match.groups()
            return any(_is_call(key, method, status, path) for key in self.happened if key[:3].isupper())
        return what.strip().lower() in self.happened


def time_in(text: str, starts: datetime) -> datetime | None:
    """`2026-10-25T02:00:00Z`, or `+14m` from the tape's clock."""
    if match := _OFFSET.search(text):
        return starts + timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def _is_call(key: str, method: str, status: str | None, path: str | None) -> bool:
    did, got, where = key.split(" ", 2)
    succeeded = got.isdigit() and (200 <= int(got) < 300 if status is None else got == status)
    return did == method and succeeded and path in (None, where)


def _reply(one: Mapping[str, Any]) -> Reply:
    words, _, condition = one["on"].partition(" without ")
    method, _, path = words.partition(" ")
    times = one.get("times")
    repeats = one.get("repeat")
    return Reply(
        method=method,
        path=path.partition("?")[0].strip(),
        without=tuple(re.findall(r"[a-z]+[A-Z]\w*", condition)),
        status=one.get("status"),
        body=one.get("body"),
        headers=one.get("headers") or {},
        fault=str(one.get("fault") or ""),
        times=times if times is not None else repeats if type(repeats) is int else None,
        is_for_ever=repeats is True,
        until=one.get("until") or one.get("repeat_until"),
        since=one.get("from_") or one.get("from"),
        after=one.get("after"),
    )


def _words(body: Any) -> list[Mapping[str, Any]]:
    return [body] if isinstance(body, dict) else list(body)


def _events(texts: Sequence[Any], starts: datetime) -> list[Event]:
    """One without a time of its own happens with the one before it."""
    found, at = [], starts
    for entry in texts:
        text = entry if isinstance(entry, str) else str(entry.get("event") or entry.get("what") or json.dumps(entry))
        told = None if isinstance(entry, str) else entry.get("at") or entry.get("time")
        if told:
            at = time_in(str(told), starts) or at
        elif match := _OFFSET.search(text):
            at = starts + timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
        elif match := _SPOKEN.search(text):
            at += timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
        found.append(Event(at, text))
    return sorted(found, key=lambda event: event.at)
