"""What may become of a Pod once it was asked for, fault by fault."""

from __future__ import annotations

from decimal import Decimal

import httpx
import pytest

from tests.runpod_emulator import Emulator, Fault, VirtualClock
from tests.runpod_emulator.conftest import create
from tests.runpod_emulator.faults import Faults


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
