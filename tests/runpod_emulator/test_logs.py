"""A Pod's log as a stream of events: from the tail, from a time, and from where it broke off."""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta

import httpx
import pytest

from tests.runpod_emulator import Emulator, VirtualClock
from tests.runpod_emulator.conftest import create


@pytest.fixture
def pod_id(emulator: Emulator, api: httpx.Client, clock: VirtualClock) -> str:
    """A Pod with four lines of its container, two seconds apart, and none of the system."""
    pod_id = create(api)
    logs = emulator.pods[pod_id].logs
    for i in range(1, 5):
        logs.add(clock() + timedelta(seconds=2 * i), "container", f"line {i}")
    return pod_id


def read(emulator: Emulator, pod_id: str, query: str = "", **headers: str) -> list[tuple[str, str]]:
    """Cursor and text of what a stream holds now."""
    text = emulator_client(emulator).get(f"/pods/{pod_id}/logs?{query}", headers=headers).text
    events = [event.split("\n") for event in text.split("\n\n") if event.startswith("id: ")]
    return [(lines[0].removeprefix("id: "), json.loads(lines[1].removeprefix("data: "))["line"]) for lines in events]


def emulator_client(emulator: Emulator) -> httpx.Client:
    emulator.world.wait = lambda: False
    return emulator.client()


def test_the_tail_comes_first(emulator: Emulator, pod_id: str) -> None:
    assert [text for _, text in read(emulator, pod_id, "tail=2")] == ["line 3", "line 4"]
    assert [text for _, text in read(emulator, pod_id)] == ["line 1", "line 2", "line 3", "line 4"]
    assert read(emulator, pod_id, "tail=0") == []


def test_a_broken_stream_goes_on_behind_its_last_line(emulator: Emulator, pod_id: str) -> None:
    cursor = read(emulator, pod_id)[1][0]

    assert cursor == "2026-12-01T12:00:04Z/000000000002"
    assert [text for _, text in read(emulator, pod_id, **{"Last-Event-ID": cursor})] == ["line 3", "line 4"]


def test_since_is_a_time(emulator: Emulator, pod_id: str) -> None:
    assert [text for _, text in read(emulator, pod_id, "since=2026-12-01T12:00:06Z")] == ["line 3", "line 4"]


def test_a_source_can_be_asked_for(emulator: Emulator, pod_id: str, clock: VirtualClock) -> None:
    clock.advance(minutes=1)

    system = [text for _, text in read(emulator, pod_id, "source=system")]

    assert system[0].startswith("create container")
    assert system[-1] == "start container"
    assert not any(text.startswith("line") for text in system)


@pytest.mark.parametrize("query", ["source=kernel", "tail=5001", "tail=x", "since=yesterday"])
def test_a_question_that_makes_no_sense_is_refused(emulator: Emulator, pod_id: str, query: str) -> None:
    assert emulator_client(emulator).get(f"/pods/{pod_id}/logs?{query}").status_code == 422


def test_a_followed_stream_tells_what_happens_and_ends_with_the_pod(
    emulator: Emulator, api: httpx.Client, pod_id: str, clock: VirtualClock
) -> None:
    seen: list[str] = []

    def follow() -> None:
        with api.stream("GET", f"/pods/{pod_id}/logs?tail=0", timeout=10) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            seen.extend(line for line in answer.iter_lines() if line.startswith("data"))

    reader = threading.Thread(target=follow)
    reader.start()
    while "pods.logs" not in [call.operation for call in emulator.world.calls]:
        time.sleep(0.01)
    emulator.pods[pod_id].say(clock(), "news")
    httpx.delete(f"{emulator.api_url}/pods/{pod_id}", headers={"authorization": f"Bearer {emulator.key}"})
    reader.join(timeout=10)

    assert [json.loads(line.removeprefix("data: "))["line"] for line in seen] == ["news", "remove container"]
