"""Page states without a browser, on a database of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tensorant_app.domain.members import Role
from tensorant_app.state import AppState
from tests.people import Person, make_person
from tests.states import call, make_state


@pytest.fixture(autouse=True)
def _database(sqlite_database: str) -> None:
    """Every test here has one."""


@pytest.fixture
def owner(_database: None) -> Person:
    return make_person(Role.OWNER)


@pytest.fixture
def viewer(owner: Person) -> Person:
    return make_person(Role.VIEWER, organization_id=owner.organization_id)


@pytest.fixture
def stranger(_database: None) -> Person:
    """The owner of another organization."""
    return make_person(Role.OWNER)


def visit(kind: type[AppState], person: Person, path: str, *handlers: str, **variables: Any) -> Any:
    """The state after these handlers of a page that is open at `path`."""
    state = make_state(kind, person.cookies, path)
    for name, value in variables.items():
        setattr(state, name, value)
    for handler in handlers:
        asyncio.run(call(state, handler))
    return state
