"""Tables: what the provider billed for each machine, hour by hour, and how the asking goes."""

from datetime import datetime
from uuid import UUID

from sqlmodel import Field, SQLModel

from tensorant_app.db.types import MoneyType
from tensorant_app.domain.money import ZERO, Money


class SpendEntry(SQLModel, table=True):
    """A line of the ledger: only ever added. A bill that changes adds the difference to the hour it belongs to."""

    __tablename__ = "spend_entry"

    id: UUID = Field(primary_key=True)
    created_at: datetime
    organization_id: UUID = Field(foreign_key="organization.id", index=True)
    machine_id: UUID = Field(foreign_key="machine.id", index=True)
    hour: datetime = Field(index=True)
    """The hour, UTC, that the money was spent in."""
    amount: Money = Field(sa_type=MoneyType)


class MachineBill(SQLModel, table=True):
    """One rented machine's bill: the ledger's sum, and since when the provider has said the same."""

    __tablename__ = "machine_bill"

    machine_id: UUID = Field(primary_key=True, foreign_key="machine.id")
    amount: Money = Field(default=ZERO, sa_type=MoneyType)
    covers_until: datetime | None = None
    synced_at: datetime | None = None
    agreed_since: datetime | None = None
    settled_at: datetime | None = None
    problem: str | None = None
    """Why the last sync failed, as a sentence."""
