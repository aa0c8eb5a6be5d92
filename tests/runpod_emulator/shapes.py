"""Our own description of the objects that cross the wire. Requests are closed: a stray field is refused by its name.

Written by hand from the public documentation of REST API v2. `test_shapes.py` compares it with the provider's own
description where that file is at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Shape = dict[str, Any]

STATUSES = ["PROVISIONING", "STARTING", "RUNNING", "EXITED", "ERROR", "TERMINATED"]
ACTIONS = ["start", "stop", "restart", "terminate"]
LEVELS = ["NONE", "LOW", "MEDIUM", "HIGH"]
VOLUME_TYPES = ["STANDARD", "HIGH_PERFORMANCE"]
REGIONS = [
    *("NORTH_AMERICA", "SOUTH_AMERICA", "EUROPE", "ASIA", "MIDDLE_EAST", "AFRICA"),
    *("OCEANIA", "ANTARCTICA", "UNKNOWN"),
]
BUCKETS = ["hour", "day", "week", "month", "year"]

_TEXT: Shape = {"type": "string"}
_NAME: Shape = {"type": "string", "minLength": 1}
_TEXT_OR_NULL: Shape = {"type": ["string", "null"]}
_COUNT: Shape = {"type": "integer", "minimum": 1}
_WHOLE: Shape = {"type": "integer"}
_NUMBER: Shape = {"type": "number"}
_FLAG: Shape = {"type": "boolean"}
_CUDA: Shape = {"type": "string", "pattern": r"^\d+\.\d+$"}
_GB: Shape = {"type": "integer", "minimum": 10, "maximum": 4096}


def _list(items: Shape, **more: Any) -> Shape:
    return {"type": "array", "items": items, **more}


def _words(words: list[str]) -> Shape:
    return {"type": "string", "enum": words}


def _open(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def _closed(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    return {**_open(required, optional), "additionalProperties": False}


MOUNTS = _closed(
    {},
    {
        "persistent": _closed({"size": {"type": "integer", "minimum": 10}, "path": _TEXT}),
        "network": _list(_closed({"volumeId": _TEXT, "path": _TEXT}), maxItems=1),
    },
)
_CONTAINER: Mapping[str, Shape] = {
    "args": _TEXT,
    "disk": _COUNT,
    "env": {"type": "object", "additionalProperties": _TEXT},
    "image": _TEXT,
    "ports": _list(_TEXT),
    "entrypoint": _list(_TEXT),
    "cmd": _list(_TEXT),
    "registry": _TEXT_OR_NULL,
}
CREATE_POD = _closed(
    {"name": _NAME},
    {
        **_CONTAINER,
        "cloud": _words(["SECURE", "COMMUNITY"]),
        "dataCenterIds": _list(_TEXT),
        "globalNetworking": _FLAG,
        "gpu": _closed(
            {"id": _TEXT},
            {
                "count": _COUNT,
                "vcpuCount": _WHOLE,
                "memory": _WHOLE,
                "allowedCudaVersions": _list(_CUDA),
                "minCudaVersion": _CUDA,
                "minRamPerGpu": _COUNT,
                "minVcpuCountPerGpu": _COUNT,
            },
        ),
        "cpu": _closed({"id": _NAME, "vcpuCount": {"type": "integer", "minimum": 2}}),
        "mounts": MOUNTS,
        "startJupyter": _FLAG,
        "startSsh": _FLAG,
        "templateId": _NAME,
    },
)
UPDATE_POD = _closed(
    {}, {**_CONTAINER, "globalNetworking": _FLAG, "locked": _FLAG, "mounts": MOUNTS, "name": _NAME, "templateId": _TEXT}
)
POD_ACTION = _closed({"action": _words(ACTIONS)})

_RUNTIME = _open(
    {},
    {
        "uptime": _WHOLE,
        "gpus": _list(_open({}, {"util": _WHOLE, "memoryUtil": _WHOLE})),
        "cpu": _open({}, {"util": _WHOLE}),
        "memory": _open({}, {"util": _WHOLE}),
        "ports": _list(_open({})),
    },
)
POD = _open(
    {
        "id": _TEXT,
        "name": _TEXT,
        "status": _words(STATUSES),
        "actions": _list(_words(ACTIONS)),
        "image": _TEXT,
        "args": _TEXT,
        "disk": _COUNT,
        "mounts": MOUNTS,
        "ports": _list(_TEXT),
        "env": _CONTAINER["env"],
        "registry": _TEXT_OR_NULL,
        "cloud": _words(["SECURE", "COMMUNITY"]),
        "dataCenterId": _TEXT_OR_NULL,
        "cudaVersion": _TEXT_OR_NULL,
        "ssh": {"type": "object"},
        "template": _TEXT_OR_NULL,
        "cost": _NUMBER,
        "locked": _FLAG,
        "runtime": {**_RUNTIME, "type": ["object", "null"]},
        "createdAt": _TEXT,
        "startedAt": _TEXT_OR_NULL,
        "globalNetworking": _open({"enabled": _FLAG}),
    },
    {"gpu": _open({"id": _TEXT}, {"count": _WHOLE, "vcpuCount": _WHOLE, "memory": _WHOLE})},
)
VOLUME = _open({"id": _TEXT, "name": _TEXT, "size": _GB, "dataCenter": _TEXT, "type": _words(VOLUME_TYPES)})
CREATE_VOLUME = _closed({"name": _NAME, "size": _GB, "dataCenter": _NAME}, {"type": _words(VOLUME_TYPES)})
UPDATE_VOLUME = {**_closed({}, {"name": _NAME, "size": _GB}), "minProperties": 1}
REGISTRY = _open({"id": _TEXT, "name": _TEXT})
CREATE_REGISTRY = _closed({"name": _NAME, "username": _NAME, "password": _NAME})
SECRET = _open({"id": _TEXT, "name": _TEXT}, {"description": _TEXT})
CREATE_SECRET = _closed({"name": _NAME, "value": _NAME}, {"description": _TEXT})
UPDATE_SECRET = {**_closed({}, {"value": _NAME, "description": _TEXT}), "minProperties": 1}

_AVAILABLE = _open({"id": _TEXT, "name": _TEXT, "availability": _words(LEVELS)})
GPU_TYPE = _open(
    {
        "id": _TEXT,
        "name": _TEXT,
        "pool": _TEXT_OR_NULL,
        "manufacturer": _words(["NVIDIA", "AMD", "UNKNOWN"]),
        "memory": _WHOLE,
        "secure": _FLAG,
        "community": _FLAG,
        "price": _open({"secure": _NUMBER, "community": _NUMBER}),
        "maxCount": _open({"secure": _WHOLE, "community": _WHOLE}),
    },
    {
        "availability": _words(LEVELS),
        "dataCenters": _list(_AVAILABLE),
        "cudaVersions": _list(_open({"version": _CUDA, "available": _FLAG})),
    },
)
DATA_CENTER = _open(
    {
        "id": _TEXT,
        "name": _TEXT,
        "region": _words(REGIONS),
        "globalNetwork": _FLAG,
        "networkVolumeTypes": _list(_words(VOLUME_TYPES)),
        "compliance": _list(_TEXT),
    },
    {"gpuAvailability": _list(_AVAILABLE)},
)
_PERIOD: Mapping[str, Shape] = {"startTime": _TEXT, "endTime": _TEXT}


def _bill(amounts: list[str], item: str, unique: str) -> Shape:
    sums = dict.fromkeys(["totalAmount", *amounts], _NUMBER)
    query = _open({**_PERIOD, "bucketSize": _words(BUCKETS)}, {item: _TEXT_OR_NULL})
    metadata = {"query": query, "recordCount": _WHOLE, unique: _WHOLE, "totals": _open(sums)}
    return _open({"records": _list(_open({**_PERIOD, item: _TEXT, **sums})), "metadata": _open(metadata)})


PROBLEM = _open({"title": _TEXT, "status": _WHOLE, "detail": _TEXT}, {"errors": _list(_TEXT)})

BODIES: Mapping[str, Shape] = {
    "pods.create": CREATE_POD,
    "pods.update": UPDATE_POD,
    "pods.action": POD_ACTION,
    "volumes.create": CREATE_VOLUME,
    "volumes.update": UPDATE_VOLUME,
    "registries.create": CREATE_REGISTRY,
    "secrets.create": CREATE_SECRET,
    "secrets.update": UPDATE_SECRET,
}
"""Operation → what its body must look like."""

ANSWERS: Mapping[str, Shape] = {
    "pods.list": _open({"pods": _list(POD)}),
    **dict.fromkeys(["pods.get", "pods.create", "pods.update", "pods.action"], POD),
    "volumes.list": _open({"networkVolumes": _list(VOLUME)}),
    **dict.fromkeys(["volumes.get", "volumes.create", "volumes.update"], VOLUME),
    "registries.list": _open({"registries": _list(REGISTRY)}),
    **dict.fromkeys(["registries.get", "registries.create"], REGISTRY),
    "secrets.list": _open({"secrets": _list(SECRET)}),
    **dict.fromkeys(["secrets.get", "secrets.create", "secrets.update"], SECRET),
    "gpus.list": _open({"gpus": _list(GPU_TYPE)}),
    "gpus.get": GPU_TYPE,
    "datacenters.list": _open({"dataCenters": _list(DATA_CENTER)}),
    "datacenters.get": DATA_CENTER,
    "billing.pods": _bill(["gpuAmount", "cpuAmount", "diskAmount"], "podId", "uniquePodCount"),
    "billing.volumes": _bill(
        ["standardAmount", "highPerformanceAmount"], "networkVolumeId", "uniqueNetworkVolumeCount"
    ),
}
"""Operation → what its answer must look like when it succeeds."""
