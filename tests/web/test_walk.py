"""Every event handler and every route, as nobody, as each role and from another organization.

After a refused call no row of any table and no variable but those of the refusal has changed; each handler and route
succeeds once as the lowest role that may. A new page fails here until it has its line in `tests/web/world.py`.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

import pytest
import reflex as rx
from httpx import Response
from starlette.testclient import TestClient

import tensorant_app.pages
from tensorant_app.api import downloads, sign_in, uploads
from tensorant_app.state import AppState
from tests.conftest import Clock
from tests.kept import Kept, rows
from tests.people import Person
from tests.states import all_states, call, make_state, own_handlers, run, variables
from tests.web.world import DOORS, HANDLERS, ROLES, ROUTES, Case, World, ids_of, make_world

for _page in pkgutil.iter_modules(tensorant_app.pages.__path__, "tensorant_app.pages."):
    importlib.import_module(_page.name)

STATES = {state.__name__: state for state in all_states()}
REFUSAL = {"error", "reasons", "fields", "me"}
_PATIENCE = 60


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept[World]:
    return Kept(tmp_path_factory.mktemp("world") / "data")


@pytest.fixture
def world(sqlite_database: str, clock: Clock, data_dir: Path, kept: Kept[World]) -> World:
    """The same for all, and each test's own to change."""
    return kept.put_into(data_dir, make_world)


@pytest.fixture(autouse=True)
def one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A live page's loop ends once it has shown what it saw."""
    watch = AppState._watch

    async def look_once(self: Any, look: Any, show: Any, **_: Any) -> None:
        async def show_last(seen: Any) -> bool:
            shown = show(seen)
            if inspect.isawaitable(shown):
                await shown
            return False

        await watch(self, look, show_last)

    monkeypatch.setattr(AppState, "_watch", look_once)


def test_every_handler_has_its_line() -> None:
    found = {f"{name}.{handler}" for name, state in STATES.items() for handler in own_handlers(state)}

    assert found == set(HANDLERS), "Say in tests/web/world.py who may call it and with what."


def test_every_handler_is_a_coroutine_that_goes_through_a_use_case() -> None:
    for state in STATES.values():
        for name, handler in own_handlers(state).items():
            is_async = inspect.iscoroutinefunction(handler.fn) or inspect.isasyncgenfunction(handler.fn)
            assert is_async, f"{state.__name__}.{name} must be async def: it runs on the event loop."


def test_every_state_of_ours_stands_on_appstate() -> None:
    """One that does not would be open to everybody who is signed in."""
    ours = [state for state in rx.State.__subclasses__() if state.__module__.startswith("tensorant_app")]

    assert ours == [AppState]


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_reflexs_own_setter_sets_nothing(data_dir: Path, state: type[AppState]) -> None:
    tab = make_state(state)
    for name in tab.base_vars:
        with pytest.raises(AttributeError):
            run(call(tab, "setvar", name, "x"))


def test_every_route_has_its_line() -> None:
    routes = [*sign_in.ROUTES, *uploads.ROUTES, *downloads.ROUTES]
    found = {f"{method} {route.path}" for route in routes for method in (route.methods or set()) - {"HEAD"}}

    assert found == set(ROUTES) | DOORS


@pytest.mark.parametrize("name", HANDLERS)
def test_a_handler_refuses_nobody_changed(world: World, name: str) -> None:
    """Nobody, and each role below the lowest."""
    case = HANDLERS[name]
    for person in [None, *(world.people[role] for role in ROLES[: ROLES.index(case.lowest)])]:
        before, after, stored = perform(world, name, case, person)

        changed = {key for key in after if after[key] != before[key]}
        assert after["error"] != "''", f"{name} did not refuse {person and person.email}"
        assert changed <= REFUSAL
        assert rows() == stored


@pytest.mark.parametrize("name", HANDLERS)
def test_a_handler_shows_and_changes_nothing_of_another_organization(world: World, name: str) -> None:
    case = HANDLERS[name]
    before, after, stored = perform(world, name, case, world.stranger)

    # A refusal may name what was asked for; nothing else may.
    shown = [after[key] for key in after if after[key] != before[key] and key not in REFUSAL]
    assert not [ours for ours in ids_of(world) if any(ours in text for text in shown)]
    if case.names_ours:
        assert after["error"] != "''"
        assert {key for key in after if after[key] != before[key]} <= REFUSAL
        assert rows() == stored


@pytest.mark.parametrize("name", HANDLERS)
def test_a_handler_works_for_the_lowest_role_that_may(world: World, name: str) -> None:
    case = HANDLERS[name]
    _, after, _ = perform(world, name, case, world.people[case.lowest])

    assert after["error"] == "''"


@pytest.mark.parametrize("name", ROUTES)
def test_a_route_refuses_all_who_may_not_and_then_works(client: TestClient, world: World, name: str) -> None:
    case, stored = ROUTES[name], rows()

    assert ask(client, world, name, None).status_code == 401
    for role in ROLES[: ROLES.index(case.lowest)]:
        assert ask(client, world, name, world.people[role]).status_code == 403
    if case.names_ours:
        assert ask(client, world, name, world.stranger).status_code == 404
    assert rows() == stored
    assert ask(client, world, name, world.people[case.lowest]).is_success


def perform(
    world: World, name: str, case: Case, person: Person | None
) -> tuple[dict[str, str], dict[str, str], dict[str, list[str]]]:
    """The variables before and after the call, and every row before it."""
    kind, _, handler = name.partition(".")
    state = make_state(STATES[kind], person.cookies if person else "", case.path(world))
    for key, value in case.variables(world).items():
        setattr(state, key, value)
    arguments = case.arguments(world, person or world.people[ROLES[-1]])
    before, stored = variables(state), rows()
    run(asyncio.wait_for(call(state, handler, *arguments), _PATIENCE))
    return before, variables(state), stored


def ask(client: TestClient, world: World, name: str, person: Person | None) -> Response:
    method, _, path = name.partition(" ")
    thing = {"/api/uploads": world.upload_id, "/api/runs/": world.run_id, "/api/imports": world.import_id}
    thing |= {"/api/evaluations/": world.baseline_id, "/api/versions/": world.version_id}
    path = path.replace("{name}", f"{'0' * 64}.png").replace(
        "{id}", str(next((i for start, i in thing.items() if path.startswith(start)), ""))
    )
    headers = {"cookie": person.cookies} if person else {}
    match method:
        case "POST":
            asked = {"dataset": str(world.dataset_id), "name": "a", "size": 4}
            return client.post(path, json=asked, headers=headers)
        case "PATCH":
            return client.patch(f"{path}?offset=0", content=b"1234", headers=headers)
        case _:
            return client.request(method, path, headers=headers)
