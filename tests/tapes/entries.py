"""What stands on a tape, entry by entry: replies, messages of the trainer, events; read from however people write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from tests.tapes.moments import later_in, time_in, time_of_day_in

_CHOOSES = frozenset({"cursor", "podId", "networkVolumeId"})
"""Parameters of a call that lead to another answer; the others may be written as one likes."""
_CURSORS = frozenset({"nextCursor", "after", "page", "pageToken"})


@dataclass(frozen=True, slots=True)
class Call:
    """A request as the provider sees it."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """One entry of a tape."""

    method: str
    path: str
    """May hold `{id}` or `*` for any part."""
    chooses: Mapping[str, str]
    """Parameters that the call must bear."""
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

    def is_for(self, call: Call) -> bool:
        if self.method not in {call.method, "ANY", "*"}:
            return False
        pattern = re.sub(r"\{[^}]*\}", "*", self.path)
        return pattern == call.path or ("*" in pattern and fnmatchcase(call.path, pattern))

    def starts_a_stage(self) -> str | None:
        """What it waits for; all that stand in front of it are over once that has come."""
        return self.after or self.since


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens outside, at its time; the text as it stands on the tape."""

    at: datetime
    text: str
    after: str | None = None
    """Or as soon as this has happened."""
    is_turn: bool = False
    """The tape's own turning point, at which somebody might look."""


@dataclass(frozen=True, slots=True)
class Word:
    """A message of the process on the machine."""

    says: Mapping[str, Any]
    at: datetime | None
    """None: some seconds after the one before it."""


def as_tape(timeline: Sequence[Any]) -> dict[str, Any]:
    """A bare list of what a trainer did, as a tape: its machine is up, and its container begins anew where that is said."""
    words = [entry for entry in timeline if isinstance(entry, dict)]
    return {"run": {"id": "r-1", "pod": "pod_1", "state": "Training"}, "replies": [{"on": "trainer", "body": words}]}


def is_trainers(one: Mapping[str, Any]) -> bool:
    return str(one["on"]).lower().startswith("trainer")


def read_reply(one: Mapping[str, Any]) -> Reply:
    words, _, condition = str(one["on"]).partition(" without ")
    method, _, rest = words.strip().partition(" ")
    path, _, query = rest.strip().partition(" ")[0].partition("?")
    pairs = dict(pair.partition("=")[::2] for pair in query.split("&") if "=" in pair)
    pairs = {"cursor" if key in _CURSORS else key: value for key, value in pairs.items()}
    times, repeats = one.get("times"), one.get("repeat")
    status = one.get("status")
    return Reply(
        method=method.upper(),
        path=path.rstrip("/") or "*",
        chooses={key: value for key, value in pairs.items() if key in _CHOOSES},
        without=tuple(re.findall(r"[a-z]+[A-Z]\w*", condition)),
        status=int(status) if status is not None else None,
        body=one.get("body"),
        headers={str(name): str(value) for name, value in (one.get("headers") or {}).items()},
        fault=str(one.get("fault") or ""),
        times=int(times) if times is not None else repeats if type(repeats) is int else None,
        is_for_ever=repeats is True,
        until=_text(one.get("until") or one.get("repeat_until")),
        since=_text(one.get("from_") or one.get("from")),
        after=_text(one.get("after")),
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def read_words(one: Mapping[str, Any], starts: datetime) -> list[Word]:
    """The first one of an entry may have the entry's own time."""
    body = one.get("body")
    messages = [body] if isinstance(body, dict | str) else list(body or [])
    said = [{"event": message} if isinstance(message, str) else message for message in messages]
    times = [message.get("at") or message.get("time") for message in said]
    if said and not times[0]:
        times[0] = one.get("from_") or one.get("from") or one.get("at")
    return [Word(message, time_in(str(at), starts) if at else None) for message, at in zip(said, times, strict=True)]


def read_events(entries: Sequence[Any], starts: datetime) -> list[Event]:
    """One without a time of its own happens with the one before it."""
    found, at = [], starts
    for entry in entries:
        told = entry if isinstance(entry, dict) else {}
        text = entry if isinstance(entry, str) else _text_of(told)
        when = told.get("at") or told.get("time") or told.get("when")
        after = told.get("after")
        named = time_in(str(when), starts) if when else time_in(text, starts)
        if named is not None:
            at = named
        elif (pause := later_in(text)) is not None:
            at += pause
        else:
            at = time_of_day_in(str(when or text), starts) or at
        found.append(Event(at, text, after=_text(after)))
    return sorted(found, key=lambda event: event.at)


def _text_of(entry: Mapping[str, Any]) -> str:
    names = ("event", "what", "text", "do", "action", "happens", "description")
    return next((str(entry[name]) for name in names if entry.get(name)), json.dumps(entry))
