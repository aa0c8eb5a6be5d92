"""Organizations and their members; who is calling."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db import clock
from tensorant_app.db.organizations import Member, Organization, User
from tensorant_app.db.session import now_of
from tensorant_app.domain.errors import Conflict, Invalid, NotFound
from tensorant_app.domain.members import Caller, Permission, Role
from tensorant_app.services.audit import write_audit


@dataclass(frozen=True, slots=True)
class MemberView:
    name: str
    email: str
    role: Role


def list_members(session: Session, caller: Caller) -> list[MemberView]:
    """Of the caller's organization, in the order of their names."""
    caller.require(Permission.SEE)
    query = (
        select(User.name, User.email, Member.role)
        .join(Member, col(Member.user_id) == col(User.id))
        .where(Member.organization_id == caller.organization_id)
        .order_by(col(User.name), col(User.email))
    )
    return [MemberView(name, email, Role(role)) for name, email, role in session.exec(query)]


def create_organization(session: Session, caller: Caller, name: str) -> UUID:
    """The operator's act: an organization begins without members."""
    caller.require(Permission.OPERATE)
    if not name.strip():
        raise Invalid({"name": "An organization needs a name."})
    at = now_of(session)
    organization = Organization(id=clock.new_id(at), created_at=at, name=name.strip())
    session.add(organization)
    session.flush()
    write_audit(session, caller, "organizations.create", organization.id, organization_id=organization.id)
    return organization.id


def add_member(session: Session, caller: Caller, organization_id: UUID, email: str, role: Role) -> UUID:
    """The operator's act; the person is made where no one of that address signs in yet."""
    caller.require(Permission.OPERATE)
    address = email.strip().lower()
    if "@" not in address:
        raise Invalid({"email": f"{email!r} is not an e-mail address."})
    if session.get(Organization, organization_id) is None:
        raise NotFound(f"There is no organization {organization_id} here.")
    at = now_of(session)
    user = session.exec(select(User).where(User.email == address)).one_or_none()
    if user is None:
        user = User(id=clock.new_id(at), created_at=at, email=address, name=address.partition("@")[0])
        session.add(user)
        session.flush()
    known = select(Member).where(Member.organization_id == organization_id, Member.user_id == user.id)
    if session.exec(known).first() is not None:
        raise Conflict(f"{address} is a member of this organization already.")
    member = Member(id=clock.new_id(at), created_at=at, organization_id=organization_id, user_id=user.id, role=role)
    session.add(member)
    session.flush()
    write_audit(session, caller, "members.add", member.id, organization_id=organization_id, role=role.value)
    return member.id


def find_organization(session: Session, caller: Caller, name_or_id: str) -> UUID:
    """The operator's look-up; a name that two organizations share names neither."""
    caller.require(Permission.OPERATE)
    found = [o.id for o in session.exec(select(Organization)) if name_or_id in (o.name, str(o.id))]
    if len(found) != 1:
        raise NotFound(f"{len(found) or 'No'} organizations are called {name_or_id}. Name one by its id.")
    return found[0]


def has_password(session: Session, caller: Caller, email: str) -> bool:
    caller.require(Permission.OPERATE)
    user = session.exec(select(User).where(User.email == email.strip().lower())).one_or_none()
    return user is not None and user.password_hash is not None


def caller_of(session: Session, email: str) -> Caller:
    """The member who acts under this address, in the newest of their organizations."""
    found = session.exec(
        select(Member, User)
        .join(User, col(User.id) == col(Member.user_id))
        .where(User.email == email.strip().lower())
        .order_by(col(Member.created_at).desc())
    ).first()
    if found is None:
        raise NotFound(f"Nobody is a member under the address {email}.")
    member, user = found
    return Caller(member.organization_id, member.id, member.role, user.email)
