"""The effects of the console, counted one by one: at any of them its process can die, or lose its lease to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
        self._once_asked: Callable[[], None] | None = None

    def arm_once_asked(self, act: Callable[[], None]) -> None:
        """`act` runs when the provider has carried out a create call, before anybody has read its answer."""
        self._once_asked = act

    def arm(self, effects: int, act: Callable[[], None], *, spares_commits: bool = False) -> None:
        """`act` runs before the effect after so many others. A commit is spared where `act` writes by itself."""
        self._left, self._act, self._spares_commits = effects, act, spares_commits

    def disarm(self) -> None:
        self._left = self._once_asked = None

    @property
    def is_armed(self) -> bool:
        return self._left is not None or self._once_asked is not None

    def asked(self) -> None:
        act, self._once_asked = self._once_asked, None
        if act is not None:
            act()

    def cross(self, *, is_commit: bool = False) -> None:
        self.count += 1
        if self._left is None or (is_commit and self._spares_commits):
            return
        self._left -= 1
        if self._left <= 0:
            self._left = None
            self._act()

    @contextmanager
    def watching_commits(self) -> Iterator[None]:
        """Of the database that is open now, and of each that its engine opens after."""
        engine = session_module.engines().write

        def cross(connection: sa.Connection) -> None:
            self.cross(is_commit=True)

        sa.event.listen(engine, "commit", cross)
        try:
            yield
        finally:
            sa.event.remove(engine, "commit", cross)

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
        if request.method == "POST" and request.url.path == "/v2/pods":
            self._boundary.asked()
        return answer


def _ids(answer: httpx.Response) -> list[str]:
    try:
        body: Any = answer.json()
    except ValueError:
        return []
    return [pod["id"] for pod in body.get("pods", []) if pod["status"] != "TERMINATED"]
