"""What machines cost: an estimate by the clock until the provider's bill is there, then the bill, until it rests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol

from tensorant_app.domain.money import FREE, ZERO, HourlyRate, Money

SYNC = timedelta(minutes=30)
"""A machine's bill is asked for so often while it lives, and until the bill rests."""
SOON = timedelta(minutes=2)
"""After its release the bill is asked for at once, more or less."""
AFTER_TROUBLE = timedelta(minutes=5)
AGREEMENT = timedelta(hours=1)
"""Two syncs at least this far apart must agree before a bill rests,"""
REST = timedelta(hours=6)
"""and the last of them at least so long after the release."""
LAST_LOOK = timedelta(hours=48)
"""A bill that rests is asked for once more, so long after the release."""
GIVEN_UP = timedelta(days=7)
"""So long after the release nobody asks any more, whatever the bill says."""
MARGIN = timedelta(hours=1)
"""Asked for on both sides of a machine's life: a provider's clock is not ours."""
STORAGE_A_GB_MONTH = Money.dollars("0.20")
"""RunPod's price for the disk of a stopped Pod, as documented in November 2026."""
_HOURS_A_MONTH = 730


class SpendState(StrEnum):
    """How far the provider's bill is."""

    NONE = "none"
    """Nothing was rented, or nothing that costs."""
    ESTIMATED = "estimated"
    """By the clock; no bill yet."""
    OPEN = "open"
    """Billed so far; may still change."""
    SETTLED = "settled"


class Billed(Protocol):
    """A record of a bill."""

    @property
    def amount(self) -> Money: ...


@dataclass(frozen=True, slots=True)
class Rental:
    """One machine, as far as it costs."""

    rate: HourlyRate | None
    """Of the whole machine; None where nobody ever said a price."""
    began_at: datetime | None
    """The create call; None where it was not made, or where nothing came of it."""
    stopped_at: datetime | None
    released_at: datetime | None
    disk_gb: int = 0
    """Billed on while the machine is stopped."""
    prices: Sequence[tuple[datetime, HourlyRate]] = ()
    """Since when it cost how much, where that ever changed: then they count, and not `rate` and `stopped_at`."""


@dataclass(frozen=True, slots=True)
class Bill:
    """What the provider says of one machine, and how long it has said so."""

    amount: Money
    covers_until: datetime | None
    """The end of the last hour that has a record; None where there is none."""
    synced_at: datetime | None
    agreed_since: datetime | None
    """The first of the syncs in a row that said the same."""
    settled_at: datetime | None = None


NO_BILL = Bill(ZERO, None, None, None)


@dataclass(frozen=True, slots=True)
class Spend:
    """What one subject's machines cost, all attempts together. Estimate and bill are never added up."""

    state: SpendState
    estimated: Money
    """Price by time, of all machines."""
    actual: Money | None
    """Sum of the bill's records; None before the first."""
    synced_at: datetime | None = None
    unbilled: int = 0
    """Machines that cost and that the bill does not know yet."""
    unpriced: int = 0
    """Machines that nobody ever named a price of: they are missing in `estimated`."""

    @property
    def shown(self) -> Money:
        """The one number for a list."""
        return self.estimated if self.actual is None else self.actual


NOTHING = Spend(SpendState.NONE, ZERO, None)


def estimate(rental: Rental, now: datetime) -> Money:
    """Price × time from the create call to the proved release; of a stopped machine its disk."""
    if rental.rate is None or rental.began_at is None:
        return ZERO
    end = max(rental.released_at or now, rental.began_at)
    if rental.prices:
        return _by_prices(rental.prices, rental.began_at, end)
    computing = min(rental.stopped_at or end, end)
    cost = rental.rate.cost_of(computing - rental.began_at)
    return cost + own_disk_rate(rental.disk_gb).cost_of(end - computing)


def _by_prices(prices: Sequence[tuple[datetime, HourlyRate]], began: datetime, end: datetime) -> Money:
    """Each price for its own time; the first holds from the beginning."""
    starts = [began, *(min(max(at, began), end) for at, _ in prices[1:])]
    return Money.total(
        rate.cost_of(max(until - start, timedelta(0)))
        for (_, rate), start, until in zip(prices, starts, [*starts[1:], end], strict=True)
    )


def own_disk_rate(disk_gb: int) -> HourlyRate:
    """What an hour of a stopped Pod's own disk costs."""
    return HourlyRate(Money(own_disk_month(disk_gb).micros // _HOURS_A_MONTH))


def own_disk_month(disk_gb: int) -> Money:
    """What a month of a stopped Pod's own disk costs."""
    return STORAGE_A_GB_MONTH * disk_gb


def cap(rate: HourlyRate, limit: timedelta) -> Money:
    """Cap (est.): the price of the whole runtime limit. Not a billing cap."""
    return rate.cost_of(limit)


def by_hour(amounts: Iterable[tuple[datetime, Money]]) -> dict[datetime, Money]:
    """Sums of what begins in each UTC hour: a provider stamps a begun hour now with its minute, now with its border."""
    hours: defaultdict[datetime, Money] = defaultdict(lambda: ZERO)
    for start, amount in amounts:
        hours[start.astimezone(UTC).replace(minute=0, second=0, microsecond=0)] += amount
    return dict(hours)


def corrections(booked: Mapping[datetime, Money], billed: Mapping[datetime, Money]) -> dict[datetime, Money]:
    """Per hour, what must be booked so that the ledger says what the bill says now; hours that agree are left out.

    An hour that a later bill does not name stays as it is booked: an answer with a hole is no correction.
    """
    changed = {start: amount - booked.get(start, ZERO) for start, amount in billed.items()}
    return {start: change for start, change in sorted(changed.items()) if change}


def raises_alone(changes: Mapping[datetime, Money]) -> dict[datetime, Money]:
    """Of a bill that was read in part: it takes nothing back, for the missing piece may be what could not be read."""
    return {start: change for start, change in changes.items() if change > ZERO}


def tells_something(lines: Iterable[Billed], released_at: datetime | None, now: datetime) -> bool:
    """Whether a bill is one: hours of zero are written before they are counted, until long after the release."""
    is_late = released_at is not None and now - released_at >= REST
    return is_late or any(line.amount != ZERO for line in lines)


def next_bill(bill: Bill, *, has_changed: bool, covers_until: datetime | None, amount: Money, now: datetime) -> Bill:
    """The bill after a sync at `now`."""
    is_first = bill.synced_at is None or bill.agreed_since is None
    since = now if has_changed or is_first else bill.agreed_since
    return Bill(amount, covers_until, now, since, None if has_changed else bill.settled_at)


def is_settled(bill: Bill, released_at: datetime | None, now: datetime) -> bool:
    """Whether it rests: it covers the release, syncs an hour apart agree, and the release is six hours ago."""
    if released_at is None or bill.covers_until is None or bill.agreed_since is None:
        return False
    covers = bill.covers_until >= released_at
    agrees = now - bill.agreed_since >= AGREEMENT and now - released_at >= REST
    return (covers and agrees) or now - released_at >= GIVEN_UP


def next_sync(bill: Bill, released_at: datetime | None, now: datetime) -> datetime | None:
    """When the bill is asked for again; None: never."""
    if released_at is None:
        return now + SYNC
    last = released_at + LAST_LOOK
    if bill.settled_at is not None:
        return last if now < last else None
    if now - released_at >= GIVEN_UP:
        return None
    return now + (SYNC if now < last else SYNC * 24)


def spend_of(rentals: Iterable[tuple[Rental, Bill]], now: datetime) -> Spend:
    """All machines of one subject together."""
    costly = [(rental, bill) for rental, bill in rentals if rental.began_at is not None and rental.rate != FREE]
    if not costly:
        return NOTHING
    estimated = Money.total(estimate(rental, now) for rental, _ in costly)
    unpriced = sum(rental.rate is None for rental, _ in costly)
    billed = [bill for _, bill in costly if bill.covers_until is not None]
    if not billed:
        return Spend(SpendState.ESTIMATED, estimated, None, _latest(bill for _, bill in costly), len(costly), unpriced)
    is_all = all(bill.settled_at is not None for _, bill in costly)
    state = SpendState.SETTLED if is_all else SpendState.OPEN
    actual = Money.total(bill.amount for bill in billed)
    return Spend(state, estimated, actual, _latest(billed), len(costly) - len(billed), unpriced)


def tell(spend: Spend, now: datetime) -> str:
    """The words under the number."""
    match spend.state:
        case SpendState.NONE:
            return "free"
        case SpendState.ESTIMATED if spend.unpriced:
            return "price not known · billing pending"
        case SpendState.ESTIMATED:
            return f"{spend.estimated} estimated · billing pending"
        case SpendState.SETTLED:
            return f"{spend.actual} actual · settled"
    parts = [f"{spend.actual} actual so far", f"synced {_ago(spend.synced_at, now)}", "may still change"]
    if spend.unbilled:
        machines = "machine is" if spend.unbilled == 1 else "machines are"
        parts.append(f"{spend.unbilled} {machines} not billed yet")
    return " · ".join(parts)


def window(began_at: datetime, released_at: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """The time that a machine's bill is asked for."""
    return began_at - MARGIN, (released_at or now) + MARGIN


def _latest(bills: Iterable[Bill]) -> datetime | None:
    return max((bill.synced_at for bill in bills if bill.synced_at is not None), default=None)


def _ago(then: datetime | None, now: datetime) -> str:
    minutes = 0 if then is None else max(0, round((now - then).total_seconds() / 60))
    if minutes < 1:
        return "just now"
    return f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"
