"""Estimate and bill: exact sums, late and changing records, and when a bill rests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tensorant_app.domain.money import FREE, ZERO, HourlyRate, Money
from tensorant_app.domain.spend import (
    NO_BILL,
    NOTHING,
    Bill,
    Rental,
    SpendState,
    cap,
    corrections,
    estimate,
    is_settled,
    next_bill,
    next_sync,
    spend_of,
    tell,
)

RATE = HourlyRate.dollars("0.73")
NIGHT = datetime(2026, 10, 24, 22, 40, tzinfo=UTC)
"""In Berlin the clock goes back an hour in this night."""


def after(hours: float) -> datetime:
    return NIGHT + timedelta(hours=hours)


def rented(hours: float, rate: HourlyRate | None = RATE) -> Rental:
    return Rental(rate, NIGHT, None, after(hours))


def billed(dollars: str, *, hours: float = 3, **values: datetime) -> Bill:
    return Bill(Money.dollars(dollars), after(hours), values.get("at", NIGHT), NIGHT, values.get("settled"))


class TestEstimate:
    def test_a_night_of_the_clock_change_is_as_long_as_it_is(self) -> None:
        berlin_before, berlin_after = timezone(timedelta(hours=2)), timezone(timedelta(hours=1))
        began = datetime(2026, 10, 25, 0, 40, tzinfo=berlin_before)
        ended = datetime(2026, 10, 25, 2, 25, tzinfo=berlin_after)

        assert estimate(Rental(RATE, began, None, ended), ended) == Money.dollars("2.007500")

    def test_a_living_machine_costs_until_now(self) -> None:
        assert estimate(Rental(RATE, NIGHT, None, None), after(2)) == Money.dollars("1.46")

    def test_a_stopped_machine_costs_its_disk(self) -> None:
        stopped = Rental(HourlyRate.dollars(1), NIGHT, after(1), None, disk_gb=73)

        assert estimate(stopped, after(11)) == Money.dollars("1.20")

    def test_what_was_never_asked_for_costs_nothing(self) -> None:
        assert spend_of([(Rental(RATE, None, None, None), NO_BILL)], after(1)) == NOTHING

    def test_the_cap_is_the_whole_limit(self) -> None:
        assert cap(RATE, timedelta(hours=6)) == Money.dollars("4.38")


class TestBill:
    def test_estimate_and_bill_are_never_one_number(self) -> None:
        both = [(rented(2), billed("1.4471")), (rented(1), NO_BILL)]

        spend = spend_of(both, after(5))

        assert (spend.actual, spend.estimated) == (Money.dollars("1.4471"), Money.dollars("2.19"))
        assert (spend.state, spend.unbilled) == (SpendState.OPEN, 1)
        assert "1 machine is not billed yet" in tell(spend, after(5))

    def test_the_words_follow_the_bill(self) -> None:
        pending = spend_of([(rented(2), NO_BILL)], after(2))
        coming = spend_of([(rented(2), billed("0.41", at=after(2)))], after(2.25))
        settled = spend_of([(rented(2), billed("1.46", settled=after(9)))], after(9))

        assert tell(pending, after(2)) == "$1.46 estimated · billing pending"
        assert tell(coming, after(2.25)) == "$0.41 actual so far · synced 15 min ago · may still change"
        assert tell(settled, after(9)) == "$1.46 actual · settled"
        assert tell(NOTHING, NIGHT) == "free"

    def test_an_unknown_price_is_not_shown_as_nothing(self) -> None:
        spend = spend_of([(rented(2, rate=None), NO_BILL)], after(2))

        assert "$" not in tell(spend, after(2))

    def test_a_free_machine_is_free(self) -> None:
        assert spend_of([(rented(2, FREE), NO_BILL)], after(2)) is NOTHING

    def test_the_ledger_takes_differences_alone(self) -> None:
        booked = {NIGHT: Money(300), after(1): Money(700), after(2): Money(5)}
        said = {NIGHT: Money(300), after(1): Money(650), after(3): Money(40)}

        assert corrections(booked, said) == {after(1): Money(-50), after(3): Money(40)}

    def test_many_small_amounts_add_up_exactly(self) -> None:
        hours = [(after(n), Money.from_provider(0.1)) for n in range(10)]

        assert Money.total(amount for _, amount in hours) == Money.dollars(1)


class TestRest:
    @pytest.mark.parametrize(
        ("hours_after_release", "agreed_for", "covers", "rests"),
        [(7, 2, 3, True), (5.9, 2, 3, False), (7, 0.9, 3, False), (7, 2, 0.5, False), (24 * 7, 0, 0.5, True)],
    )
    def test_a_bill_rests_when_it_covers_the_release_and_agreed_for_an_hour(
        self, hours_after_release: float, agreed_for: float, covers: float, rests: bool
    ) -> None:
        now = after(1 + hours_after_release)
        bill = Bill(ZERO, after(covers), now, now - timedelta(hours=agreed_for))

        assert is_settled(bill, after(1), now) is rests

    def test_a_bill_of_a_living_machine_never_rests(self) -> None:
        assert not is_settled(billed("1"), None, after(100))

    def test_a_change_begins_the_agreement_anew_and_opens_a_settled_bill(self) -> None:
        settled = billed("1.00", settled=after(8))

        same = next_bill(settled, has_changed=False, covers_until=after(3), amount=Money.dollars(1), now=after(49))
        changed = next_bill(settled, has_changed=True, covers_until=after(3), amount=Money.dollars(2), now=after(49))

        assert (same.agreed_since, same.settled_at) == (NIGHT, after(8))
        assert (changed.agreed_since, changed.settled_at) == (after(49), None)

    def test_a_settled_bill_is_asked_for_once_more_after_two_days(self) -> None:
        settled = billed("1.00", settled=after(8))

        assert next_sync(settled, after(1), after(8)) == after(49)
        assert next_sync(settled, after(1), after(49)) is None
        assert next_sync(NO_BILL, after(1), after(2)) == after(2.5)
        assert next_sync(NO_BILL, after(1), after(24 * 8)) is None
