"""Tables: the organization, the people who sign in, and who belongs where."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import UniqueConstraint
from sqlmodel import Field, SQLModel

from tensorant_app.db.types import word_type
from tensorant_app.domain.members import Role


class Organization(SQLModel, table=True):
    id: UUID = Field(primary_key=True)
    created_at: datetime
    name: str
    run_slots: int = 2


class User(SQLModel, table=True):
    """A sign-in; what it may do stands in its memberships."""

    id: UUID = Field(primary_key=True)
    created_at: datetime
    email: str = Field(unique=True)
    """Lower case."""
    name: str
    password_hash: str | None = None
    """Argon2id. None until a one-time link sets a password."""


class Member(SQLModel, table=True):
    __table_args__ = (UniqueConstraint("organization_id", "user_id"),)

    id: UUID = Field(primary_key=True)
    created_at: datetime
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    user_id: UUID = Field(foreign_key="user.id", index=True)
    role: Role = Field(sa_type=word_type(Role))
