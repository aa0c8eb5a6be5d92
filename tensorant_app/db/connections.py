"""Tables: this installation's own name, and the sealed credentials of an organization's outside accounts."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import UniqueConstraint
from sqlmodel import Field, SQLModel

from tensorant_app.db.types import JsonType, word_type
from tensorant_app.domain.connections import ConnectionKind, ConnectionState


class Installation(SQLModel, table=True):
    """One row, made with the table: whose machines are ours. It goes wherever the database goes."""

    id: UUID = Field(primary_key=True)


class Connection(SQLModel, table=True):
    __table_args__ = (UniqueConstraint("organization_id", "kind"),)

    id: UUID = Field(primary_key=True)
    created_at: datetime
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    kind: ConnectionKind = Field(sa_type=word_type(ConnectionKind))
    sealed: str
    """The secrets, bound to this row: `services.sealing`. Never leaves the services."""
    last_four: str
    shown: dict[str, Any] = Field(sa_type=JsonType)
    """What is no secret: data center, volume id."""
    changed_at: datetime
    revision: int = 1
    """Counts replacements: a check of an older one says nothing about this one."""
    state: ConnectionState = Field(default=ConnectionState.UNCHECKED, sa_type=word_type(ConnectionState))
    sentence: str = ""
    """What the last check found."""
    checked_at: datetime | None = None
    facts: dict[str, Any] = Field(default_factory=dict, sa_type=JsonType)
    """What the last good check saw: the network volume's size and type."""
