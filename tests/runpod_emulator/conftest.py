"""An emulator on real ports, and what a client of it needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config

from tests.runpod_emulator import Emulator, VirtualClock

L40S = "NVIDIA L40S"


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Emulator]:
    with Emulator(tmp_path) as emulator:
        yield emulator


@pytest.fixture
def clock(emulator: Emulator) -> VirtualClock:
    assert isinstance(emulator.clock, VirtualClock)
    return emulator.clock


@pytest.fixture
def api(emulator: Emulator) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {emulator.key}"}
    with httpx.Client(base_url=emulator.api_url, headers=headers, verify=False) as client:
        yield client


@pytest.fixture
def s3(emulator: Emulator) -> Iterator[Any]:
    client = s3_client(emulator)
    yield client
    client.close()


def s3_client(emulator: Emulator, **changes: Any) -> Any:
    access_key, secret = emulator.s3_keys
    settings = {
        "endpoint_url": emulator.s3_url,
        "region_name": emulator.volume.dc,
        "aws_access_key_id": access_key,
        "aws_secret_access_key": secret,
        "config": Config(
            s3={"addressing_style": "path"},
            retries={"max_attempts": 0},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    }
    return boto3.client("s3", **(settings | changes))


def pod_body(name: str = "tune-1", **changes: Any) -> dict[str, Any]:
    """A create call as the console sends it."""
    return {
        "name": name,
        "image": "registry.example/trainer@sha256:" + "a" * 64,
        "cloud": "SECURE",
        "gpu": {"id": L40S, "count": 1, "minCudaVersion": "12.8"},
        "dataCenterIds": ["EU-RO-1"],
        "mounts": {"network": [{"volumeId": "volume1", "path": "/workspace"}]},
        "disk": 60,
        "ports": [],
        "startSsh": False,
        "env": {"TENSORANT_MACHINE": name},
        "entrypoint": ["/opt/tensorant/boot"],
        "cmd": ["train", "--volume", "/workspace", "--job", "runs/1/in/1/job.json"],
    } | changes


def create(api: httpx.Client, name: str = "tune-1", **changes: Any) -> str:
    """A new Pod's id."""
    answer = api.post("/pods", json=pod_body(name, **changes))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])
