"""What the API refuses and how, and what every answer carries."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.runpod_emulator import Access, Emulator, Key, VirtualClock
from tests.runpod_emulator.conftest import L40S, create, pod_body


def test_a_request_without_a_key_is_refused_before_its_body_is_read(emulator: Emulator) -> None:
    answers = [
        httpx.post(f"{emulator.api_url}/pods", json={"volumeInGb": 5}),
        httpx.post(f"{emulator.api_url}/pods", json={}, headers={"authorization": "Bearer rpa_wrong"}),
    ]

    assert [answer.status_code for answer in answers] == [401, 401]
    assert answers[0].json() == {"title": "Unauthorized", "status": 401, "detail": "missing bearer token"}
    assert answers[0].headers["content-type"] == "application/problem+json"


def test_every_answer_has_a_request_id_and_tells_the_quota(api: httpx.Client) -> None:
    first, second = api.get("/pods"), api.get("/pods")

    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert second.headers["ratelimit"].startswith('"minute";r=178;')
    assert second.headers["ratelimit-policy"] == '"minute";q=180;w=60, "hour";q=7200;w=3600'


def test_beyond_the_quota_comes_429_with_the_seconds_to_wait(
    emulator: Emulator, api: httpx.Client, clock: VirtualClock
) -> None:
    emulator.world.rates.minute = 2
    clock.advance(seconds=48)

    statuses = [api.get("/pods").status_code for _ in range(3)]
    refused = api.get("/pods")
    clock.advance(seconds=12)

    assert statuses == [200, 200, 429]
    assert refused.headers["retry-after"] == "12"
    assert api.get("/pods").status_code == 200


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"volumeInGb": 5}, "$: additional properties 'volumeInGb' not allowed"),
        ({"gpu": {"id": L40S, "ids": ["a"]}}, "$.gpu: additional properties 'ids' not allowed"),
        ({"gpu": {"count": 1}}, "$.gpu: missing properties 'id'"),
        ({"gpu": {"id": L40S, "count": 0}}, "$.gpu.count: minimum: got 0, want 1"),
        ({"disk": "forty"}, "$.disk: got string, want integer"),
        ({"env": {"A": 1}}, "$.env.A: got integer, want string"),
        ({"name": ""}, "$.name: minLength: got 0, want 1"),
        ({"cloud": "MOON"}, "$.cloud: value must be one of 'SECURE', 'COMMUNITY'"),
        (
            {"gpu": {"id": L40S, "minCudaVersion": "12"}},
            r"$.gpu.minCudaVersion: '12' does not match pattern '^\\d+\\.\\d+$'",
        ),
        ({"mounts": {"network": [{}, {}]}}, "$.mounts.network: maxItems: got 2, want 1"),
    ],
)
def test_a_body_that_breaks_the_contract_is_422_and_names_the_field(
    api: httpx.Client, changes: dict[str, Any], error: str
) -> None:
    answer = api.post("/pods", json=pod_body(**changes))

    assert answer.status_code == 422
    assert error in answer.json()["errors"]


@pytest.mark.parametrize(
    ("changes", "status", "detail"),
    [
        ({"mounts": {"network": [{"volumeId": "volume1", "path": "/a"}], "persistent": {"size": 10, "path": "/b"}}}, 400, "mutually exclusive"),
        ({"gpu": {"id": L40S, "minCudaVersion": "12.8", "allowedCudaVersions": ["12.8"]}}, 400, "mutually exclusive"),
        ({"cloud": "COMMUNITY"}, 400, "secure cloud"),
        ({"gpu": {"id": "NVIDIA Imaginary"}}, 400, "does not exist"),
        ({"env": {f"N{i}": "" for i in range(51)}}, 400, "at most 50"),
        ({"mounts": {"network": [{"volumeId": "nobody", "path": "/a"}]}}, 404, "network volume not found"),
    ],
)  # fmt: skip
def test_rules_over_several_fields_are_told_in_words(
    api: httpx.Client, changes: dict[str, Any], status: int, detail: str
) -> None:
    answer = api.post("/pods", json=pod_body(**changes))

    assert answer.status_code == status
    assert detail in answer.json()["detail"]


def test_a_body_that_is_too_large_is_413_even_without_a_key(emulator: Emulator) -> None:
    answer = httpx.post(f"{emulator.api_url}/pods", json={"name": "a" * 102_400})

    assert answer.status_code == 413


def test_a_body_that_is_no_json_is_400(api: httpx.Client) -> None:
    assert api.post("/pods", content=b"{").status_code == 400


def test_without_credit_nothing_is_created(emulator: Emulator, api: httpx.Client) -> None:
    emulator.account.balance *= 0

    answer = api.post("/pods", json=pod_body())

    assert answer.status_code == 402
    assert emulator.account.alive() == []


def test_a_key_may_what_it_may(emulator: Emulator, api: httpx.Client) -> None:
    pod_id = create(api)
    reader = _with_key(emulator, Key("rpa_reader", Access.READ))
    pods_only = _with_key(emulator, Key("rpa_pods", areas={"pods"}))

    assert reader.get("/pods").status_code == 200
    assert reader.delete(f"/pods/{pod_id}").status_code == 403
    assert reader.post("/pods", json={}).status_code == 403
    assert pods_only.get("/network-volumes").status_code == 403
    assert pods_only.delete(f"/pods/{pod_id}").status_code == 204


def test_the_key_inside_a_pod_may_delete_that_pod_alone(emulator: Emulator, api: httpx.Client) -> None:
    own, other = create(api), create(api, "tune-2")
    inside = _with_key(emulator, emulator.account.keys[f"rpa_pod_{own}"])

    assert inside.get("/pods").status_code == 403
    assert inside.delete(f"/pods/{other}").status_code == 403
    assert inside.delete(f"/pods/{own}").status_code == 204


def test_an_account_sees_nothing_of_another(emulator: Emulator, api: httpx.Client) -> None:
    stranger = emulator.world.add_account()
    pod = stranger.create(pod_body(mounts={}))

    assert api.get(f"/pods/{pod.id}").status_code == 404
    assert api.get("/pods").json() == {"pods": []}


def test_unknown_paths_and_methods_are_told(api: httpx.Client) -> None:
    unknown, wrong = api.get("/clusters"), api.put("/pods")

    assert unknown.status_code == 404
    assert wrong.status_code == 405
    assert wrong.headers["allow"] == "GET, POST"


def test_a_pod_can_be_renamed(api: httpx.Client) -> None:
    pod_id = create(api)

    assert api.patch(f"/pods/{pod_id}", json={"name": "other"}).json()["name"] == "other"


def test_volumes_grow_and_never_shrink(api: httpx.Client) -> None:
    made = api.post("/network-volumes", json={"name": "more", "size": 20, "dataCenter": "US-KS-2"}).json()
    path = f"/network-volumes/{made['id']}"

    assert made == {"id": made["id"], "name": "more", "size": 20, "dataCenter": "US-KS-2", "type": "STANDARD"}
    assert api.patch(path, json={"size": 30}).json()["size"] == 30
    assert api.patch(path, json={"size": 20}).status_code == 400
    assert api.post("/network-volumes", json={"name": "x", "size": 5, "dataCenter": "US-KS-2"}).status_code == 422
    assert api.post("/network-volumes", json={"name": "x", "size": 20, "dataCenter": "US-TX-4"}).status_code == 400
    assert len(api.get("/network-volumes").json()["networkVolumes"]) == 2
    assert api.delete(path).status_code == 204
    assert api.get(path).status_code == 404


def test_a_secret_is_never_read_back(api: httpx.Client) -> None:
    made = api.post("/account/secrets", json={"name": "hf", "value": "hf_private"})

    again = api.post("/account/secrets", json={"name": "hf", "value": "x"})

    assert "hf_private" not in made.text + api.get("/account/secrets").text
    assert again.status_code == 409
    assert api.delete(f"/account/secrets/{made.json()['id']}").status_code == 204


def test_registry_credentials_show_their_name_alone(api: httpx.Client) -> None:
    made = api.post("/registries", json={"name": "ghcr", "username": "u", "password": "p"}).json()

    assert made == {"id": made["id"], "name": "ghcr"}
    assert api.get("/registries").json() == {"registries": [made]}


def test_the_catalog_tells_price_and_stock_per_data_center(emulator: Emulator, api: httpx.Client) -> None:
    emulator.world.catalog.stock["EU-RO-1", L40S] = 2
    emulator.world.catalog.stock["EU-CZ-1", L40S] = 0
    asked = {"include": "AVAILABILITY", "product": "POD", "minCudaVersion": "12.8", "count": "1"}

    gpu = next(g for g in api.get("/catalog/gpus", params=asked).json()["gpus"] if g["id"] == L40S)
    levels = {dc["id"]: dc["availability"] for dc in gpu["dataCenters"]}

    assert (gpu["price"]["secure"], gpu["memory"], gpu["maxCount"]["secure"]) == (0.86, 48, 8)
    assert levels == {"EU-RO-1": "LOW", "EU-CZ-1": "NONE", "US-KS-2": "HIGH", "US-TX-4": "HIGH"}
    assert {"version": "12.8", "available": True} in gpu["cudaVersions"]
    assert api.get(f"/catalog/gpus/{L40S}").json()["id"] == L40S
    assert "availability" not in api.get(f"/catalog/gpus/{L40S}").json()


def test_availability_needs_a_product_and_a_product_needs_availability(api: httpx.Client) -> None:
    assert api.get("/catalog/gpus?include=AVAILABILITY").status_code == 400
    assert api.get("/catalog/gpus?product=POD").status_code == 400
    assert api.get("/catalog/gpus?count=2").status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/pods?includeClusterPods=5",
        "/catalog/gpus?include=EVERYTHING&product=POD",
        "/catalog/gpus?include=AVAILABILITY&product=MOON",
        "/catalog/datacenters?include=WEATHER",
        "/catalog/datacenters?globalNetwork=maybe",
    ],
)
def test_a_known_parameter_with_a_word_that_it_does_not_take_is_422(api: httpx.Client, path: str) -> None:
    assert api.get(path).status_code == 422


def test_data_centers_tell_where_volumes_can_be(api: httpx.Client) -> None:
    answer = api.get("/catalog/datacenters?include=GPU_AVAILABILITY").json()["dataCenters"]

    assert {dc["id"]: dc["networkVolumeTypes"] for dc in answer}["US-TX-4"] == []
    assert {gpu["id"]: gpu["availability"] for gpu in answer[0]["gpuAvailability"]}[L40S] == "HIGH"
    assert api.get("/catalog/datacenters/EU-RO-1").json()["id"] == "EU-RO-1"
    assert api.get("/catalog/datacenters/MOON-1").status_code == 404


def test_query_parameters_that_nobody_knows_are_ignored(api: httpx.Client) -> None:
    assert api.get("/pods?name=tune-1&desiredStatus=RUNNING").status_code == 200


def _with_key(emulator: Emulator, key: Key) -> httpx.Client:
    emulator.world.add_key(emulator.account, key)
    return httpx.Client(
        base_url=emulator.api_url, transport=emulator.transport(), headers={"authorization": f"Bearer {key.token}"}
    )


def test_bodies_are_json_as_they_are_told_to_be(api: httpx.Client) -> None:
    answer = api.get("/pods")

    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.content) == {"pods": []}
