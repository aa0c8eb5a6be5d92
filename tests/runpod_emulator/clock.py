"""The emulator's time: a virtual one that stands still until it is moved, or the computer's own."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

START = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


class Clock(Protocol):
    def __call__(self) -> datetime: ...

    def sleep(self, seconds: float) -> None: ...


class VirtualClock:
    """Noon of the first of December 2026, until somebody moves it. Sleeping moves it too."""

    def __init__(self, at: datetime = START) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at

    def advance(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> datetime:
        self.at += timedelta(seconds=seconds, minutes=minutes, hours=hours)
        return self.at

    def sleep(self, seconds: float) -> None:
        self.advance(seconds=seconds)


class RealClock:
    def __call__(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def text_of(at: datetime) -> str:
    """As the API writes times: UTC, whole seconds, Z."""
    return f"{at.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat()}Z"
