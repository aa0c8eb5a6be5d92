"""The bill: exact in the books, late and in pieces over the API."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import pytest

from tests.runpod_emulator import Emulator, Fault, VirtualClock
from tests.runpod_emulator.conftest import create

AMOUNT = {"12": Decimal("0.868219"), "13": Decimal("0.434110")}
"""By the hour of the day: a whole one, and half of one."""


def run_90_minutes(api: httpx.Client, clock: VirtualClock) -> str:
    pod_id = create(api)
    clock.advance(minutes=90)
    api.delete(f"/pods/{pod_id}")
    return pod_id


def told(api: httpx.Client, pod_id: str, **params: str) -> list[tuple[str, Decimal]]:
    asked = {
        "podId": pod_id,
        "bucketSize": "hour",
        "startTime": "2026-12-01T11:00:00Z",
        "endTime": "2026-12-02T11:00:00Z",
    }
    records = api.get("/billing/pods", params=asked | params).json()["records"]
    return [(record["startTime"][11:13], Decimal(str(record["totalAmount"]))) for record in records]


def test_the_api_tells_the_hours_once_their_time_has_come(
    emulator: Emulator, api: httpx.Client, clock: VirtualClock
) -> None:
    pod_id = run_90_minutes(api, clock)

    soon = told(api, pod_id)
    clock.advance(minutes=30)

    assert soon == [("12", AMOUNT["12"])]
    assert told(api, pod_id) == list(AMOUNT.items())
    assert emulator.bill(pod_id) == sum(AMOUNT.values())


def test_a_late_bill_is_empty_for_hours(emulator: Emulator, api: httpx.Client, clock: VirtualClock) -> None:
    emulator.faults.arm(Fault.BILLING_LATE, seconds=6 * 3600)
    pod_id = run_90_minutes(api, clock)

    clock.advance(hours=4)
    early = told(api, pod_id)
    clock.advance(hours=3)

    assert early == []
    assert told(api, pod_id) == list(AMOUNT.items())


def test_a_split_bill_comes_in_two_records_for_each_hour(
    emulator: Emulator, api: httpx.Client, clock: VirtualClock
) -> None:
    emulator.faults.arm(Fault.BILLING_SPLIT, seconds=3600)
    pod_id = run_90_minutes(api, clock)
    clock.advance(minutes=31)

    early = told(api, pod_id)
    clock.advance(hours=3)
    late = told(api, pod_id)

    assert early == [("12", Decimal("0.43")), ("13", Decimal("0.215"))]
    assert [hour for hour, _ in late] == ["12", "12", "13", "13"]
    assert sum(amount for _, amount in late) == emulator.bill(pod_id)


def test_a_bill_may_be_corrected_downwards(emulator: Emulator, api: httpx.Client, clock: VirtualClock) -> None:
    emulator.faults.arm(Fault.BILLING_CORRECTED, seconds=7200)
    pod_id = run_90_minutes(api, clock)
    clock.advance(minutes=31)

    early = told(api, pod_id)
    clock.advance(hours=4)

    assert early[0] == ("12", AMOUNT["12"] + Decimal("0.086"))
    assert told(api, pod_id) == list(AMOUNT.items())


def test_only_the_pod_asked_for_is_told(emulator: Emulator, api: httpx.Client, clock: VirtualClock) -> None:
    other = create(api, "tune-2")
    pod_id = run_90_minutes(api, clock)
    clock.advance(hours=1)

    both = api.get("/billing/pods?bucketSize=hour&lastN=24").json()

    assert told(api, pod_id) == list(AMOUNT.items())
    assert {record["podId"] for record in both["records"]} == {pod_id, other}
    assert both["metadata"]["uniquePodCount"] == 2


def test_a_window_is_snapped_outward_and_its_end_is_not_in_it(api: httpx.Client, clock: VirtualClock) -> None:
    pod_id = run_90_minutes(api, clock)
    clock.advance(hours=1)

    assert told(api, pod_id, startTime="2026-12-01T12:40:00Z", endTime="2026-12-01T13:00:00Z") == [("12", AMOUNT["12"])]
    assert len(told(api, pod_id, startTime="2026-12-01T12:40:00Z", endTime="2026-12-01T13:00:01Z")) == 2


@pytest.mark.parametrize(
    ("bucket", "start"),
    [
        ("day", "2026-12-01T00:00:00Z"),
        ("week", "2026-11-30T00:00:00Z"),
        ("month", "2026-12-01T00:00:00Z"),
        ("year", "2026-01-01T00:00:00Z"),
    ],
)
def test_larger_buckets_sum_the_hours(api: httpx.Client, clock: VirtualClock, bucket: str, start: str) -> None:
    pod_id = run_90_minutes(api, clock)
    clock.advance(hours=1)

    answer = api.get("/billing/pods", params={"podId": pod_id, "bucketSize": bucket, "lastN": 1}).json()

    assert [(r["startTime"], Decimal(str(r["totalAmount"]))) for r in answer["records"]] == [
        (start, sum(AMOUNT.values()))
    ]
    assert Decimal(str(answer["metadata"]["totals"]["totalAmount"])) == sum(AMOUNT.values())


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("startTime=2026-12-01T00:00:00Z", 400),
        ("lastN=1&startTime=2026-12-01T00:00:00Z&endTime=2026-12-02T00:00:00Z", 400),
        ("bucketSize=minute", 422),
        ("lastN=0", 422),
        ("startTime=yesterday&endTime=today", 422),
        ("", 200),
    ],
)
def test_a_window_must_make_sense(api: httpx.Client, query: str, status: int) -> None:
    assert api.get(f"/billing/pods?{query}").status_code == status


def test_the_hours_of_the_night_when_clocks_go_back_are_utc_hours(
    emulator: Emulator, api: httpx.Client, clock: VirtualClock
) -> None:
    clock.at = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)
    pod_id = create(api)
    clock.advance(minutes=110)
    api.delete(f"/pods/{pod_id}")
    clock.advance(hours=2)

    records: list[dict[str, Any]] = api.get(f"/billing/pods?podId={pod_id}&bucketSize=hour&lastN=6").json()["records"]

    assert [record["startTime"] for record in records] == [
        "2026-10-24T23:00:00Z",
        "2026-10-25T00:00:00Z",
        "2026-10-25T01:00:00Z",
    ]
    assert [record["gpuAmount"] for record in records] == [0.43, 0.86, 0.286667]


def test_volumes_are_billed_by_the_hour_whether_used_or_not(
    emulator: Emulator, api: httpx.Client, clock: VirtualClock
) -> None:
    clock.advance(hours=3)

    records = api.get("/billing/network-volumes?bucketSize=hour&lastN=5").json()["records"]

    assert [(r["networkVolumeId"], r["totalAmount"]) for r in records] == [("volume1", 0.009589)] * 2 + [
        ("volume1", 0.004795)
    ]
