"""Our shapes against the provider's own description, where that file is at hand, and against a validator that is not ours."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
import referencing
import referencing.jsonschema

from tests.runpod_emulator import Emulator, VirtualClock
from tests.runpod_emulator.conftest import L40S, create, pod_body
from tests.runpod_emulator.schema import errors_in
from tests.runpod_emulator.shapes import ANSWERS, BODIES

ROOT = Path(__file__).resolve().parents[2]
NAMES = {
    "pods.create": "CreatePodRequest",
    "pods.update": "UpdatePodRequest",
    "pods.action": "PodActionRequest",
    "volumes.create": "CreateNetworkVolumeRequest",
    "volumes.update": "UpdateNetworkVolumeRequest",
    "registries.create": "CreateRegistryRequest",
}
"""Our operation → the name of its body in the provider's description."""
PATHS = {
    "/pods": "ListPodsResponse",
    "/pods/{pod}": "Pod",
    "/network-volumes": "ListNetworkVolumesResponse",
    "/network-volumes/volume1": "NetworkVolume",
    "/registries": "ListRegistriesResponse",
    "/catalog/gpus?include=AVAILABILITY&product=POD": "ListGpuTypesResponse",
    f"/catalog/gpus/{L40S}": "GpuType",
    "/catalog/datacenters?include=GPU_AVAILABILITY": "ListDataCentersResponse",
    "/billing/pods?bucketSize=hour&lastN=9": "ListPodBillingResponse",
    "/billing/network-volumes?bucketSize=day&lastN=2": "ListNetworkVolumeBillingResponse",
    "/pods/nobody": "ErrorResponse",
}
"""What we answer → what the provider says that it answers."""
ODD_BODIES: list[dict[str, Any]] = [
    {},
    {"name": ""},
    pod_body(),
    pod_body(stray=1),
    pod_body(disk=0),
    pod_body(disk="forty"),
    pod_body(disk=True),
    pod_body(env={"A": 1}),
    pod_body(ports="80"),
    pod_body(registry=None),
    pod_body(cloud="MOON"),
    pod_body(gpu={"id": L40S, "count": 0}),
    pod_body(gpu={"id": L40S, "minCudaVersion": "12"}),
    pod_body(gpu={"id": L40S, "stray": 1}),
    pod_body(mounts={"network": [{"volumeId": "a", "path": "/w"}, {"volumeId": "b", "path": "/w"}]}),
    pod_body(mounts={"persistent": {"size": 5, "path": "/w"}}),
    {"action": "start"},
    {"action": "reset"},
    {"name": "v", "size": 5, "dataCenter": "EU-RO-1"},
    {"name": "v", "size": 20, "dataCenter": "EU-RO-1", "type": "FAST"},
    {"name": "r", "username": "u", "password": ""},
    {"size": 20},
    {"size": 20.0},
    {"size": 20.5},
]


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    named = os.environ.get("RUNPOD_OPENAPI")
    path = Path(named) if named else ROOT.parent / "shared" / "runpod" / "rest-v2-tensorant.json"
    if not path.is_file():
        pytest.skip("The provider's description is not here; name its file in RUNPOD_OPENAPI.")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("operation", sorted(BODIES))
def test_our_validator_agrees_with_another_one(operation: str) -> None:
    other = jsonschema.Draft202012Validator(BODIES[operation])

    for body in ODD_BODIES:
        assert bool(errors_in(BODIES[operation], body)) == bool(list(other.iter_errors(body))), body


@pytest.mark.parametrize("operation", sorted(NAMES))
def test_we_accept_and_refuse_what_the_provider_does(description: dict[str, Any], operation: str) -> None:
    theirs = _validator(description, NAMES[operation])

    for body in ODD_BODIES:
        # That an image is needed without a template is a rule of two fields, which api.py holds.
        if operation == "pods.create" and "image" not in body:
            continue
        assert bool(errors_in(BODIES[operation], body)) == bool(list(theirs.iter_errors(body))), body


@pytest.mark.parametrize("operation", sorted(NAMES))
def test_we_know_every_field_of_a_request(description: dict[str, Any], operation: str) -> None:
    theirs = _fields(description, description["components"]["schemas"][NAMES[operation]])

    assert set(BODIES[operation]["properties"]) == theirs


@pytest.mark.parametrize("path", PATHS)
def test_what_we_answer_is_what_the_provider_describes(
    description: dict[str, Any], api: httpx.Client, clock: VirtualClock, path: str
) -> None:
    pod_id = create(api)
    clock.advance(hours=2)

    answer = api.get(path.format(pod=pod_id)).json()

    assert list(_validator(description, PATHS[path]).iter_errors(answer)) == []


def test_every_answer_of_ours_has_a_shape(emulator: Emulator) -> None:
    assert emulator.world.checks_answers
    assert {"pods.get", "gpus.list", "billing.pods", "secrets.list"} <= set(ANSWERS)


def test_an_answer_of_ours_that_were_wrong_would_be_noticed(emulator: Emulator, api: httpx.Client) -> None:
    pod_id = create(api)
    emulator.pods[pod_id].spec = {**emulator.pods[pod_id].spec, "disk": "forty"}

    with pytest.raises(AssertionError, match=r"disk: got string, want integer"):
        emulator.client().get(f"/pods/{pod_id}")


def _validator(description: dict[str, Any], name: str) -> Any:
    resource = referencing.jsonschema.DRAFT202012.create_resource(description)
    registry: Any = referencing.Registry().with_resource("urn:provider", resource)
    schema = {"$ref": f"urn:provider#/components/schemas/{name}"}
    return jsonschema.Draft202012Validator(schema, registry=registry)


def _fields(description: dict[str, Any], schema: dict[str, Any]) -> set[str]:
    if "$ref" in schema:
        return _fields(description, description["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    return set(schema.get("properties", {})).union(*(_fields(description, part) for part in schema.get("allOf", ())))
