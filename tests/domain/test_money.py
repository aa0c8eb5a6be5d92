"""Amounts are exact; only what is shown rounds."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorant_app.domain.money import FREE, ZERO, HourlyRate, Money

amounts = st.integers(-(10**15), 10**15).map(Money)


@pytest.mark.parametrize(
    ("amount", "micros"),
    [("0.39", 390_000), (2, 2_000_000), (Decimal("0.0000005"), 0), (Decimal("0.0000015"), 2), ("-1.5", -1_500_000)],
)
def test_dollars_are_kept_to_the_millionth(amount: Decimal | int | str, micros: int) -> None:
    assert Money.dollars(amount) == Money(micros)


@pytest.mark.parametrize("amount", [0.1 + 0.2, 0.29, 1.1, 0.00019, 1e-7, 123456.789])
def test_a_float_of_a_provider_is_read_as_it_was_printed(amount: float) -> None:
    assert Money.from_provider(amount) == Money.dollars(str(amount))


def test_twenty_nine_cents_are_not_twenty_eight() -> None:
    assert Money.from_provider(0.29).micros == 290_000


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        (0, "$0.00"),
        (4_999, "$0.00"),
        (5_000, "$0.01"),
        (-4_999, "$0.00"),
        (-5_000, "-$0.01"),
        (1_234_567_890_000, "$1,234,567.89"),
    ],
)
def test_money_shows_dollars_and_cents(micros: int, shown: str) -> None:
    assert str(Money(micros)) == shown


@given(st.lists(amounts))
def test_a_total_is_the_sum_of_its_parts(parts: list[Money]) -> None:
    assert Money.total(parts).micros == sum(part.micros for part in parts)


@given(amounts, amounts)
def test_what_is_added_can_be_taken_away(one: Money, other: Money) -> None:
    assert one + other - other == one
    assert one + -one == ZERO


def test_time_used_is_charged_to_the_microsecond_and_rounded_up() -> None:
    rate = HourlyRate.dollars("0.39")

    assert rate.cost_of(timedelta(hours=2)) == Money.dollars("0.78")
    assert rate.cost_of(timedelta(microseconds=1)) == Money(1)
    assert rate.cost_of(timedelta(0)) == ZERO
    assert FREE.cost_of(timedelta(days=400)) == ZERO


@given(st.integers(0, 10**8).map(Money), st.timedeltas(timedelta(0), timedelta(days=30)))
def test_a_cost_is_never_less_than_the_exact_price_nor_a_micro_dollar_more(rate: Money, time: timedelta) -> None:
    exact = Decimal(rate.micros) * Decimal(time // timedelta(microseconds=1)) / Decimal(3_600_000_000)

    assert 0 <= HourlyRate(rate).cost_of(time).micros - exact < 1


def test_a_rate_for_several_machines_is_a_rate() -> None:
    assert str(HourlyRate.from_provider(0.69) * 4) == "$2.76/h"
