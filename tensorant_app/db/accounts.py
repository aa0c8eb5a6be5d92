"""Tables: how the looks at an account go, and machines of ours there that no row knows."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import UniqueConstraint
from sqlmodel import Field, SQLModel

from tensorant_app.db.types import HourlyRateType
from tensorant_app.domain.money import HourlyRate


class Account(SQLModel, table=True):
    """One row for each compute connection, with its id; and one for this computer."""

    id: UUID = Field(primary_key=True)
    organization_id: UUID | None = Field(default=None, foreign_key="organization.id", index=True)
    """None for this computer, which everybody shares."""
    looked_at: datetime | None = None
    """The last listing that was whole."""
    swept_at: datetime | None = None
    problem: str | None = None
    """Why it cannot be looked at now, as a sentence."""
    problem_since: datetime | None = None
    is_refused: bool = False
    """The key itself was refused: only an owner can mend that."""
    quiet_until: datetime | None = None
    """The provider asked to be left alone until then."""


class StrayMachine(SQLModel, table=True):
    """A machine that bears this installation's name and that no row knows: shown, never deleted by itself."""

    __tablename__ = "stray_machine"
    __table_args__ = (UniqueConstraint("account_id", "provider_id"),)

    id: UUID = Field(primary_key=True)
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    account_id: UUID
    name: str
    provider_id: str
    provider_status: str
    rate: HourlyRate | None = Field(default=None, sa_type=HourlyRateType)
    created_at: datetime | None = None
    """By the provider's word."""
    first_seen_at: datetime
    seen_at: datetime
    terminate_wanted_at: datetime | None = None
    terminate_problem: str | None = None
    absent_since: datetime | None = None
    absent_looks: int = 0
    gone_at: datetime | None = None
