"""Dollars that never lose a millionth: amounts, and what an hour of a machine costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

MICROS_PER_DOLLAR = 1_000_000
_MICROS_PER_CENT = 10_000
_MICROSECONDS_PER_HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True, order=True)
class Money:
    """An amount of US dollars, exact to a millionth."""

    micros: int

    @classmethod
    def dollars(cls, amount: Decimal | int | str) -> Money:
        """Rounded half to even at the millionth."""
        return cls(int((Decimal(amount) * MICROS_PER_DOLLAR).to_integral_value()))

    @classmethod
    def from_provider(cls, amount: float) -> Money:
        """The only door for a float: read as the decimal that the provider printed."""
        return cls.dollars(Decimal(str(amount)))

    @classmethod
    def total(cls, amounts: Iterable[Money]) -> Money:
        return cls(sum(amount.micros for amount in amounts))

    def __add__(self, other: Money) -> Money:
        return Money(self.micros + other.micros)

    def __sub__(self, other: Money) -> Money:
        return Money(self.micros - other.micros)

    def __neg__(self) -> Money:
        return Money(-self.micros)

    def __mul__(self, times: int) -> Money:
        return Money(self.micros * times)

    def __bool__(self) -> bool:
        return self.micros != 0

    def __str__(self) -> str:
        """Dollars and cents, half a cent rounded away from zero."""
        cents = (abs(self.micros) + _MICROS_PER_CENT // 2) // _MICROS_PER_CENT
        sign = "-" if self.micros < 0 and cents else ""
        return f"{sign}${cents // 100:,}.{cents % 100:02d}"


ZERO = Money(0)


@dataclass(frozen=True, slots=True, order=True)
class HourlyRate:
    """What one hour of a machine costs."""

    per_hour: Money

    @classmethod
    def dollars(cls, amount: Decimal | int | str) -> HourlyRate:
        return cls(Money.dollars(amount))

    @classmethod
    def from_provider(cls, amount: float) -> HourlyRate:
        return cls(Money.from_provider(amount))

    def __mul__(self, machines: int) -> HourlyRate:
        return HourlyRate(self.per_hour * machines)

    def cost_of(self, elapsed: timedelta) -> Money:
        """The price of the time used, rounded up to a micro-dollar."""
        micros = self.per_hour.micros * (elapsed // timedelta(microseconds=1))
        return Money(-(-micros // _MICROSECONDS_PER_HOUR))

    def __str__(self) -> str:
        return f"{self.per_hour}/h"


FREE = HourlyRate(ZERO)
