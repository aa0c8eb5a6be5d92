"""A tape: the replies of a provider in the order in which it gives them, and when each holds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.tapes.entries import Call, Event, Reply, Word, as_tape, is_trainers, read_events, read_reply, read_words
from tests.tapes.moments import read_clock, time_in

_CALL = re.compile(r"(GET|POST|PATCH|PUT|DELETE)\b(?:\s+(\d{3}))?(?:\s+(/\S+))?(?:\s+(\d{3}))?")
DEFAULT_CLOCK = "2026-12-01T12:00:00Z"


class BadTape(ValueError):
    """What a file holds is no tape of a rented machine; the sentence says why."""


@dataclass(slots=True)
class Tape:
    name: str
    starts: datetime
    run: Mapping[str, Any]
    replies: Sequence[Reply]
    said: Sequence[Word]
    """What the process on the machine says, in order."""
    has_trainer: bool
    """The tape tells what its trainer says, be it nothing; else it works as any other."""
    events: Sequence[Event]
    time_zone: str | None
    happened: Counter[str] = field(default_factory=Counter)
    """Calls as `METHOD STATUS PATH`, and texts of events."""
    _used: Counter[int] = field(default_factory=Counter)

    @classmethod
    def read(cls, path: Path) -> Tape:
        try:
            raw = json.loads(path.read_text(encoding="utf-8-sig"))
        except ValueError as error:
            raise BadTape(f"{path.name} is not JSON: {error}.") from error
        if isinstance(raw, list):
            raw = as_tape(raw)
        if not isinstance(raw, dict) or not isinstance(raw.get("run"), dict):
            raise BadTape(f"{path.name} tells of no run: only tapes of a run's rented machine are played here.")
        clock = raw.get("clock") or raw.get("clock_start") or raw["run"].get("started") or DEFAULT_CLOCK
        starts = read_clock(str(clock))
        entries = [one for one in raw.get("replies") or [] if isinstance(one, dict) and one.get("on")]
        spoken = [one for one in entries if is_trainers(one)]
        return cls(
            name=path.stem,
            starts=starts,
            run=raw["run"],
            replies=[read_reply(one) for one in entries if not is_trainers(one)],
            said=[word for one in spoken for word in read_words(one, starts)],
            has_trainer=bool(spoken),
            events=read_events(raw.get("events") or [], starts),
            time_zone=raw.get("server_timezone"),
        )

    def has(self, method: str, path: str) -> bool:
        return any(one.is_for(Call(method, path)) for one in self.replies)

    def has_own(self, pod_id: str) -> bool:
        """Whether it tells how this machine answers by itself."""
        return any(one.method == "GET" and one.path == f"/v2/pods/{pod_id}" for one in self.replies)

    def pods(self) -> Mapping[str, str | None]:
        """Ids of machines that the tape can show one by one, with their names."""
        found: dict[str, str | None] = {}
        for one in self.replies:
            if match := re.fullmatch(r"/v2/pods/([^/{}*]+)", one.path):
                name = one.body.get("name") if isinstance(one.body, dict) else None
                found[match[1]] = found.get(match[1]) or (name if isinstance(name, str) else None)
        return found

    def answer(self, call: Call, now: datetime) -> Reply | None:
        """The reply whose turn it is; None where the tape knows no such call."""
        mine = [n for n, one in enumerate(self.replies) if one.is_for(call)]
        special = [n for n in mine if (names := self.replies[n].without) and not set(names) <= call.query.keys()]
        if special:
            return self.replies[special[0]]
        turn = self._stage(self._chosen(mine, call), now)
        for n in turn:
            if self._holds(n, is_last=n == turn[-1], now=now):
                return self._take(n)
        # Nothing is written for this very moment: what was said last still holds, else what needs no more waiting.
        said = [n for n in turn if self._used[n]] or [n for n in turn if self._is_open(n, now)]
        return self._take(said[-1]) if said else None

    def note(self, method: str, path: str, status: int | None) -> None:
        self.happened[f"{method} {status} {path}"] += 1

    def note_word(self, text: str) -> None:
        self.happened[text.strip().lower()] += 1

    def is_staged(self, reply: Reply) -> bool:
        """Whether it stands there for a moment of its own, and not as what always holds."""
        return reply.starts_a_stage() is not None or reply.until is not None

    def goes_on(self, now: datetime) -> list[str]:
        """Paths whose later replies were not all given yet, and could be."""
        called = {key.split(" ", 2)[2] for key in self.happened if _CALL.match(key)}
        return [
            one.path
            for n, one in enumerate(self.replies)
            if not self._used[n] and one.path in called and not one.without and self._is_open(n, now)
        ]

    def has_happened(self, what: str, now: datetime, path: str = "") -> bool:
        """A clock time, an offset from the tape's own, a call that succeeded, or the words of an event.

        A deletion that names no machine, of a reply about one machine, is that one's.
        """
        if (at := time_in(what, self.starts)) is not None:
            return now >= at
        if match := _CALL.search(what):
            method, status, named, late_status = match.groups()
            if method == "DELETE" and named is None and re.fullmatch(r"/v2/pods/[^/]+", path):
                named = path
            calls = [key for key in self.happened if key[:3].isupper()]
            return any(_is_call(key, method, status or late_status, named) for key in calls)
        words = what.strip().lower()
        return words in self.happened or any(_is_told_in(words, text) for text in self.happened)

    def _chosen(self, mine: Sequence[int], call: Call) -> list[int]:
        """Those for just this page or machine, where there are any; else those that name none."""
        exact = [n for n in mine if (chooses := self.replies[n].chooses) and chooses.items() <= call.query.items()]
        return exact or [n for n in mine if not self.replies[n].chooses]

    def _stage(self, mine: Sequence[int], now: datetime) -> list[int]:
        """From the first reply of the last stage that has come: what stood in front of it is over."""
        begins = 0
        reached: str | None = None
        for place, n in enumerate(mine):
            stage = self.replies[n].starts_a_stage()
            if stage is not None and stage != reached and self._is_open(n, now):
                begins, reached = place, stage
        return list(mine[begins:])

    def _is_open(self, n: int, now: datetime) -> bool:
        """Whether what it waits for has come."""
        one = self.replies[n]
        return all(self.has_happened(what, now, one.path) for what in (one.after, one.since) if what)

    def _holds(self, n: int, *, is_last: bool, now: datetime) -> bool:
        one = self.replies[n]
        if not self._is_open(n, now):
            return False
        if one.until:
            return not self.has_happened(one.until, now, one.path)
        if one.times is not None:
            return self._used[n] < one.times
        return one.is_for_ever or is_last or self._used[n] < 1

    def _take(self, n: int) -> Reply:
        self._used[n] += 1
        return self.replies[n]


def _is_told_in(words: str, event: str) -> bool:
    """Whether an event's text says the same: each word of note is in it, or a form of it."""
    roots = [word[:5] for word in re.findall(r"[a-z]{3,}", words) if word not in {"the", "and"}]
    return event == event.lower() and bool(roots) and all(root in event for root in roots)


def _is_call(key: str, method: str, status: str | None, path: str | None) -> bool:
    did, got, where = key.split(" ", 2)
    succeeded = got.isdigit() and (200 <= int(got) < 300 if status is None else got == status)
    return did == method and succeeded and path in (None, where)
