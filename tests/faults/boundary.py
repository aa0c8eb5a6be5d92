"""The effects of the console, counted one by one: at any of them its process can die, or lose its lease to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import sqlalchemy as sa

from tensorant_app.db import session as session_module


class Crash(BaseException):
    """The process ends here and now: nothing is caught, nothing is released."""


class Boundary:
    """Every commit, every request to the provider and every request for a file passes through here before it happens."""

    def __init__(self) -> None:
        self.count = 0
        self.listed: frozenset[str] = frozenset()
        """Ids of the machines in the last list that the console really got."""
        self.is_commit = False
        self._left: int | None = None
        self._act: Callable[[], None] = lambda: None
        self._spares_commits = False

    def arm(self, effects: int, act: Callable[[], None], *, spares_commits: bool = False) -> None:
        """`act` runs before the effect after so many others. A commit is spared where `act` writes by itself."""
        self._left, self._act, self._spares_commits = effects, act, spares_commits

    def disarm(self) -> None:
        self._left = None

    @property
    def is_armed(self) -> bool:
        return self._left is not None

    def cross(self, *, is_commit: bool = False) -> None:
        self.count += 1
        if self._left is None or (is_commit and self._spares_commits):
            return
        self._left -= 1
        if self._left <= 0:
            self._left = None
            self._act()

    def watch_commits(self) -> None:
        """Of the database that is open now; once for each opening."""
        sa.event.listen(session_module.engines().write, "commit", lambda connection: self.cross(is_commit=True))

    def over(self, inner: httpx.BaseTransport) -> httpx.BaseTransport:
        return _Watched(self, inner)


class _Watched(httpx.BaseTransport):
    def __init__(self, boundary: Boundary, inner: httpx.BaseTransport) -> None:
        self._boundary, self._inner = boundary, inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._boundary.cross()
        answer = self._inner.handle_request(request)
        if request.method == "GET" and request.url.path == "/v2/pods" and answer.is_success:
            self._boundary.listed = frozenset(_ids(answer))
        return answer


def _ids(answer: httpx.Response) -> list[str]:
    try:
        body: Any = answer.json()
    except ValueError:
        return []
    return [pod["id"] for pod in body.get("pods", []) if pod["status"] != "TERMINATED"]
