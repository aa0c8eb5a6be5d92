"""Who is signed in where: sign-in, sign-out, and one use case on behalf of whoever the cookie names."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from http.cookies import CookieError, SimpleCookie
from typing import TypeVar
from uuid import UUID

from sqlmodel import Session, col, delete, select

from tensorant_app.db import clock
from tensorant_app.db.organizations import Member, Organization, User
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.db.sessions import SignIn
from tensorant_app.domain.errors import Forbidden, Invalid, NotFound, SignedOut
from tensorant_app.domain.members import ALLOWED, Caller, Permission, Role
from tensorant_app.domain.sign_in import SEEN_EVERY, SESSION_ENDS_AFTER, SESSION_IDLES_AFTER, check_password
from tensorant_app.services.audit import write_audit
from tensorant_app.services.passwords import hash_password, is_right
from tensorant_app.services.throttle import count_try, forget_tries
from tensorant_app.settings import get_settings

T = TypeVar("T")
Work = Callable[[Session, Caller], T]

ENDED = "Your session has ended. Sign in again; nothing you typed is lost if you do it in another tab."
WRONG = "E-mail address and password do not go together."


@dataclass(frozen=True, slots=True)
class Visitor:
    """From where somebody signs in."""

    address: str
    user_agent: str


@dataclass(frozen=True, slots=True)
class Me:
    """The caller as pages show them, with what their role allows."""

    name: str
    email: str
    organization: str
    role: Role
    may: frozenset[Permission]


@dataclass(frozen=True, slots=True)
class SessionView:
    id: UUID
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime
    address: str
    user_agent: str
    is_this: bool


def cookie_name() -> str:
    """Installations on one host share its cookies, so on plain http each has a name of its own."""
    settings = get_settings()
    if settings.address.startswith("https://"):
        return "__Host-tensorant"
    return f"tensorant-{settings.installation_id[:8]}"


def token_in(cookies: str, name: str | None = None) -> str:
    """The session's token in a Cookie header; empty where there is none."""
    try:
        morsel = SimpleCookie(cookies).get(name or cookie_name())
    except CookieError:
        return ""
    return morsel.value if morsel else ""


def as_caller(cookies: str, work: Work[T]) -> T:
    """One use case in one transaction, for whom the Cookie header names. Raises `SignedOut`."""
    with unit_of_work() as session:
        row, caller = _caller(session, cookies)
        _touch(session, row)
        return work(session, caller)


def as_reader(cookies: str, work: Work[T]) -> T:
    """The same for what only looks: it never waits for a writer."""
    with reading() as session:
        row, caller = _caller(session, cookies)
        is_stale = now_of(session) - row.last_seen_at > SEEN_EVERY
        found = work(session, caller)
    if is_stale:
        with unit_of_work() as session:
            _touch(session, _live_row(session, cookies))
    return found


def sign_in(email: str, password: str, visitor: Visitor) -> str:
    """The new session's token. Slow, so call it in a thread; `Forbidden` where the two do not go together."""
    address = email.strip().lower()
    with unit_of_work() as session:
        count_try(session, address, visitor.address)
        user = session.exec(select(User).where(User.email == address)).one_or_none()
        stored = user.password_hash if user else None
    right = is_right(stored, password)
    with unit_of_work() as session:
        user = session.exec(select(User).where(User.email == address)).one_or_none()
        if not right or user is None or user.password_hash != stored:
            _audit(session, user, "sessions.refuse", visitor)
        else:
            forget_tries(session, address, visitor.address)
            return open_session(session, user.id, visitor, how="password")
    raise Forbidden(WRONG)


def open_session(session: Session, user_id: UUID, visitor: Visitor, *, how: str) -> str:
    """Sign the user in; only a hash of the token stays here."""
    member = session.exec(
        select(Member).where(Member.user_id == user_id).order_by(col(Member.created_at).desc())
    ).first()
    if member is None:
        raise Forbidden("You are no longer a member of any organization. Ask an owner to add you.")
    at, token = now_of(session), secrets.token_urlsafe(32)
    row = SignIn(
        id=clock.new_id(at),
        created_at=at,
        user_id=user_id,
        organization_id=member.organization_id,
        token_sha256=digest(token),
        last_seen_at=at,
        expires_at=at + SESSION_ENDS_AFTER,
        address=visitor.address[:64],
        user_agent=visitor.user_agent[:200],
    )
    session.add(row)
    session.exec(delete(SignIn).where(col(SignIn.expires_at) < at))
    _audit(session, session.get_one(User, user_id), "sessions.open", visitor, how=how, session_id=row.id)
    return token


def sign_out(cookies: str) -> None:
    """End this browser's session; one that is over already is no error."""
    with unit_of_work() as session:
        try:
            row, caller = _caller(session, cookies)
        except SignedOut:
            return
        session.delete(row)
        write_audit(session, caller, "sessions.close", row.id)


def sign_out_everywhere(cookies: str) -> None:
    """End every session of this user, this one too."""
    with unit_of_work() as session:
        row, caller = _caller(session, cookies)
        end_sessions(session, row.user_id)
        write_audit(session, caller, "sessions.close_all", row.user_id)


def end_sessions(session: Session, user_id: UUID) -> None:
    session.exec(delete(SignIn).where(col(SignIn.user_id) == user_id))


def end_session(session: Session, caller: Caller, session_id: UUID) -> None:
    """End one of the caller's own sessions."""
    user_id = _user_id(session, caller)
    row = session.get(SignIn, session_id)
    if row is None or row.user_id != user_id:
        raise NotFound("This session has ended already.")
    session.delete(row)
    write_audit(session, caller, "sessions.close", row.id)


def list_sessions(session: Session, caller: Caller, cookies: str = "") -> list[SessionView]:
    """Where the caller is signed in, newest use first; `cookies` says which one is this."""
    now, this = now_of(session), digest(token_in(cookies))
    alive = select(SignIn).where(
        SignIn.user_id == _user_id(session, caller),
        col(SignIn.expires_at) > now,
        col(SignIn.last_seen_at) > now - SESSION_IDLES_AFTER,
    )
    return [
        SessionView(s.id, s.created_at, s.last_seen_at, s.expires_at, s.address, s.user_agent, s.token_sha256 == this)
        for s in session.exec(alive.order_by(col(SignIn.last_seen_at).desc()))
    ]


def change_password(cookies: str, old: str, new: str, visitor: Visitor) -> None:
    """Slow. Every other session of the user ends."""
    with unit_of_work() as session:
        row, caller = _caller(session, cookies)
        count_try(session, caller.name, visitor.address)
        stored = session.get_one(User, row.user_id).password_hash
    if not is_right(stored, old):
        raise Invalid({"old": "This is not your password now."})
    check_password(new, of=caller.name)
    hashed = hash_password(new)
    with unit_of_work() as session:
        row, caller = _caller(session, cookies)
        forget_tries(session, caller.name, visitor.address)
        session.get_one(User, row.user_id).password_hash = hashed
        session.exec(delete(SignIn).where(col(SignIn.user_id) == row.user_id, col(SignIn.id) != row.id))
        write_audit(session, caller, "users.change_password", row.user_id)


def who_am_i(session: Session, caller: Caller) -> Me:
    caller.require(Permission.SEE)
    if caller.organization_id is None or caller.role is None:
        raise NotFound("The operator is no member of an organization.")
    user = session.exec(select(User).where(User.email == caller.name)).one()
    organization = session.get_one(Organization, caller.organization_id)
    may = frozenset(permission for permission, roles in ALLOWED.items() if caller.role in roles)
    return Me(user.name, user.email, organization.name, caller.role, may)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _user_id(session: Session, caller: Caller) -> UUID:
    caller.require(Permission.SEE)
    if caller.member_id is None:
        raise NotFound("The operator has no sessions of its own.")
    return session.get_one(Member, caller.member_id).user_id


def _live_row(session: Session, cookies: str) -> SignIn:
    token = token_in(cookies)
    row = session.exec(select(SignIn).where(SignIn.token_sha256 == digest(token))).one_or_none() if token else None
    now = now_of(session)
    if row is None or now >= row.expires_at or now - row.last_seen_at > SESSION_IDLES_AFTER:
        raise SignedOut(ENDED)
    return row


def _caller(session: Session, cookies: str) -> tuple[SignIn, Caller]:
    """Role and membership as they are now: a change counts at once."""
    row = _live_row(session, cookies)
    found = session.exec(
        select(Member, User)
        .join(User, col(User.id) == col(Member.user_id))
        .where(Member.user_id == row.user_id, Member.organization_id == row.organization_id)
    ).one_or_none()
    if found is None:
        raise SignedOut("You are no longer a member of this organization. Sign in again.")
    member, user = found
    return row, Caller(member.organization_id, member.id, member.role, user.email)


def _touch(session: Session, row: SignIn) -> None:
    if now_of(session) - row.last_seen_at > SEEN_EVERY:
        row.last_seen_at = now_of(session)
        session.add(row)


def _audit(session: Session, user: User | None, action: str, visitor: Visitor, **facts: str | UUID) -> None:
    """Sign-ins happen before there is a caller; a guessed address is not worth a row of its own name."""
    member = None
    if user is not None:
        member = session.exec(
            select(Member).where(Member.user_id == user.id).order_by(col(Member.created_at).desc())
        ).first()
    caller = Caller(
        member.organization_id if member else None,
        member.id if member else None,
        member.role if member else None,
        user.email if user else "somebody",
    )
    how, ended = facts.get("how"), facts.get("session_id")
    write_audit(
        session,
        caller,
        action,
        user.id if user else None,
        address=visitor.address,
        how=str(how) if how else None,
        session_id=str(ended) if ended else None,
    )
