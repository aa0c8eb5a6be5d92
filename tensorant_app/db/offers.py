"""Tables: what an account's machines cost and which are free, as last seen; and the types that the operator switched off."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlmodel import Field, SQLModel

from tensorant_app.db.types import JsonType


class OfferList(SQLModel, table=True):
    """The catalog of one account for one number of GPUs in a machine: stock differs with it."""

    __tablename__ = "offer_list"

    connection_id: UUID = Field(foreign_key="connection.id", primary_key=True)
    gpu_count: int = Field(primary_key=True)
    offers: list[dict[str, Any]] = Field(default_factory=list, sa_type=JsonType)
    seen_at: datetime | None = None
    """When the provider answered; None: not yet."""
    trouble: str = ""
    """Why the last try after that brought nothing."""
    looked_at: datetime
    """When somebody last had it before their eyes."""
    wanted_at: datetime | None = None
    """Somebody asked for it anew, and the provider has not answered since."""


class SwitchedOffGpu(SQLModel, table=True):
    """A machine type that nobody of this installation may rent."""

    __tablename__ = "switched_off_gpu"

    gpu_type: str = Field(primary_key=True)
    sentence: str
    """Why: a plan, a beta, a policy."""
    contact: str
    """Whom to ask; may be empty."""
    switched_at: datetime
