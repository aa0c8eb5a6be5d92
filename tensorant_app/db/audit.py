"""Table: who did what to what, when. Rows are only ever added."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlmodel import Field, SQLModel

from tensorant_app.db.types import JsonType


class AuditEntry(SQLModel, table=True):
    __tablename__ = "audit_entry"

    id: UUID = Field(primary_key=True)
    at: datetime = Field(index=True)
    organization_id: UUID | None = Field(default=None, foreign_key="organization.id", index=True)
    member_id: UUID | None = Field(default=None, foreign_key="member.id")
    who: str
    """E-mail address at that time, or `operator`."""
    action: str
    """Dotted: `runs.launch`."""
    subject_id: UUID | None = None
    facts: dict[str, Any] = Field(sa_type=JsonType)
    previous_sha256: str | None = None
    sha256: str | None = None
    """Room for a chain of hashes."""
