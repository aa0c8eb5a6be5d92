"""Tables: a machine and its events."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import UniqueConstraint
from sqlmodel import Field, SQLModel

from tensorant_app.db.steps import StepEvent
from tensorant_app.db.types import JsonType, word_type
from tensorant_app.domain.machines import MachineState, Use


class Machine(SQLModel, table=True):
    __table_args__ = (UniqueConstraint("use", "subject_id", "attempt"),)

    id: UUID = Field(primary_key=True)
    created_at: datetime
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    use: Use = Field(sa_type=word_type(Use))
    subject_id: UUID = Field(index=True)
    attempt: int
    name: str = Field(unique=True)
    provider: str
    gpu_type: str
    state: MachineState = Field(sa_type=word_type(MachineState), index=True)
    reason: str | None = None
    sentence: str | None = None
    command: list[str] = Field(sa_type=JsonType)
    inputs_key: str
    outputs_key: str
    ask_sent_at: datetime | None = None
    """Committed before the create call: from here on the machine may exist."""
    provider_id: str | None = None
    provider_status: str = ""
    release_wanted_at: datetime | None = None
    release_sent_at: datetime | None = None
    release_tries: int = 0
    absent_since: datetime | None = None
    absent_looks: int = 0
    deadline: datetime
    """By then its work must have ended; ten minutes later it is released whatever it says."""
    words_seq: int = 0
    """The highest `seq` of its `console.json`."""
    status: dict[str, Any] | None = Field(default=None, sa_type=JsonType)
    """The trainer's last heartbeat."""
    result: dict[str, Any] | None = Field(default=None, sa_type=JsonType)
    """The trainer's result, once."""
    released_at: datetime | None = None


class MachineEvent(StepEvent, table=True):
    __tablename__ = "machine_event"

    subject_id: UUID = Field(foreign_key="machine.id", index=True)
