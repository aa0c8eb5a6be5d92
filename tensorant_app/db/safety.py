"""Table: what an organization adds to the built-in safety check."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlmodel import Field, SQLModel

from tensorant_app.db.types import JsonType, word_type
from tensorant_app.domain.safety_settings import DEFAULT_SECONDS, ClassifierKind


class SafetyChoice(SQLModel, table=True):
    """One row for each organization that chose anything."""

    __tablename__ = "safety_choice"

    organization_id: UUID = Field(primary_key=True, foreign_key="organization.id")
    changed_at: datetime
    words: list[Any] = Field(sa_type=JsonType)
    kind: ClassifierKind = Field(default=ClassifierKind.NONE, sa_type=word_type(ClassifierKind))
    command: list[Any] = Field(sa_type=JsonType)
    url: str = ""
    seconds: int = DEFAULT_SECONDS
    is_private_allowed: bool = False
    header: str = ""
    """Name of the header that bears the token; empty: `Authorization: Bearer`."""
    sealed: str = ""
    """The classifier's token, bound to this row: `services.sealing`. Never leaves the services."""
    last_four: str = ""
