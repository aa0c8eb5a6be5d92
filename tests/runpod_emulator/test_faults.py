"""Every fault by its name: what it does to the caller, and what the books say really happened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError, HTTPClientError

from tests.runpod_emulator import Emulator, Fault, VirtualClock
from tests.runpod_emulator.conftest import create, pod_body

KEY = "runs/1/out/1/result.json"


def test_every_fault_says_what_it_does_and_has_a_test() -> None:
    tested = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*faults.py"))

    assert [fault.name for fault in Fault if f"Fault.{fault.name}" not in tested] == []
    assert all(fault.effect.endswith(".") for fault in Fault)


# Requests.


@pytest.mark.parametrize(("fault", "alive"), [(Fault.REQUEST_LOST, 0), (Fault.ANSWER_LOST, 1)])
def test_a_lost_call_looks_the_same_whether_it_was_carried_out_or_not(
    emulator: Emulator, api: httpx.Client, fault: Fault, alive: int
) -> None:
    emulator.faults.arm(fault, times=2)

    with pytest.raises(httpx.RemoteProtocolError):
        api.post("/pods", json=pod_body())
    with pytest.raises(httpx.ReadTimeout):
        emulator.client().post("/pods", json=pod_body("tune-2"))

    assert len(emulator.account.alive()) == alive * 2
    assert emulator.account.creates("tune-1") == alive
    assert api.get("/pods").status_code == 200


def test_created_then_500_leaves_a_pod(emulator: Emulator, api: httpx.Client) -> None:
    emulator.faults.arm(Fault.ERROR_AFTER)

    assert api.post("/pods", json=pod_body()).status_code == 500
    assert [pod.name for pod in emulator.account.alive()] == ["tune-1"]


def test_500_may_also_mean_that_nothing_happened(emulator: Emulator, api: httpx.Client) -> None:
    emulator.faults.arm(Fault.ERROR)

    assert api.post("/pods", json=pod_body()).status_code == 500
    assert emulator.account.alive() == []


def test_a_field_that_is_not_known_any_more_is_named(emulator: Emulator, api: httpx.Client) -> None:
    emulator.faults.arm(Fault.FIELD_REFUSED)

    answer = api.post("/pods", json=pod_body())

    assert answer.status_code == 422
    assert "'volumeInGb' not allowed" in answer.text
    assert emulator.account.alive() == []


def test_a_gateway_answers_with_a_page(emulator: Emulator, api: httpx.Client) -> None:
    emulator.faults.arm(Fault.HTML, on="pods.create")

    answer = api.post("/pods", json=pod_body())

    assert (answer.status_code, answer.headers["content-type"]) == (502, "text/html")
    assert emulator.account.alive() == []


def test_a_slow_answer_comes_after_the_caller_has_gone(emulator: Emulator, clock: VirtualClock) -> None:
    emulator.faults.arm(Fault.SLOW, on="pods.create")
    emulator.faults.arm(Fault.SLOW, seconds=2)
    before = clock()

    with pytest.raises(httpx.ReadTimeout):
        emulator.client().post("/pods", json=pod_body(), timeout=6)
    listed = emulator.client().get("/pods", timeout=6).json()["pods"]

    assert [pod["name"] for pod in listed] == ["tune-1"]
    assert (clock() - before).total_seconds() == 8


def test_a_slow_answer_is_slow_over_a_socket(emulator: Emulator, api: httpx.Client) -> None:
    emulator.faults.arm(Fault.SLOW, seconds=0.5)

    with pytest.raises(httpx.ReadTimeout):
        api.get("/pods", timeout=0.2)


@pytest.mark.parametrize(
    ("fault", "status"), [(Fault.NO_MONEY, 402), (Fault.NO_CAPACITY, 400), (Fault.RATE_LIMITED, 429)]
)
def test_a_refusal_creates_nothing(emulator: Emulator, api: httpx.Client, fault: Fault, status: int) -> None:
    emulator.faults.arm(fault, on="pods.create")

    answer = api.post("/pods", json=pod_body())

    assert answer.status_code == status
    assert answer.headers.get("retry-after") == ("10" if status == 429 else None)
    assert emulator.account.alive() == []
    assert emulator.account.creates("tune-1") == 0


@pytest.mark.parametrize(("fault", "status"), [(Fault.DELETE_REFUSED, 500), (Fault.FORBIDDEN, 403)])
def test_a_delete_may_be_refused(emulator: Emulator, api: httpx.Client, fault: Fault, status: int) -> None:
    pod_id = create(api)
    emulator.faults.arm(fault, times=2)

    statuses = [api.delete(f"/pods/{pod_id}").status_code for _ in range(3)]

    assert statuses == [status, status, 204]


def test_a_delete_that_says_404_may_leave_the_pod_alive(
    emulator: Emulator, api: httpx.Client, clock: VirtualClock
) -> None:
    pod_id = create(api)
    emulator.faults.arm(Fault.DELETE_DENIED, seconds=90)

    first = api.delete(f"/pods/{pod_id}").status_code
    hidden = api.get("/pods").json()["pods"]
    clock.advance(seconds=91)
    back = api.get("/pods").json()["pods"]

    assert (first, hidden, [pod["id"] for pod in back]) == (404, [], [pod_id])
    assert api.delete(f"/pods/{pod_id}").status_code == 204
    assert emulator.account.alive() == []


def test_a_delete_may_take_effect_late(emulator: Emulator, api: httpx.Client, clock: VirtualClock) -> None:
    pod_id = create(api)
    emulator.faults.arm(Fault.DELETE_LATE, seconds=120)

    assert api.delete(f"/pods/{pod_id}").status_code == 204
    assert api.get(f"/pods/{pod_id}").status_code == 200
    clock.advance(seconds=121)
    assert api.get(f"/pods/{pod_id}").status_code == 404


def test_a_stop_may_be_refused(emulator: Emulator, api: httpx.Client) -> None:
    pod_id = create(api)
    emulator.faults.arm(Fault.STOP_REFUSED)

    assert api.post(f"/pods/{pod_id}/action", json={"action": "stop"}).status_code == 409


def test_a_pod_may_be_one_that_cannot_be_stopped(emulator: Emulator, api: httpx.Client) -> None:
    emulator.faults.arm(Fault.NO_STOP)
    pod_id = create(api)

    assert api.get(f"/pods/{pod_id}").json()["actions"] == ["terminate"]
    assert api.post(f"/pods/{pod_id}/action", json={"action": "stop"}).status_code == 409


def test_an_older_front_end_knows_no_exec_form(emulator: Emulator, api: httpx.Client) -> None:
    emulator.faults.arm(Fault.NO_EXEC_FORM)
    older = {name: value for name, value in pod_body().items() if name not in {"entrypoint", "cmd"}}

    refused = api.post("/pods", json=pod_body())
    made = api.post("/pods", json={**older, "args": json.dumps({"entrypoint": ["/boot"], "cmd": ["a b", "c"]})})

    assert refused.status_code == 422
    assert "'entrypoint'" in refused.json()["errors"][0]
    pod = emulator.pods[made.json()["id"]]
    assert list(pod.contain(pod).command) == ["/boot", "a b", "c"]


def test_a_key_may_be_revoked_and_stored_anew(emulator: Emulator, api: httpx.Client, clock: VirtualClock) -> None:
    create(api)
    emulator.faults.arm(Fault.KEY_REVOKED, seconds=300)

    revoked = api.get("/pods").status_code
    clock.advance(seconds=301)

    assert revoked == 401
    assert api.get("/pods").status_code == 200
    emulator.faults.arm(Fault.KEY_REVOKED)
    assert api.get("/pods").status_code == 401
    clock.advance(hours=1000)
    assert api.get("/pods").status_code == 401
    assert len(emulator.account.alive()) == 1


def test_the_pods_own_key_may_be_worth_nothing(emulator: Emulator, api: httpx.Client) -> None:
    pod_id = create(api)
    emulator.faults.arm(Fault.SELF_DELETE_REFUSED)
    own = {"authorization": f"Bearer rpa_pod_{pod_id}"}

    assert httpx.delete(f"{emulator.api_url}/pods/{pod_id}", headers=own).status_code == 403
    assert httpx.delete(f"{emulator.api_url}/pods/{pod_id}", headers=own).status_code == 204


# The volume. The bill's faults, Fault.BILLING_LATE, Fault.BILLING_SPLIT and Fault.BILLING_CORRECTED: test_billing.py.


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault.S3_BAD_GATEWAY, "502|BadGateway"),
        (Fault.S3_DENIED, "AccessDenied"),
        (Fault.S3_FULL, "InsufficientStorage"),
    ],
)
def test_a_put_may_fail_and_store_nothing(emulator: Emulator, s3: Any, fault: Fault, code: str) -> None:
    emulator.faults.arm(fault)

    with pytest.raises(ClientError, match=code):
        s3.put_object(Bucket=emulator.volume.id, Key=KEY, Body=b"12345678")

    assert not (emulator.volume.folder / KEY).exists()


@pytest.mark.parametrize(("fault", "stored"), [(Fault.S3_SHORT_WRITE, b"1234"), (Fault.S3_VANISHED, None)])
def test_a_put_may_say_200_and_not_have_stored_it(
    emulator: Emulator, s3: Any, fault: Fault, stored: bytes | None
) -> None:
    emulator.faults.arm(fault)

    s3.put_object(Bucket=emulator.volume.id, Key=KEY, Body=b"12345678")

    path = emulator.volume.folder / KEY
    assert (path.read_bytes() if path.exists() else None) == stored


def test_a_put_may_be_stored_without_an_answer(emulator: Emulator, s3: Any) -> None:
    emulator.faults.arm(Fault.S3_LOST)

    with pytest.raises(HTTPClientError):
        s3.put_object(Bucket=emulator.volume.id, Key=KEY, Body=b"12345678")

    assert (emulator.volume.folder / KEY).read_bytes() == b"12345678"


def test_a_get_may_end_half_way(emulator: Emulator, s3: Any) -> None:
    s3.put_object(Bucket=emulator.volume.id, Key=KEY, Body=b"12345678")
    emulator.faults.arm(Fault.S3_SHORT_READ, name="result.json")

    with pytest.raises(HTTPClientError):
        s3.get_object(Bucket=emulator.volume.id, Key=KEY)["Body"].read()

    assert s3.get_object(Bucket=emulator.volume.id, Key=KEY)["Body"].read() == b"12345678"
