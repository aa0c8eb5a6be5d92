"""What every page's state shares: one event = one use case in a thread = one transaction, and who is looking."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar
from urllib.parse import quote, urlsplit
from uuid import UUID

import reflex as rx
from reflex.event import EventSpec
from sqlmodel import Session

from tensorant_app.domain.errors import Invalid, NotFound, Refused, SignedOut, TensorantError
from tensorant_app.domain.members import Caller
from tensorant_app.log import log_failure
from tensorant_app.services import sessions
from tensorant_app.services.sessions import as_caller, as_reader

T = TypeVar("T")
Work = Callable[[Session, Caller], T]

LIVE_HOURS = 12
"""So long a page that nobody touches asks again by itself."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Person:
    """Who is looking, and which buttons are for them. Only for showing: services ask again at every event."""

    name: str = ""
    email: str = ""
    organization: str = ""
    role: str = ""
    may_prepare: bool = False
    may_spend: bool = False
    may_stop: bool = False
    may_decide: bool = False
    may_administer: bool = False
    may_own: bool = False


def id_of(text: str) -> UUID:
    """The id in an address or in what the browser sent; call it inside the use case, so that nonsense is refused."""
    try:
        return UUID(text)
    except ValueError:
        raise NotFound("There is nothing under this address.") from None


class AppState(rx.State):
    me: Person = Person()
    error: str = ""
    """Why the last event was refused; a whole sentence."""
    reasons: list[str] = []
    fields: dict[str, str] = {}
    """The same by field, where a form was refused."""

    @rx.event
    async def enter(self) -> EventSpec | None:
        """First in every page's on_load: who is looking. Without a session, off to the sign-in and back again."""
        found = await self._see(sessions.who_am_i)
        if found is None:
            self.me = Person()
            return rx.redirect(f"/sign-in?next={quote(self._here())}", is_external=True)
        may = {f"may_{permission.name.lower()}" for permission in found.may} & set(Person.__dataclass_fields__)
        self.me = Person(
            found.name, found.email, found.organization, found.role.value, **dict.fromkeys(sorted(may), True)
        )
        return None

    async def _do(self, work: Work[T]) -> T | None:
        """Run one use case in a thread: one transaction, the caller looked up in it. None where it was refused."""
        return await self._run(as_caller, work)

    async def _see(self, work: Work[T]) -> T | None:
        """The same for what only looks: it waits for no writer, and cannot write."""
        return await self._run(as_reader, work)

    async def _run(self, door: Callable[[str, Work[T]], T], work: Work[T]) -> T | None:
        self.error, self.reasons, self.fields = "", [], {}
        cookie = self.router.headers.cookie
        try:
            return await asyncio.to_thread(door, cookie, work)
        except TensorantError as error:
            self._show_refusal(error)
        except Exception:
            failure = log_failure(_log, f"An event of {type(self).__name__} failed")
            self.error = f"Something went wrong. It has been logged as {failure}."
        return None

    async def _watch(
        self,
        look: Work[T],
        show: Callable[[T], Awaitable[bool] | bool],
        *,
        every: float | Callable[[], float] = 1.0,
    ) -> None:
        """The loop of a live page, awaited by a background event that on_load returns: it ends with the tab.

        Each turn asks for the caller anew, then `show` gets what was seen, with the state held: it says whether
        to go on. The loop also ends with the session, on a refusal, and after twelve hours.
        """
        cookie = self.router.headers.cookie
        ends_at = monotonic() + LIVE_HOURS * 3600
        while monotonic() < ends_at:
            try:
                seen = await asyncio.to_thread(as_reader, cookie, look)
            except TensorantError as error:
                async with self:
                    self._show_refusal(error)
                return
            except Exception:
                failure = log_failure(_log, f"The live page of {type(self).__name__} failed")
                async with self:
                    self.error = f"This page has stopped following. It has been logged as {failure}; reload to go on."
                return
            async with self:
                goes_on = show(seen)
                if isinstance(goes_on, Awaitable):
                    goes_on = await goes_on
            if not goes_on:
                return
            await asyncio.sleep(every() if callable(every) else every)

    def _show_refusal(self, error: TensorantError) -> None:
        self.error = error.message
        self.reasons = list(error.reasons) if isinstance(error, Refused) else []
        self.fields = dict(error.fields) if isinstance(error, Invalid) else {}
        if isinstance(error, SignedOut):
            self.me = Person()

    def _here(self) -> str:
        """Path and query of the page that is open."""
        parts = urlsplit(str(self.router.url))
        return f"{parts.path}?{parts.query}" if parts.query else parts.path or "/"
