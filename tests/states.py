"""Page states without a browser; the private parts of Reflex that this takes are named here and nowhere else."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import reflex as rx
from reflex.istate.data import HeaderData, ReflexURL, URLData

from tensorant_app.state import AppState

T = TypeVar("T")


def make_state(kind: type[AppState], cookies: str = "", path: str = "/") -> Any:
    """A tab of the person whose browser sends these cookies, open at this address."""
    root = rx.State(_reflex_internal_init=True)
    root.rx_router_headers = HeaderData(cookie=cookies)
    root.rx_router_url = URLData.from_url(ReflexURL(f"http://localhost{path}"))
    return root.get_substate(kind.get_full_name().split(".")[1:])


def run(work: Coroutine[Any, Any, T]) -> T:
    """To its end, in a thread of its own: a browser of other tests may hold this one's event loop."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()


def sign_in_again(state: Any, cookies: str) -> None:
    """The same tab, whose browser sends other cookies from now on."""
    while state.parent_state is not None:
        state = state.parent_state
    state.rx_router_headers = HeaderData(cookie=cookies)


def move_to(state: Any, path: str) -> None:
    """The same tab, open at another address."""
    while state.parent_state is not None:
        state = state.parent_state
    state.rx_router_url = URLData.from_url(ReflexURL(f"http://localhost{path}"))


async def call(state: Any, handler: str, *arguments: Any) -> None:
    """Run an event handler to its end, whatever it answers."""
    kinds = (kind for kind in type(state).__mro__ if issubclass(kind, AppState) and handler in kind.event_handlers)
    answer = next(kinds).event_handlers[handler].fn(state, *arguments)
    if inspect.isasyncgen(answer):
        async for _ in answer:
            pass
    else:
        await answer


def all_states(kind: type[AppState] = AppState) -> Iterator[type[AppState]]:
    yield kind
    for child in kind.__subclasses__():
        yield from all_states(child)


def own_handlers(kind: type[AppState]) -> dict[str, Any]:
    """Those that are written in this class: not the inherited ones, and not Reflex's own `setvar`."""
    return {name: handler for name, handler in kind.event_handlers.items() if name in vars(kind) and name != "setvar"}


def variables(state: Any) -> dict[str, Any]:
    """Every variable of the state and its parents but the browser's own, by name."""
    found = {}
    for kind in type(state).__mro__:
        if issubclass(kind, AppState):
            found |= {name: getattr(state, name) for name in kind.base_vars if not name.startswith("rx_router")}
    return {name: repr(value) for name, value in found.items()}
