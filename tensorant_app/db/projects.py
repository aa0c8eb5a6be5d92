"""Table: a project, which is one base model and what is tuned from it."""

from datetime import datetime
from uuid import UUID

from sqlmodel import Field, SQLModel

from tensorant_app.db.types import JsonType, MoneyType
from tensorant_app.domain.money import Money


class Project(SQLModel, table=True):
    id: UUID = Field(primary_key=True)
    created_at: datetime
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    name: str
    base_repo_id: str
    base_revision: str
    """40 hexadecimal digits."""
    base_parameters: int
    sample_prompts: list[str] = Field(default_factory=list, sa_type=JsonType)
    """At most 8; each run answers them at its checkpoints."""
    monthly_budget: Money | None = Field(default=None, sa_type=MoneyType)
    """What its machines may cost in a calendar month (UTC); None: no limit."""
