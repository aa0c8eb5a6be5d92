"""How many requests a key may make: per minute and per hour, told in every answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tests.runpod_emulator.wire import ApiError


@dataclass(slots=True)
class RateLimit:
    minute: int = 180
    hour: int = 7200
    _used: dict[tuple[str, int, int], int] = field(default_factory=dict)

    def count(self, key: str, now: datetime) -> Mapping[str, str]:
        """One more request: the headers that tell what is left, or 429."""
        second = int(now.timestamp())
        left: dict[int, int] = {}
        for length, most in ((60, self.minute), (3600, self.hour)):
            window = (key, length, second // length)
            self._used[window] = self._used.get(window, 0) + 1
            left[length] = most - self._used[window]
        self._forget(second)
        headers = self._headers(left, second)
        for length in (60, 3600):
            if left[length] < 0:
                wait = {"retry-after": str(length - second % length)}
                raise ApiError(
                    429, f"rate limit exceeded: too many requests in {length} s", headers={**headers, **wait}
                )
        return headers

    def _headers(self, left: Mapping[int, int], second: int) -> dict[str, str]:
        named = {60: ("minute", self.minute), 3600: ("hour", self.hour)}
        told = [f'"{named[length][0]}";r={max(0, rest)};t={length - second % length}' for length, rest in left.items()]
        policy = [f'"{name}";q={most};w={length}' for length, (name, most) in named.items()]
        return {"ratelimit": ", ".join(told), "ratelimit-policy": ", ".join(policy)}

    def _forget(self, second: int) -> None:
        for window in [w for w in self._used if w[2] < second // w[1]]:
            del self._used[window]
