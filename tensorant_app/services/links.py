"""One-time links: the first owner's set-up, a new password, and the sign-in that `make demo` prints."""

from __future__ import annotations

import secrets
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db import clock
from tensorant_app.db.organizations import Member, User
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.db.sessions import OneTimeLink
from tensorant_app.domain.errors import Forbidden, Invalid, NotFound, Refused
from tensorant_app.domain.members import Caller, Permission, Role, operator
from tensorant_app.domain.sign_in import LINK_LASTS, LinkKind, check_password
from tensorant_app.services import organizations
from tensorant_app.services.audit import write_audit
from tensorant_app.services.passwords import hash_password
from tensorant_app.services.sessions import Visitor, digest, end_sessions, open_session
from tensorant_app.settings import get_settings

SPENT = "This link has been used or is too old. Ask for a new one: `tensorant admin sign-in-link E-MAIL` on the host."


def has_owner() -> bool:
    """Whether somebody can sign in who owns an organization."""
    with reading() as session:
        owner = (
            select(User.id)
            .join(Member, col(Member.user_id) == col(User.id))
            .where(Member.role == Role.OWNER, col(User.password_hash).is_not(None))
        )
        return session.exec(owner.limit(1)).first() is not None


def set_up_link() -> str:
    """For the first start: who opens it becomes the owner. Only the newest one works."""
    with unit_of_work() as session:
        for old in session.exec(select(OneTimeLink).where(OneTimeLink.kind == LinkKind.SET_UP)):
            session.delete(old)
        session.flush()
        return _make(session, LinkKind.SET_UP, None)


def link_for(session: Session, caller: Caller, email: str, kind: LinkKind) -> str:
    """The operator's act, on the host."""
    caller.require(Permission.OPERATE)
    user = session.exec(select(User).where(User.email == email.strip().lower())).one_or_none()
    if user is None:
        raise NotFound(f"Nobody signs in under the address {email}.")
    write_audit(session, caller, "links.make", user.id, kind=kind.value)
    return _make(session, kind, user.id)


def kind_of(token: str) -> LinkKind:
    """What a link is for, without using it."""
    with reading() as session:
        return _live(session, token).kind


def redeem(token: str, visitor: Visitor) -> str:
    """Sign in by a link; the session's token."""
    with unit_of_work() as session:
        link = _use(session, token, LinkKind.SIGN_IN)
        assert link.user_id is not None
        return open_session(session, link.user_id, visitor, how="link")


def set_password(token: str, password: str, visitor: Visitor) -> str:
    """Slow. Every session of the user ends and a new one begins; its token."""
    with reading() as session:
        link = _live(session, token)
        user = session.get(User, link.user_id) if link.user_id else None
    if user is None:
        raise Forbidden(SPENT)
    check_password(password, of=user.email)
    hashed = hash_password(password)
    with unit_of_work() as session:
        _use(session, token, LinkKind.PASSWORD)
        user = session.get_one(User, user.id)
        user.password_hash = hashed
        end_sessions(session, user.id)
        return open_session(session, user.id, visitor, how="new password")


def set_up(token: str, *, organization: str, name: str, email: str, password: str, visitor: Visitor) -> str:
    """Slow. Make the first organization and its owner, and sign them in; the session's token."""
    wrong = {}
    if not organization.strip():
        wrong["organization"] = "The organization needs a name."
    if "@" not in email.strip():
        wrong["email"] = "Write your e-mail address; you will sign in with it."
    if wrong:
        raise Invalid(wrong)
    check_password(password, of=email.strip())
    hashed = hash_password(password)
    with unit_of_work() as session:
        _use(session, token, LinkKind.SET_UP)
        user_id = _first_owner(session, organization, email)
        user = session.get_one(User, user_id)
        user.password_hash = hashed
        user.name = name.strip() or user.name
        return open_session(session, user_id, visitor, how="set-up")


def address_of(token: str) -> str:
    """Where a person opens the link."""
    return f"{get_settings().address}/api/links/{token}"


def require_safe_address() -> None:
    """Refuse to listen in public while anybody could come first, or without the exact origin."""
    settings = get_settings()
    if not settings.is_public:
        return
    reasons = []
    if settings.origin is None:
        reasons.append(
            "Set TENSORANT_ORIGIN to what the browser's address bar will show, such as https://tensorant.example.org."
        )
    if not has_owner():
        reasons.append("Nobody owns it yet: start it without --host once, open the set-up link, and choose a password.")
    if reasons:
        raise Refused(f"Tensorant does not listen on {settings.host} yet:", reasons)


def _first_owner(session: Session, organization: str, email: str) -> UUID:
    organization_id = organizations.create_organization(session, operator(), organization)
    member_id = organizations.add_member(session, operator(), organization_id, email, Role.OWNER)
    return session.get_one(Member, member_id).user_id


def _make(session: Session, kind: LinkKind, user_id: UUID | None) -> str:
    at, token = now_of(session), secrets.token_urlsafe(32)
    row = OneTimeLink(
        id=clock.new_id(at),
        created_at=at,
        kind=kind,
        token_sha256=digest(token),
        user_id=user_id,
        expires_at=at + LINK_LASTS[kind],
    )
    session.add(row)
    return token


def _live(session: Session, token: str, *, lock: bool = False) -> OneTimeLink:
    query = select(OneTimeLink).where(OneTimeLink.token_sha256 == digest(token))
    row = session.exec(query.with_for_update() if lock else query).one_or_none()
    if row is None or row.used_at is not None or now_of(session) >= row.expires_at:
        raise Forbidden(SPENT)
    return row


def _use(session: Session, token: str, kind: LinkKind) -> OneTimeLink:
    row = _live(session, token, lock=True)
    if row.kind is not kind:
        raise Forbidden(SPENT)
    row.used_at = now_of(session)
    session.add(row)
    return row
