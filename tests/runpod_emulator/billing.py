"""The emulator's own books: what each machine has cost, and how much of that the provider already tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from tests.runpod_emulator.clock import text_of
from tests.runpod_emulator.faults import Armed, Fault
from tests.runpod_emulator.wire import ApiError, Request

HOUR = timedelta(hours=1)
MICRO = Decimal("0.000001")
OVERSTATED = Decimal("1.1")
_DEFAULT_WINDOW = timedelta(days=30)
_ZERO = Decimal(0)


@dataclass(slots=True)
class Charge:
    """From when to when (exclusive; None: still) an hour costs so much."""

    start: datetime
    gpu: Decimal
    disk: Decimal
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the provider's bill."""

    item: str
    start: datetime
    end: datetime
    gpu: Decimal
    disk: Decimal

    @property
    def total(self) -> Decimal:
        return self.gpu + self.disk


@dataclass(slots=True)
class Meter:
    """All charges of one machine or volume, and how its bill is told."""

    item: str
    charges: list[Charge] = field(default_factory=list)
    faults: Sequence[Armed] = ()

    def switch(self, at: datetime, gpu: Decimal, disk: Decimal) -> None:
        """End the running charge; begin another one unless it is free."""
        if self.charges and self.charges[-1].end is None:
            self.charges[-1].end = at
        if gpu or disk:
            self.charges.append(Charge(at, gpu, disk))

    def total(self, at: datetime) -> Decimal:
        """The whole truth: what the bill will be once everything is told."""
        return sum((record.total for record in self._hours(at)), _ZERO)

    def told(self, now: datetime, lag: timedelta) -> Iterator[Record]:
        """What a request at `now` is told, hour by hour."""
        lag += sum((timedelta(seconds=f.seconds) for f in self.faults if f.fault is Fault.BILLING_LATE), timedelta(0))
        for record in self._hours(now - lag):
            yield from self._as_told(record, now - lag)

    def _as_told(self, record: Record, seen: datetime) -> Iterator[Record]:
        for armed in self.faults:
            is_early = seen < record.end + timedelta(seconds=armed.seconds)
            if armed.fault is Fault.BILLING_CORRECTED and is_early:
                record = Record(record.item, record.start, record.end, _exact(record.gpu * OVERSTATED), record.disk)
        split = next((f for f in self.faults if f.fault is Fault.BILLING_SPLIT), None)
        if split is None:
            yield record
            return
        half = Record(record.item, record.start, record.end, _exact(record.gpu / 2), _ZERO)
        yield half
        if seen >= record.end + timedelta(seconds=split.seconds):
            yield Record(record.item, record.start, record.end, record.gpu - half.gpu, record.disk)

    def _hours(self, until: datetime) -> Iterator[Record]:
        if not self.charges:
            return
        start = _floor(self.charges[0].start, "hour")
        last = self.charges[-1].end
        stop = until if last is None else min(last, until)
        while start < stop:
            spans = [(charge, _overlap(charge, start, min(start + HOUR, stop))) for charge in self.charges]
            gpu = _exact(sum((charge.gpu * span for charge, span in spans), _ZERO))
            disk = _exact(sum((charge.disk * span for charge, span in spans), _ZERO))
            if gpu or disk:
                yield Record(self.item, start, start + HOUR, gpu, disk)
            start += HOUR


@dataclass(frozen=True, slots=True)
class Window:
    """What a request for a bill asks, snapped outward to its buckets."""

    start: datetime
    end: datetime
    bucket: str

    @classmethod
    def of(cls, request: Request, now: datetime) -> Window:
        bucket = request.asked("bucketSize") or "day"
        if bucket not in {"hour", "day", "week", "month", "year"}:
            raise ApiError(422, "Request validation failed.", [f"query.bucketSize: {bucket!r} is not a bucket size"])
        start, end, last = (request.asked(name) for name in ("startTime", "endTime", "lastN"))
        if last is not None:
            if start or end:
                raise ApiError(400, "lastN and startTime/endTime are mutually exclusive")
            newest = _floor(now, bucket)
            oldest = newest
            for _ in range(_count(last) - 1):
                oldest = _floor(oldest - timedelta(seconds=1), bucket)
            return cls(oldest, _after(newest, bucket), bucket)
        if (start is None) != (end is None):
            raise ApiError(400, "startTime and endTime must be provided together")
        first = _time(start) if start else now - _DEFAULT_WINDOW
        until = _time(end) if end else now
        return cls(_floor(first, bucket), _ceiling(until, bucket), bucket)

    def gather(self, records: Iterator[Record]) -> list[Record]:
        """Within the window, the hours of one bucket summed; pieces of an hour stay pieces."""
        inside = [r for r in records if self.start <= r.start < self.end]
        if self.bucket == "hour":
            return inside
        sums: dict[tuple[str, datetime], Record] = {}
        for record in inside:
            key = record.item, _floor(record.start, self.bucket)
            one = sums.get(key, Record(record.item, key[1], _after(key[1], self.bucket), _ZERO, _ZERO))
            sums[key] = Record(record.item, one.start, one.end, one.gpu + record.gpu, one.disk + record.disk)
        return list(sums.values())


def bill_answer(window: Window, records: Sequence[Record], item: str, asked: str | None) -> dict[str, Any]:
    """`item` is `podId` or `networkVolumeId`."""
    query = {"startTime": text_of(window.start), "endTime": text_of(window.end), "bucketSize": window.bucket}
    named = [
        {"startTime": text_of(r.start), "endTime": text_of(r.end), item: r.item, **_amounts(r.gpu, r.disk, item)}
        for r in records
    ]
    unique = "uniquePodCount" if item == "podId" else "uniqueNetworkVolumeCount"
    totals = _amounts(sum((r.gpu for r in records), _ZERO), sum((r.disk for r in records), _ZERO), item)
    return {
        "records": named,
        "metadata": {
            "query": {**query, item: asked},
            "recordCount": len(named),
            "totals": totals,
            unique: len({r.item for r in records}),
        },
    }


def _amounts(gpu: Decimal, disk: Decimal, item: str) -> dict[str, float]:
    if item == "podId":
        return {"totalAmount": float(gpu + disk), "gpuAmount": float(gpu), "cpuAmount": 0.0, "diskAmount": float(disk)}
    return {"totalAmount": float(gpu + disk), "standardAmount": float(disk), "highPerformanceAmount": float(gpu)}


def _overlap(charge: Charge, start: datetime, end: datetime) -> Decimal:
    """Hours of the charge within a span."""
    first, last = max(charge.start, start), min(charge.end or end, end)
    return Decimal(max(0, (last - first) // timedelta(microseconds=1))) / 3_600_000_000


def _exact(amount: Decimal) -> Decimal:
    return amount.quantize(MICRO, ROUND_HALF_UP)


def _floor(at: datetime, bucket: str) -> datetime:
    at = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if bucket == "hour":
        return at
    at = at.replace(hour=0)
    if bucket == "week":
        return at - timedelta(days=at.weekday())
    return at if bucket == "day" else at.replace(day=1) if bucket == "month" else at.replace(month=1, day=1)


def _after(start: datetime, bucket: str) -> datetime:
    days = {"hour": 0, "day": 1, "week": 7, "month": 31, "year": 366}[bucket]
    return start + HOUR if bucket == "hour" else _floor(start + timedelta(days=days), bucket)


def _ceiling(at: datetime, bucket: str) -> datetime:
    floor = _floor(at, bucket)
    return floor if floor == at else _after(floor, bucket)


def _time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ApiError(422, "Request validation failed.", [f"query: {text!r} is not a date-time"]) from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ApiError(422, "Request validation failed.", [f"query.lastN: {text!r} is not a positive number"])
    return int(text)
