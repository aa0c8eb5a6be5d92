"""What every provider promises, on this computer, on RunPod's emulator, and on the fake that other tests use."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tensorant_app.domain.errors import Unsupported
from tensorant_app.domain.machines import Presence
from tensorant_app.domain.money import FREE, HourlyRate
from tensorant_app.providers import local
from tensorant_app.providers.base import Listed, MachineRequest, Provider
from tensorant_app.providers.local import LocalProvider
from tensorant_app.providers.runpod import RunPodProvider
from tensorant_app.providers.runpod_api import RunPodApi
from tests.fakes import INSTALLATION, RATE, FakeProvider
from tests.providers.answers import a_request
from tests.runpod_emulator import Emulator
from trainer.contract import BOOT, AttemptKeys, Boot, load

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
GONE = {Presence.ABSENT, Presence.GONE}


@dataclass
class Subject:
    """A provider, how its requests look, and how its time passes."""

    provider: Provider
    gpu_type: str
    rate: HourlyRate
    pass_time: Callable[[timedelta], object]
    volume_id: str = "volume1"

    def request(self, subject: str = "a") -> MachineRequest:
        keys = AttemptKeys.of("runs", subject, 1)
        command = ("train", "--volume", ".", "--job", f"{keys.inputs}/job.json")
        return a_request(
            name=f"tune-{subject}",
            outputs=keys.outputs,
            command=command,
            gpu_type=self.gpu_type,
            volume_id=self.volume_id,
        )

    def presence(self, request: MachineRequest) -> Presence:
        return self.provider.look(request.name, request.outputs, NOON).presence

    def listed(self, request: MachineRequest) -> list[Listed]:
        return [
            machine
            for machine in self.provider.listing()
            if machine.name == request.name and machine.presence not in GONE
        ]


@pytest.fixture(params=["this computer", "runpod", "fake"])
def subject(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Subject]:
    match request.param:
        case "this computer":
            yield from on_this_computer(tmp_path, monkeypatch)
        case "runpod":
            yield on_runpod(tmp_path)
        case _:
            yield Subject(FakeProvider(), "fake", RATE, lambda span: None)


def on_this_computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Subject]:
    monkeypatch.setattr(local, "_TERM_SECONDS", 1.0)
    python, volume = tmp_path / "python", tmp_path / "volume"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("sleeper.py")} "$@"\n')
    python.chmod(0o755)
    volume.mkdir()
    yield Subject(LocalProvider(python, volume, INSTALLATION), local.THIS_GPU_TYPE, FREE, lambda span: None)
    for path in volume.rglob(BOOT):
        if local.is_alive(boot := load(Boot, path.read_text())):
            os.killpg(boot.pid, signal.SIGKILL)
    for process in local._started:
        process.wait(10)


def on_runpod(tmp_path: Path) -> Subject:
    emulator = Emulator(tmp_path)
    client = httpx.Client(transport=emulator.transport())
    provider = RunPodProvider(RunPodApi(emulator.key, emulator.api_url, client), INSTALLATION)
    rate = HourlyRate.dollars("0.86")
    return Subject(
        provider, "NVIDIA L40S", rate, lambda span: emulator.clock.sleep(span.total_seconds()), emulator.volume.id
    )


def test_an_account_is_well_and_offers_what_can_be_asked_for(subject: Subject) -> None:
    offers = {offer.gpu_type: offer for offer in subject.provider.offers(1)}

    assert subject.provider.check() == []
    assert subject.provider.pause == timedelta(0)
    assert offers[subject.gpu_type].rate == subject.rate
    assert offers[subject.gpu_type].memory_bytes > 0
    assert offers[subject.gpu_type].label


def test_nothing_is_there_before_it_is_asked_for(subject: Subject) -> None:
    request = subject.request()

    assert subject.presence(request) in GONE
    assert subject.listed(request) == []


def test_what_was_made_is_seen_by_its_name_in_the_list_and_by_its_id(subject: Subject) -> None:
    request = subject.request()

    rented = subject.provider.create(request)

    sighting = subject.provider.look(request.name, request.outputs, NOON)
    (listed,) = subject.listed(request)
    assert (sighting.presence, sighting.provider_ids) == (Presence.PRESENT, (rented.provider_id,))
    assert sighting.at == NOON
    assert (listed.provider_id, listed.presence) == (rented.provider_id, Presence.PRESENT)
    assert listed.installation == INSTALLATION
    assert (listed.rate, rented.rate) == (subject.rate, subject.rate)
    assert subject.provider.find(rented.provider_id) == listed


def test_a_release_is_seen_and_may_be_repeated(subject: Subject) -> None:
    request, other = subject.request("a"), subject.request("b")
    rented = subject.provider.create(request)
    subject.provider.create(other)

    for _ in range(2):
        subject.provider.release(request.name, request.outputs, [rented.provider_id])

    found = subject.provider.find(rented.provider_id)
    assert subject.presence(request) in GONE
    assert subject.listed(request) == []
    assert found is None or found.presence is Presence.GONE
    assert subject.presence(other) is Presence.PRESENT


def test_releasing_what_never_was_is_a_success(subject: Subject) -> None:
    request = subject.request()

    subject.provider.release(request.name, request.outputs)

    assert subject.presence(request) in GONE


def test_one_machine_goes_by_its_id(subject: Subject) -> None:
    kept, ended = subject.request("a"), subject.request("b")
    subject.provider.create(kept)
    rented = subject.provider.create(ended)

    subject.provider.terminate(rented.provider_id)
    subject.provider.terminate(rented.provider_id)

    assert subject.presence(kept) is Presence.PRESENT
    assert subject.presence(ended) in GONE


def test_stopping_keeps_it_or_says_that_it_cannot(subject: Subject) -> None:
    request = subject.request()
    subject.provider.create(request)

    if subject.gpu_type == local.THIS_GPU_TYPE:
        with pytest.raises(Unsupported, match="release it"):
            subject.provider.stop(request.name)
        assert subject.presence(request) is Presence.PRESENT
    else:
        subject.provider.stop(request.name)
        assert subject.presence(request) is Presence.STOPPED


def test_a_log_is_read_on_from_any_line_of_it(subject: Subject) -> None:
    rented = subject.provider.create(subject.request())
    subject.pass_time(timedelta(minutes=5))

    lines = list(subject.provider.logs(rented.provider_id))

    for number, line in enumerate(lines):
        assert line.source in {"container", "system"}
        behind = list(subject.provider.logs(rented.provider_id, line.cursor))
        assert [one.text for one in behind] == [one.text for one in lines[number + 1 :]]


def test_a_bill_is_in_hours_that_touch_the_span(subject: Subject) -> None:
    rented = subject.provider.create(subject.request())
    subject.pass_time(timedelta(hours=9))

    lines = subject.provider.bill(rented.provider_id, NOON, NOON + timedelta(hours=2))

    assert all(line.start < NOON + timedelta(hours=2) and line.end > NOON for line in lines)
    assert list(lines) == sorted(lines, key=lambda line: line.start)
    assert not (subject.provider.free and lines)
