"""RunPod's answers as a test writes them down, and a client that gives nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from tensorant_app.providers.base import MachineRequest
from tensorant_app.providers.runpod import RunPodProvider
from tensorant_app.providers.runpod_api import RunPodApi

INSTALLATION = "an-installation"
IMAGE = "registry.example.org/trainer@sha256:" + "0" * 64
CAPACITY = (
    "There are no longer any instances available with the requested specifications. Please refresh and try again."
)

Reply = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class Answers:
    """Gives the replies in their order, the last one for ever, and keeps every request."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, httpx.Response) else reply(request)

    @property
    def sent(self) -> list[str]:
        return [f"{request.method} {request.url.path}" for request in self.requests]

    def body(self, number: int = 0) -> Any:
        return json.loads(self.requests[number].content)


def account(answers: Answers) -> RunPodProvider:
    client = httpx.Client(transport=httpx.MockTransport(answers))
    return RunPodProvider(RunPodApi("rpa_secret", "https://api.example.org", client), INSTALLATION)


def problem(status: int, detail: str, errors: Sequence[str] = (), **headers: str) -> httpx.Response:
    body = {"title": "Problem", "status": status, "detail": detail} | ({"errors": list(errors)} if errors else {})
    told = {"content-type": "application/problem+json", "x-request-id": "req-7"} | headers
    return httpx.Response(status, json=body, headers=told)


def pod(**fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": "pod_a",
        "name": "tune-a",
        "status": "RUNNING",
        "actions": ["stop", "restart", "terminate"],
        "env": {"TENSORANT_INSTALLATION": INSTALLATION},
        "gpu": {"id": "NVIDIA L40S", "count": 1},
        "cost": 0.86,
        "dataCenterId": "EU-RO-1",
        "runtime": {"uptime": 30},
        "createdAt": "2026-12-01T12:00:00Z",
        "startedAt": "2026-12-01T12:01:00Z",
        "somethingNew": {"nobody": "knows"},
    }
    return made | fields


def pods(*listed: dict[str, Any], **more: Any) -> httpx.Response:
    return httpx.Response(200, json={"pods": list(listed)} | more)


def a_request(**changes: Any) -> MachineRequest:
    fields: dict[str, Any] = {
        "name": "tune-a",
        "gpu_type": "NVIDIA L40S",
        "command": ("train", "--volume", ".", "--job", "runs/a/in/1/job.json"),
        "outputs": "runs/a/out/1",
        "environment": {"TENSORANT_RUN": "a"},
        "image": IMAGE,
        "data_center": "EU-RO-1",
        "volume_id": "vol1",
    }
    return MachineRequest(**fields | changes)
