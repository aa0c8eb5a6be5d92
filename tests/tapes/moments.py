"""The times of a tape as people write them: clock times, offsets from the tape's own clock, spans in words."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_UNIT = r"(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)"
_PART = rf"\d+(?:\.\d+)?\s*{_UNIT}"
_SPAN = re.compile(rf"({_PART}(?:\s*{_PART})*)(?![a-z])", re.IGNORECASE)
_OFFSET = re.compile(rf"\+\s*({_PART}(?:\s*{_PART})*)(?![a-z])", re.IGNORECASE)
_HOURS = re.compile(r"\+\s*(\d+):(\d\d)(?::(\d\d))?\b")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_OF_DAY = re.compile(r"(?<![\d:+-])([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?\s*(?:Z|UTC)?(?![\d:])")
_LATER = re.compile(rf"(\d+(?:\.\d+)?|[a-z]+)\s+({_UNIT})\s+later", re.IGNORECASE)
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def read_clock(text: str) -> datetime:
    """A time of day without a zone is UTC."""
    at = datetime.fromisoformat(text.strip())
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def time_in(text: str, starts: datetime) -> datetime | None:
    """`2026-10-25T02:00:00Z`, or `+14m` from the tape's clock."""
    found = times_in(text, starts)
    return found[0] if found else None


def times_in(text: str, starts: datetime) -> list[datetime]:
    """Every time that a text names, in its order."""
    found: list[tuple[int, datetime]] = []
    for match in _OFFSET.finditer(text):
        found.append((match.start(), starts + span_in(match[1])))
    for match in _HOURS.finditer(text):
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        found.append((match.start(), starts + timedelta(hours=hours, minutes=minutes, seconds=seconds)))
    for match in _STAMP.finditer(text):
        found.append((match.start(), read_clock(match[0])))
    return [at for _, at in sorted(found)]


def time_of_day_in(text: str, starts: datetime) -> datetime | None:
    """`09:20`, on the tape's first day, or the day after where that lies before its clock."""
    match = _OF_DAY.search(_STAMP.sub("", text))
    if match is None:
        return None
    at = starts.replace(hour=int(match[1]), minute=int(match[2]), second=int(match[3] or 0), microsecond=0)
    return at if at >= starts else at + timedelta(days=1)


def later_in(text: str) -> timedelta | None:
    """`5 minutes later`, `two hours later`."""
    match = _LATER.search(text)
    if match is None:
        return None
    count = match[1].lower()
    if count in _WORDS:
        return _unit(match[2]) * _WORDS.index(count)
    return _unit(match[2]) * float(count) if count[0].isdigit() else None


def span_in(text: str) -> timedelta:
    """`1h 30m`, `90 minutes`; nothing where a text names no span."""
    match = _SPAN.search(text)
    parts = re.findall(rf"(\d+(?:\.\d+)?)\s*({_UNIT})", match[1], re.IGNORECASE) if match else []
    return sum((_unit(unit) * float(count) for count, unit in parts), timedelta(0))


def _unit(word: str) -> timedelta:
    return timedelta(seconds=_SECONDS[word[0].lower()])
