"""Tables: a machine and its events."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import UniqueConstraint
from sqlmodel import Field, SQLModel

from tensorant_app.db.steps import StepEvent
from tensorant_app.db.types import HourlyRateType, JsonType, word_type
from tensorant_app.domain.machines import MachineState, Presence, Use
from tensorant_app.domain.money import HourlyRate


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
    connection_id: UUID | None = Field(default=None, index=True)
    """The account that it is rented from; None on this computer. No foreign key: a machine outlives its connection."""
    gpu_type: str
    gpu_count: int = 1
    data_center: str | None = None
    options: dict[str, Any] = Field(default_factory=dict, sa_type=JsonType)
    """What else the create call says: image, volume, disk, storage."""
    rate: HourlyRate | None = Field(default=None, sa_type=HourlyRateType)
    """Of the whole machine, as the provider says or, before it says so, as it was offered; None on this computer."""
    prices: list[list[Any]] = Field(default_factory=list, sa_type=JsonType, sa_column_kwargs={"server_default": "[]"})
    """Since when all of its name together cost how many micro-dollars an hour; empty while it is `rate` from the ask on."""
    rate_limit: HourlyRate | None = Field(default=None, sa_type=HourlyRateType)
    state: MachineState = Field(sa_type=word_type(MachineState), index=True)
    reason: str | None = None
    sentence: str | None = None
    command: list[str] = Field(sa_type=JsonType)
    inputs_key: str
    outputs_key: str
    ask_sent_at: datetime | None = None
    """Committed before the create call: from here on the machine may exist."""
    answer_lost_at: datetime | None = None
    held_at: datetime | None = None
    """Known to exist from here on."""
    started_at: datetime | None = None
    """The trainer was first heard."""
    provider_id: str | None = None
    provider_ids: list[str] = Field(default_factory=list, sa_type=JsonType)
    """Every machine of its name that the account lists; one in ordinary times."""
    billed_ids: list[str] = Field(default_factory=list, sa_type=JsonType)
    """Every machine that ever bore its name: each of them is billed."""
    provider_status: str = ""
    presence: Presence | None = Field(default=None, sa_type=word_type(Presence))
    """What the last look at the account meant for it; None before the first."""
    seen_at: datetime | None = None
    """The last look that told something new."""
    container_began_at: datetime | None = None
    """By the provider's uptime."""
    container_uptime: float | None = None
    """The uptime that said so: the same number told again is no new start."""
    boots: int = 1
    """How often its container began."""
    read_at: datetime | None = None
    """Heartbeat and result were last read from the volume."""
    watched_until: datetime | None = None
    """Somebody looks at its page until then."""
    stop_wanted_at: datetime | None = None
    stopped_at: datetime | None = None
    """From here on only its disk is billed."""
    release_wanted_at: datetime | None = None
    release_sent_at: datetime | None = None
    release_tries: int = 0
    release_problem: str | None = None
    """What the last delete call met with; None where it was taken."""
    retry_at: datetime | None = None
    """The provider asked to be left alone until then, by its answer to a create or delete call."""
    known_at: datetime | None = None
    """The account's list showed it for the first time, or a delete call found it."""
    absent_since: datetime | None = None
    absent_looks: int = 0
    gone_since: datetime | None = None
    """It was there until then, by the looks in a row that did not find it, or found it terminated."""
    deadline: datetime
    """By then its work must have ended; ten minutes later it is released whatever it says."""
    words_seq: int = 0
    """The highest `seq` of its `console.json`."""
    words_sent: int = 0
    """The `seq` that lies on the volume."""
    words_ask: str = "none"
    status: dict[str, Any] | None = Field(default=None, sa_type=JsonType)
    """The trainer's last heartbeat."""
    result: dict[str, Any] | None = Field(default=None, sa_type=JsonType)
    """The trainer's result, once."""
    released_at: datetime | None = None


class MachineEvent(StepEvent, table=True):
    __tablename__ = "machine_event"

    subject_id: UUID = Field(foreign_key="machine.id", index=True)
