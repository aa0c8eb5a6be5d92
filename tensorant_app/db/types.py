"""How our values lie in columns, the same on SQLite and PostgreSQL.

A field annotated `datetime` needs nothing from here: sqlmodel gives it UTCDateTime, which refuses
naive values and answers aware ones. Never pass `sa_type=DateTime(timezone=True)`: it turns that off.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect
from sqlmodel import SQLModel

from tensorant_app.domain.money import HourlyRate, Money

_WORD_LENGTH = 40

# Set on import, before the first table: Alembic can only drop a constraint that has a name.
SQLModel.metadata.naming_convention = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

JsonType = sa.JSON().with_variant(JSONB(), "postgresql")
"""Replace the whole value to change it: an edit in place is not seen."""


def word_type(words: type[StrEnum]) -> sa.Enum:
    """A column of a StrEnum: its values as VARCHAR, so that a new word needs no migration."""
    return sa.Enum(
        words,
        native_enum=False,
        create_constraint=False,
        length=_WORD_LENGTH,
        values_callable=_values,
    )


def _values(words: type[StrEnum]) -> list[str]:
    return [word.value for word in words]


class MoneyType(sa.types.TypeDecorator[Money]):
    """Micro-dollars in a BIGINT."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: Money | None, dialect: Dialect) -> Any:
        return None if value is None else value.micros

    def process_result_value(self, value: Any, dialect: Dialect) -> Money | None:
        return None if value is None else Money(int(value))


class HourlyRateType(sa.types.TypeDecorator[HourlyRate]):
    """Micro-dollars an hour in a BIGINT."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: HourlyRate | None, dialect: Dialect) -> Any:
        return None if value is None else value.per_hour.micros

    def process_result_value(self, value: Any, dialect: Dialect) -> HourlyRate | None:
        return None if value is None else HourlyRate(Money(int(value)))
