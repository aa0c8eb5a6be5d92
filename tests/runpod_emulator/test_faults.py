"""Every fault by its name: what it does to the caller, and what the books say really happened."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError, HTTPClientError

from tests.runpod_emulator import Emulator, Fault, VirtualClock
from tests.runpod_emulator.conftest import create, pod_body
from tests.runpod_emulator.faults import Faults

KEY = "runs/1/out/1/result.json"


def test_every_fault_says_what_it_does_and_has_a_test_here() -> None:
    tested = Path(__file__).read_text()

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


# Machines.


def test_a_pod_may_be_hidden_at_first(emulator: Emulator, api: httpx.Client, clock: VirtualClock) -> None:
    emulator.faults.arm(Fault.HIDDEN, seconds=45)
    pod_id = create(api)

    hidden = (api.get("/pods").json()["pods"], api.get(f"/pods/{pod_id}").status_code)
    clock.advance(seconds=46)

    assert hidden == ([], 404)
    assert api.get(f"/pods/{pod_id}").status_code == 200
    assert emulator.bill(pod_id) > 0


def test_one_call_may_make_twins(emulator: Emulator, api: httpx.Client) -> None:
    emulator.faults.arm(Fault.TWIN)
    create(api)

    assert [pod["name"] for pod in api.get("/pods").json()["pods"]] == ["tune-1", "tune-1"]
    assert emulator.account.creates("tune-1") == 1
    assert len(emulator.account.named("tune-1")) == 2


@pytest.mark.parametrize(
    ("fault", "status", "word"),
    [
        (Fault.IMAGE_PULL, "STARTING", "error pulling image"),
        (Fault.NEVER_STARTS, "PROVISIONING", None),
        (Fault.OLD_DRIVER, "RUNNING", "cuda>=12.8"),
    ],
)
def test_a_pod_may_never_come_up(
    emulator: Emulator, api: httpx.Client, clock: VirtualClock, fault: Fault, status: str, word: str | None
) -> None:
    emulator.faults.arm(fault)
    pod_id = create(api)

    clock.advance(minutes=30)
    pod = api.get(f"/pods/{pod_id}").json()

    assert (pod["status"], pod["runtime"], pod["cost"]) == (status, None, 0.86)
    said = emulator.pods[pod_id].logs.said("system")
    assert word is None or any(word in line for line in said)
    assert emulator.bill(pod_id) > Decimal("0.43")


def test_running_may_come_long_before_the_container(emulator: Emulator, api: httpx.Client, clock: VirtualClock) -> None:
    emulator.faults.arm(Fault.NO_RUNTIME, seconds=60)
    pod_id = create(api)

    clock.advance(seconds=1)
    early = api.get(f"/pods/{pod_id}").json()
    clock.advance(seconds=60)

    assert (early["status"], early["runtime"]) == ("RUNNING", None)
    assert api.get(f"/pods/{pod_id}").json()["runtime"]["uptime"] == 1


def test_a_status_may_be_a_word_that_nobody_knows(emulator: Emulator, api: httpx.Client, clock: VirtualClock) -> None:
    emulator.faults.arm(Fault.UNKNOWN_STATUS, seconds=600)
    pod_id = create(api)

    assert api.get(f"/pods/{pod_id}").json()["status"] == "MIGRATING"
    clock.advance(seconds=601)
    assert api.get(f"/pods/{pod_id}").json()["status"] == "RUNNING"


def test_the_price_may_be_above_the_quote(emulator: Emulator, api: httpx.Client) -> None:
    emulator.faults.arm(Fault.PRICE_ABOVE_QUOTE)

    pod_id = create(api)

    assert api.get(f"/pods/{pod_id}").json()["cost"] == pytest.approx(1.333)


def test_cost_and_uptime_may_read_zero_and_be_billed(
    emulator: Emulator, api: httpx.Client, clock: VirtualClock
) -> None:
    emulator.faults.arm(Fault.COST_UNTOLD, seconds=600)
    pod_id = create(api)
    clock.advance(seconds=300)
    pod = api.get(f"/pods/{pod_id}").json()

    assert (pod["cost"], pod["runtime"]["uptime"]) == (0, 0)
    assert emulator.bill(pod_id) > Decimal("0.07")


def test_a_pod_may_come_up_without_gpus(emulator: Emulator, api: httpx.Client, clock: VirtualClock) -> None:
    emulator.faults.arm(Fault.ZERO_GPUS)
    pod_id = create(api)

    clock.advance(minutes=1)

    assert api.get(f"/pods/{pod_id}").json()["gpu"]["count"] == 0


@pytest.mark.parametrize(
    ("fault", "status"), [(Fault.RESTARTED, "RUNNING"), (Fault.CRASHED, "EXITED"), (Fault.HOST_ERROR, "ERROR")]
)
def test_a_container_may_die(
    emulator: Emulator, api: httpx.Client, clock: VirtualClock, fault: Fault, status: str
) -> None:
    emulator.faults.arm(fault, seconds=240)
    pod_id = create(api)

    clock.advance(seconds=250)
    pod = api.get(f"/pods/{pod_id}").json()

    assert pod["status"] == status
    assert (pod["runtime"] or {}).get("uptime") == (7 if fault is Fault.RESTARTED else None)


@pytest.mark.parametrize("fault", [Fault.HOST_LOST, Fault.DELETED_BY_HAND])
def test_a_pod_may_vanish_and_is_billed_no_longer(
    emulator: Emulator, api: httpx.Client, clock: VirtualClock, fault: Fault
) -> None:
    emulator.faults.arm(fault, seconds=240)
    pod_id = create(api)

    clock.advance(hours=3)

    assert api.get("/pods").json()["pods"] == []
    assert api.delete(f"/pods/{pod_id}").status_code == 404
    assert emulator.bill(pod_id) == Decimal("0.057881")
    assert emulator.account.alive() == []


def test_a_fault_can_be_meant_for_one_pod(emulator: Emulator, api: httpx.Client) -> None:
    emulator.faults.arm(Fault.HIDDEN, name="tune-1-2")

    create(api, "tune-1")
    create(api, "tune-1-2")

    assert [pod["name"] for pod in api.get("/pods").json()["pods"]] == ["tune-1"]


def test_a_fault_can_wait_for_its_turn(emulator: Emulator, api: httpx.Client) -> None:
    emulator.faults.arm(Fault.ERROR, on="pods.list", skip=1, times=2)

    assert [api.get("/pods").status_code for _ in range(4)] == [200, 500, 500, 200]
    assert [fault for fault, _, _ in emulator.faults.fired] == [Fault.ERROR, Fault.ERROR]


def test_a_seed_draws_the_same_faults_each_time() -> None:
    drawn = [[(armed.fault, armed.skip) for armed in Faults().scatter(seed, 5)] for seed in (7, 7, 8)]

    assert drawn[0] == drawn[1] != drawn[2]


def test_the_gpu_may_be_older_than_the_one_asked_for(emulator: Emulator, api: httpx.Client) -> None:
    emulator.faults.arm(Fault.OLD_GPU)

    pods = [emulator.pods[create(api, name)] for name in ("tune-1", "tune-2")]

    assert [pod.contain(pod).capability for pod in pods] == ["7.0", "8.9"]


def test_an_exit_loop_starts_the_program_again_and_again(emulator: Emulator, api: httpx.Client) -> None:
    # How a trainer behaves in it is told in test_simulated.py.
    emulator.faults.arm(Fault.EXIT_LOOP)
    pod_id = create(api)

    assert emulator.pods[pod_id].fault(Fault.EXIT_LOOP) is not None


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
