"""Tables: who is signed in where, one-time links, and wrong passwords. Tokens stand here only as their SHA-256."""

from datetime import datetime
from uuid import UUID

from sqlmodel import Field, SQLModel

from tensorant_app.db.types import word_type
from tensorant_app.domain.sign_in import LinkKind


class SignIn(SQLModel, table=True):
    """One browser that is signed in; ended by deleting the row."""

    __tablename__ = "session"

    id: UUID = Field(primary_key=True)
    created_at: datetime
    user_id: UUID = Field(foreign_key="user.id", index=True)
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    """Which of the user's organizations this browser looks at."""
    token_sha256: str = Field(unique=True)
    last_seen_at: datetime
    """To a few minutes."""
    expires_at: datetime
    address: str
    user_agent: str


class OneTimeLink(SQLModel, table=True):
    """Opens one door once."""

    __tablename__ = "one_time_link"

    id: UUID = Field(primary_key=True)
    created_at: datetime
    kind: LinkKind = Field(sa_type=word_type(LinkKind))
    token_sha256: str = Field(unique=True)
    user_id: UUID | None = Field(default=None, foreign_key="user.id", index=True)
    """None for the set-up: there is nobody yet."""
    expires_at: datetime
    used_at: datetime | None = None


class SignInThrottle(SQLModel, table=True):
    """Wrong passwords in a row, by account and by network address."""

    __tablename__ = "sign_in_throttle"

    key: str = Field(primary_key=True)
    """`account:<sha256 of the e-mail address>` or `address:<network address>`."""
    wrong: int
    last_at: datetime = Field(index=True)
    blocked_until: datetime
