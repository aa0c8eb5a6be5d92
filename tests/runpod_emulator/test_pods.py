"""A Pod's life as the API shows it, on its best day."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.runpod_emulator import Emulator, EmulatorTransport, Pace, VirtualClock, World
from tests.runpod_emulator.conftest import L40S, create, pod_body


def test_a_pod_is_created_comes_up_and_is_deleted(emulator: Emulator, api: httpx.Client, clock: VirtualClock) -> None:
    pod_id = create(api)

    seen = [(pod["status"], pod["runtime"] is not None) for pod in _watch(api, clock, pod_id, (0, 6, 30, 8))]
    deleted = api.delete(f"/pods/{pod_id}")

    assert seen == [("PROVISIONING", False), ("STARTING", False), ("RUNNING", False), ("RUNNING", True)]
    assert deleted.status_code == 204
    assert deleted.content == b""
    assert api.get(f"/pods/{pod_id}").status_code == 404
    assert api.get("/pods").json() == {"pods": []}
    assert emulator.account.alive() == []
    assert emulator.account.creates("tune-1") == 1


def test_what_was_asked_for_comes_back(api: httpx.Client) -> None:
    pod_id = create(api)

    pod = api.get(f"/pods/{pod_id}").json()

    asked = pod_body()
    assert {name: pod[name] for name in ("name", "image", "env", "mounts", "entrypoint", "cmd", "disk")} == {
        name: asked[name] for name in ("name", "image", "env", "mounts", "entrypoint", "cmd", "disk")
    }
    assert (pod["cost"], pod["gpu"], pod["dataCenterId"]) == (0.86, {"id": L40S, "count": 1}, "EU-RO-1")
    assert api.get("/pods").json()["pods"] == [pod]


def test_uptime_counts_from_the_containers_start(api: httpx.Client, clock: VirtualClock) -> None:
    pod_id = create(api)

    clock.advance(seconds=100)

    assert api.get(f"/pods/{pod_id}").json()["runtime"]["uptime"] == 60


@pytest.mark.parametrize(
    ("seconds", "action", "status", "then"),
    [
        (0, "stop", 200, "EXITED"),
        (100, "stop", 200, "EXITED"),
        (100, "restart", 200, "RUNNING"),
        (0, "restart", 409, None),
        (100, "start", 409, None),
        (100, "terminate", 204, None),
    ],
)
def test_actions_are_legal_in_their_states(
    api: httpx.Client, clock: VirtualClock, seconds: float, action: str, status: int, then: str | None
) -> None:
    pod_id = create(api)
    clock.advance(seconds=seconds)
    legal = api.get(f"/pods/{pod_id}").json()["actions"]

    answer = api.post(f"/pods/{pod_id}/action", json={"action": action})

    assert answer.status_code == status
    assert (action in legal) == (status != 409)
    if then:
        assert answer.json()["status"] == then


def test_a_stopped_pod_costs_nothing_and_can_start_again(
    emulator: Emulator, api: httpx.Client, clock: VirtualClock
) -> None:
    pod_id = create(api)
    clock.advance(seconds=3600)
    stopped = api.post(f"/pods/{pod_id}/action", json={"action": "stop"}).json()
    clock.advance(hours=5)
    before = emulator.bill(pod_id)

    api.post(f"/pods/{pod_id}/action", json={"action": "start"})
    clock.advance(seconds=60)

    assert (stopped["cost"], stopped["runtime"]) == (0.0, None)
    assert before == Decimal("0.868219")
    assert api.get(f"/pods/{pod_id}").json()["runtime"]["uptime"] == 20
    assert emulator.pods[pod_id].boots == 2


def test_a_restart_begins_the_uptime_anew(emulator: Emulator, api: httpx.Client, clock: VirtualClock) -> None:
    pod_id = create(api)
    clock.advance(seconds=500)

    api.post(f"/pods/{pod_id}/action", json={"action": "restart"})
    clock.advance(seconds=10)

    assert api.get(f"/pods/{pod_id}").json()["runtime"]["uptime"] == 7
    assert emulator.pods[pod_id].boots == 2


def test_gpus_are_taken_from_the_stock_of_one_data_center_and_given_back(emulator: Emulator, api: httpx.Client) -> None:
    emulator.world.catalog.stock["EU-RO-1", L40S] = 1

    pod_id = create(api)
    refused = api.post("/pods", json=pod_body("tune-2"))
    api.delete(f"/pods/{pod_id}")
    again = api.post("/pods", json=pod_body("tune-3"))

    assert refused.status_code == 400
    assert "no longer any instances available" in refused.json()["detail"]
    assert again.status_code == 201
    assert emulator.account.creates("tune-2") == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"dataCenterIds": ["US-KS-2"]},
        {"gpu": {"id": L40S, "count": 9}},
        {"gpu": {"id": L40S, "minCudaVersion": "13.9"}},
        {"gpu": {"id": "NVIDIA GeForce RTX 3070"}},
    ],
    ids=["another data center than the volume's", "too many", "CUDA too new", "community only"],
)
def test_what_cannot_be_placed_reads_as_no_capacity(api: httpx.Client, changes: dict[str, Any]) -> None:
    refused = api.post("/pods", json=pod_body(**changes))

    assert refused.status_code == 400
    assert "no longer any instances available" in refused.json()["detail"]


def test_eight_gpus_cost_eight_times_as_much(api: httpx.Client) -> None:
    pod_id = create(api, gpu={"id": L40S, "count": 8})

    assert api.get(f"/pods/{pod_id}").json()["cost"] == pytest.approx(6.88)


def test_a_deleted_pod_may_linger_as_terminated(tmp_path: Path) -> None:
    world = World(tmp_path, pace=Pace(linger=60))
    account = world.add_account()
    pod = account.create(pod_body())

    account.delete(pod.id)

    assert account.find(pod.id).status == "TERMINATED"
    world.clock.sleep(61)
    assert account.shown() == []


def test_the_same_world_answers_without_a_socket(tmp_path: Path) -> None:
    world = World(tmp_path)
    account = world.add_account()
    key = next(iter(account.keys))
    client = httpx.Client(
        base_url=world.api_url, transport=EmulatorTransport(world), headers={"authorization": f"Bearer {key}"}
    )

    answer = client.post("/pods", json=pod_body())

    assert answer.status_code == 201
    assert [pod.name for pod in account.alive()] == ["tune-1"]
    assert [call.operation for call in world.calls] == ["pods.create"]


def _watch(api: httpx.Client, clock: VirtualClock, pod_id: str, seconds: tuple[float, ...]) -> list[dict[str, object]]:
    seen = []
    for step in seconds:
        clock.advance(seconds=step)
        seen.append(api.get(f"/pods/{pod_id}").json())
    return seen
