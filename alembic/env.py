"""Runs migrations on the connection that `tensorant_app.db.migrate` opened."""

from __future__ import annotations

from typing import Any, Literal

import sqlalchemy as sa
from alembic.autogenerate.api import AutogenContext
from sqlmodel import AutoString, SQLModel, UTCDateTime

import tensorant_app.db  # noqa: F401
from alembic import context
from tensorant_app.db.types import HourlyRateType, MoneyType


def render_plain(kind: str, item: Any, autogen: AutogenContext) -> str | Literal[False]:
    """Write our types as what they are in the database: a released migration never changes."""
    if kind != "type":
        return False
    match item:
        case MoneyType() | HourlyRateType():
            return "sa.BigInteger()"
        case sa.JSON():
            autogen.imports.add("from sqlalchemy.dialects import postgresql")
            return "sa.JSON().with_variant(postgresql.JSONB(), 'postgresql')"
        case UTCDateTime():
            return "sa.DateTime(timezone=True)"
        case AutoString() | sa.Enum():
            length = item.length if isinstance(item, sa.Enum) else item.impl.length
            return f"sa.String(length={length})" if length else "sa.String()"
    return False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SQLModel.metadata,
    render_as_batch=True,
    render_item=render_plain,
)
with context.begin_transaction():
    context.run_migrations()
