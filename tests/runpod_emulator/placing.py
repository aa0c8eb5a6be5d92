"""The rules of a create call that span several fields, and where its Pod may be placed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.runpod_emulator.catalog import Catalog, Gpu
from tests.runpod_emulator.things import Things
from tests.runpod_emulator.wire import ApiError

MOST_VARIABLES = 50
_NOWHERE = "nowhere"


def placeable(body: Mapping[str, Any], catalog: Catalog, things: Things) -> tuple[Gpu, int, Sequence[str]]:
    """GPU type, count and data centers (none: all), or `ApiError` where a rule is broken."""
    mounts, gpu = body.get("mounts", {}), body.get("gpu")
    if gpu is None:
        raise ApiError(400, "gpu is required: this emulator rents no CPU pods")
    if "persistent" in mounts and "network" in mounts:
        raise ApiError(400, "mounts.persistent and mounts.network are mutually exclusive")
    if "allowedCudaVersions" in gpu and "minCudaVersion" in gpu:
        raise ApiError(400, "gpu.allowedCudaVersions and gpu.minCudaVersion are mutually exclusive")
    if gpu["id"] not in catalog.gpus:
        raise ApiError(400, f"gpu type {gpu['id']!r} does not exist")
    if len(body.get("env", {})) > MOST_VARIABLES:
        raise ApiError(400, f"env: at most {MOST_VARIABLES} variables")
    wanted = list(body.get("dataCenterIds", []))
    for mount in mounts.get("network", []):
        volume = things.volume(mount["volumeId"])
        if body.get("cloud", "SECURE") != "SECURE":
            raise ApiError(400, "network volumes need the secure cloud")
        # A mismatch reads as missing capacity, as seen live.
        wanted = [volume.dc] if not wanted or volume.dc in wanted else [_NOWHERE]
    return catalog.gpus[gpu["id"]], gpu.get("count", 1), wanted
