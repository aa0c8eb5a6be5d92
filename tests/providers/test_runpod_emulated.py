"""RunPod on its worst days, as the emulator plays them: what our one call brings back, and what is really there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
import referencing
import referencing.jsonschema

from tensorant_app.domain.errors import AuthFailed, DenialReason, Denied, Transient, Unknown
from tensorant_app.domain.machines import Presence
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.providers.base import Storage
from tensorant_app.providers.runpod import RunPodProvider
from tensorant_app.providers.runpod_api import RunPodApi
from tests.conftest import NOON
from tests.providers.answers import INSTALLATION, a_request
from tests.runpod_emulator import Container, Emulator, Fault, Idle, VirtualClock

SPEC = Path(__file__).parents[3] / "shared/runpod/rest-v2-tensorant.json"


class Recorded(httpx.BaseTransport):
    """Passes on to the emulator, and keeps what was said."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self.inner = inner
        self.said: list[tuple[httpx.Request, httpx.Response]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self.inner.handle_request(request)
        self.said.append((request, response))
        return response


@pytest.fixture
def emulator(tmp_path: Path) -> Emulator:
    return Emulator(tmp_path)


@pytest.fixture
def clock(emulator: Emulator) -> VirtualClock:
    assert isinstance(emulator.clock, VirtualClock)
    return emulator.clock


@pytest.fixture
def wire(emulator: Emulator) -> Recorded:
    return Recorded(emulator.transport())


@pytest.fixture
def provider(emulator: Emulator, wire: Recorded) -> Iterator[RunPodProvider]:
    with httpx.Client(transport=wire) as client:
        yield RunPodProvider(RunPodApi(emulator.key, emulator.api_url, client), INSTALLATION)


def presence(provider: RunPodProvider) -> Presence:
    return provider.look("tune-a", "", NOON).presence


@pytest.fixture
def request_(emulator: Emulator) -> Any:
    return a_request(volume_id=emulator.volume.id)


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.ERROR_AFTER])
def test_a_lost_answer_is_unknown_and_the_pod_is_found_by_its_name(
    emulator: Emulator, provider: RunPodProvider, request_: Any, fault: Fault
) -> None:
    emulator.faults.arm(fault)

    with pytest.raises(Unknown):
        provider.create(request_)

    assert emulator.account.creates("tune-a") == 1
    assert provider.look("tune-a", "", NOON).provider_ids == tuple(emulator.pods)


@pytest.mark.parametrize(
    ("fault", "error"), [(Fault.REQUEST_LOST, Unknown), (Fault.ERROR, Unknown), (Fault.HTML, Unknown)]
)
def test_a_call_that_did_nothing_looks_the_same_and_is_not_repeated(
    emulator: Emulator, provider: RunPodProvider, request_: Any, fault: Fault, error: type[Exception]
) -> None:
    emulator.faults.arm(fault, on="pods.create", times=-1)

    with pytest.raises(error):
        provider.create(request_)

    assert len([call for call in emulator.world.calls if call.operation == "pods.create"]) == 1
    assert presence(provider) is Presence.ABSENT


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault.NO_CAPACITY, DenialReason.CAPACITY),
        (Fault.NO_MONEY, DenialReason.MONEY),
        (Fault.RATE_LIMITED, DenialReason.QUOTA),
    ],
)
def test_a_refusal_is_definite(
    emulator: Emulator, provider: RunPodProvider, request_: Any, fault: Fault, reason: DenialReason
) -> None:
    emulator.faults.arm(fault, on="pods.create")

    with pytest.raises(Denied) as caught:
        provider.create(request_)

    assert caught.value.reason is reason
    assert caught.value.request_id
    assert emulator.account.alive() == []


def test_the_volumes_data_center_is_kept_and_another_one_is_no_capacity(
    emulator: Emulator, provider: RunPodProvider
) -> None:
    with pytest.raises(Denied) as caught:
        provider.create(a_request(volume_id=emulator.volume.id, data_center="US-KS-2"))

    assert caught.value.is_capacity


def test_a_key_that_was_revoked_is_no_absence(emulator: Emulator, provider: RunPodProvider, request_: Any) -> None:
    provider.create(request_)
    emulator.faults.arm(Fault.KEY_REVOKED, seconds=60)

    with pytest.raises(AuthFailed):
        provider.look("tune-a", "", NOON)
    assert len(emulator.account.alive()) == 1


def test_a_hidden_pod_is_deleted_by_its_id_as_soon_as_it_can_be(
    emulator: Emulator, clock: VirtualClock, provider: RunPodProvider, request_: Any
) -> None:
    emulator.faults.arm(Fault.HIDDEN, seconds=45)
    rented = provider.create(request_)

    provider.release("tune-a", "", [rented.provider_id])
    assert provider.find(rented.provider_id) is None
    assert len(emulator.account.alive()) == 1  # a 404 was no proof

    clock.advance(seconds=60)
    assert presence(provider) is Presence.PRESENT
    provider.release("tune-a", "", [rented.provider_id])
    assert emulator.account.alive() == []


def test_twins_are_both_seen_and_both_released(emulator: Emulator, provider: RunPodProvider, request_: Any) -> None:
    emulator.faults.arm(Fault.TWIN)
    provider.create(request_)

    assert set(provider.look("tune-a", "", NOON).provider_ids) == set(emulator.pods)
    provider.release("tune-a", "")

    assert emulator.account.alive() == []


def test_a_delete_that_is_refused_says_so(emulator: Emulator, provider: RunPodProvider, request_: Any) -> None:
    provider.create(request_)
    emulator.faults.arm(Fault.DELETE_REFUSED)

    with pytest.raises(Transient, match="could not delete Pods"):
        provider.release("tune-a", "")

    assert presence(provider) is Presence.PRESENT


def test_the_real_price_is_told_at_once(emulator: Emulator, provider: RunPodProvider, request_: Any) -> None:
    emulator.faults.arm(Fault.PRICE_ABOVE_QUOTE)

    assert provider.create(request_).rate == HourlyRate.dollars("1.333")


def test_a_price_that_is_not_told_is_none(emulator: Emulator, provider: RunPodProvider, request_: Any) -> None:
    emulator.faults.arm(Fault.COST_UNTOLD)

    assert provider.create(request_).rate is None
    assert [machine.rate for machine in provider.listing()] == [None]


def test_a_status_that_nobody_documented_is_unknown_and_there(
    emulator: Emulator, provider: RunPodProvider, request_: Any
) -> None:
    emulator.faults.arm(Fault.UNKNOWN_STATUS)
    rented = provider.create(request_)

    sighting = provider.look("tune-a", "", NOON)

    assert (sighting.presence, sighting.provider_ids) == (Presence.UNKNOWN, (rented.provider_id,))


@pytest.mark.parametrize(("fault", "words"), [(Fault.IMAGE_PULL, "pull"), (Fault.OLD_DRIVER, "cuda")])
def test_why_a_machine_does_not_come_up_stands_in_its_log(
    emulator: Emulator, clock: VirtualClock, provider: RunPodProvider, request_: Any, fault: Fault, words: str
) -> None:
    emulator.faults.arm(fault)
    rented = provider.create(request_)
    clock.advance(minutes=5)

    lines = [line for line in provider.logs(rented.provider_id) if line.source == "system"]

    assert any(words in line.text.lower() for line in lines)
    assert all(machine.uptime_s is None for machine in provider.listing())


def test_the_bill_is_the_emulators_own(
    emulator: Emulator, clock: VirtualClock, provider: RunPodProvider, request_: Any
) -> None:
    emulator.faults.arm(Fault.BILLING_SPLIT)
    rented = provider.create(request_)
    clock.advance(minutes=90)
    provider.release("tune-a", "")
    assert provider.bill(rented.provider_id, NOON, NOON + timedelta(hours=2)) != []
    clock.advance(hours=12)

    lines = provider.bill(rented.provider_id, NOON, NOON + timedelta(hours=2))

    assert Money.total(line.amount for line in lines) == Money.dollars(emulator.bill(rented.provider_id))


def test_a_secret_reaches_the_machine_and_no_list(tmp_path: Path) -> None:
    containers: list[Container] = []

    def start(container: Container, at: Any) -> Idle:
        containers.append(container)
        return Idle(container, at)

    emulator = Emulator(tmp_path, start=start)
    with httpx.Client(transport=emulator.transport()) as client:
        provider = RunPodProvider(RunPodApi(emulator.key, emulator.api_url, client), INSTALLATION)
        provider.put_secret("tensorant_hf", "hf_first")
        provider.put_secret("tensorant_hf", "hf_value")
        provider.create(a_request(volume_id=emulator.volume.id, secrets={"HF_TOKEN": "tensorant_hf"}))
        emulator.clock.sleep(300)
        shown = client.get(f"{emulator.api_url}/pods", headers={"Authorization": f"Bearer {emulator.key}"}).text

    assert [container.env["HF_TOKEN"] for container in containers] == ["hf_value"]
    assert "hf_value" not in shown


def test_many_looks_in_a_minute_ask_for_a_rest(provider: RunPodProvider) -> None:
    while provider.pause == timedelta(0):
        provider.listing()

    assert timedelta(0) < provider.pause <= timedelta(minutes=1)


def test_every_request_and_answer_fits_runpods_own_description(
    emulator: Emulator, clock: VirtualClock, provider: RunPodProvider, wire: Recorded
) -> None:
    """The emulator refuses what its own shapes refuse; the provider's file, where it is at hand, is the second judge."""
    provider.check()
    provider.offers(2)
    provider.volumes()
    rented = provider.create(a_request(volume_id=emulator.volume.id))
    own = provider.create(a_request(name="tune-b", storage=Storage.POD, volume_id=None, data_center=None))
    clock.advance(hours=3)
    provider.find(rented.provider_id)
    list(provider.logs(rented.provider_id))
    provider.bill(rented.provider_id, NOON, clock())
    provider.bill_volume(emulator.volume.id, NOON, clock())
    provider.stop("tune-b")
    provider.release("tune-a", "")
    provider.terminate(own.provider_id)

    assert {response.status_code for _, response in wire.said} == {200, 201, 204}
    if not SPEC.exists():
        pytest.skip("RunPod's own description is not part of the project")
    spec = json.loads(SPEC.read_text())
    for request, response in wire.said:
        check_against(spec, request, response)


def check_against(spec: Mapping[str, Any], request: httpx.Request, response: httpx.Response) -> None:
    template, operation = operation_of(spec, request)
    parameters = [resolved(spec, one) for one in (*operation.get("parameters", ()), *template.get("parameters", ()))]
    assert set(request.url.params) <= {one["name"] for one in parameters if one["in"] == "query"}, request.url
    if request.content:
        validate(spec, operation["requestBody"]["content"]["application/json"]["schema"], json.loads(request.content))
    told = resolved(spec, operation["responses"][str(response.status_code)]).get("content", {})
    if "application/json" in told:
        validate(spec, told["application/json"]["schema"], response.json())


def operation_of(spec: Mapping[str, Any], request: httpx.Request) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    for path, template in spec["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), request.url.path):
            return template, template[request.method.lower()]
    raise AssertionError(f"{request.url.path} is not described")


def resolved(spec: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object that a reference of the form #/components/… names."""
    found: Any = value
    if "$ref" in value:
        found = spec
        for part in value["$ref"].removeprefix("#/").split("/"):
            found = found[part]
    return dict(found)


def validate(spec: Mapping[str, Any], schema: Mapping[str, Any], value: Any) -> None:
    resource = referencing.Resource.from_contents(dict(spec), referencing.jsonschema.DRAFT202012)
    registry = referencing.Registry().with_resource("urn:spec", resource)
    absolute = json.loads(json.dumps(dict(schema)).replace('"#/', '"urn:spec#/'))
    jsonschema.Draft202012Validator(absolute, registry=registry).validate(value)
