"""RunPod's own Python package, pointed at the emulator: it reads the fields that we share as we do."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest

from tensorant_app.providers.runpod import RunPodProvider
from tensorant_app.providers.runpod_api import RunPodApi
from tests.providers.answers import INSTALLATION, a_request
from tests.runpod_emulator import Emulator


def speaks_v2() -> bool:
    """Up to 1.12.0 its Pods go through GraphQL, which REST API v2 and the emulator don't have."""
    return importlib.util.find_spec("runpod") is not None and importlib.util.find_spec("runpod.api.rest") is not None


@pytest.mark.skipif(not speaks_v2(), reason="No version of the package `runpod` that speaks REST API v2 is installed.")
def test_it_sees_the_pod_that_we_asked_for_as_we_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Emulator(tmp_path) as emulator:
        provider = RunPodProvider(RunPodApi(emulator.key, emulator.api_url), INSTALLATION)
        provider.create(a_request(volume_id=emulator.volume.id, data_center=emulator.volume.dc))
        (ours,) = provider.listing()
        monkeypatch.setenv("RUNPOD_API_BASE_URL", emulator.api_url.removesuffix("/v2"))
        package = importlib.import_module("runpod")
        monkeypatch.setattr(package, "api_key", emulator.key)
        (theirs,) = package.get_pods()

    told = (theirs["id"], theirs["name"], theirs["status"], theirs["gpu"]["id"], theirs["gpu"]["count"])
    assert told == (ours.provider_id, ours.name, ours.provider_status, ours.gpu_type, ours.gpu_count)
