"""People who are signed in: a member, their password, and the Cookie header of their browser."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from sqlmodel import select

from tensorant_app.db.organizations import User
from tensorant_app.db.session import unit_of_work
from tensorant_app.domain.members import Caller, Role
from tensorant_app.services import sessions
from tensorant_app.services.passwords import hash_password
from tensorant_app.services.sessions import Visitor
from tests.factories import make_caller

PASSWORD = "correct horse battery"
HERE = Visitor("192.0.2.7", "Mozilla/5.0 (X11; Linux) Chrome/156")


@dataclass(frozen=True, slots=True)
class Person:
    caller: Caller
    cookies: str

    @property
    def email(self) -> str:
        return self.caller.name

    @property
    def organization_id(self) -> UUID:
        assert self.caller.organization_id is not None
        return self.caller.organization_id


def make_person(role: Role = Role.OWNER, *, organization_id: UUID | None = None) -> Person:
    """A member with `PASSWORD`, signed in."""
    caller = make_caller(role, organization_id=organization_id)
    with unit_of_work() as session:
        user = session.exec(select(User).where(User.email == caller.name)).one()
        user.password_hash = _hashed()
    return Person(caller, sign_in(caller.name))


def sign_in(email: str) -> str:
    """One more browser; its Cookie header."""
    with unit_of_work() as session:
        user = session.exec(select(User).where(User.email == email)).one()
        return cookies_with(sessions.open_session(session, user.id, HERE, how="test"))


def cookies_with(token: str) -> str:
    return f"{sessions.cookie_name()}={token}"


@lru_cache(maxsize=1)
def _hashed() -> str:
    return hash_password(PASSWORD)
