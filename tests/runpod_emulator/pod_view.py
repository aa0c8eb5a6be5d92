"""A Pod as the API shows it."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.runpod_emulator.clock import text_of
from tests.runpod_emulator.faults import Fault
from tests.runpod_emulator.pods import ENDED, Pod

ODD_STATUS = "MIGRATING"
"""What a Pod's status reads under `Fault.UNKNOWN_STATUS`."""


def pod_answer(pod: Pod, now: datetime) -> dict[str, Any]:
    spec = pod.spec
    is_free = is_before(pod, Fault.COST_UNTOLD, now) or pod.status in {"EXITED", ENDED}
    return {
        "id": pod.id,
        "name": pod.name,
        "image": spec.get("image", ""),
        "args": spec.get("args", ""),
        **{name: spec[name] for name in ("entrypoint", "cmd") if name in spec},
        "disk": spec.get("disk", 20),
        "ports": spec.get("ports", []),
        "env": dict(spec.get("env", {})),
        "mounts": spec.get("mounts", {}),
        "registry": spec.get("registry"),
        "template": None,
        "status": ODD_STATUS if is_before(pod, Fault.UNKNOWN_STATUS, now) else pod.status,
        "actions": pod.legal(),
        "gpu": {"id": spec["gpu"]["id"], "count": pod.gpus},
        "cloud": spec.get("cloud", "SECURE"),
        "dataCenterId": pod.dc,
        "cudaVersion": "12.8",
        "ssh": {"proxy": None, "direct": None},
        "locked": False,
        "globalNetworking": {"enabled": False},
        "cost": float(Decimal(0) if is_free else pod.rate),
        "runtime": _runtime(pod, now),
        "createdAt": text_of(pod.created),
        "startedAt": text_of(pod.started) if pod.started else None,
    }


def is_before(pod: Pod, fault: Fault, now: datetime) -> bool:
    """Whether a fault of the Pod's first seconds still holds."""
    armed = pod.fault(fault)
    return armed is not None and pod.ended is None and now < pod.created + timedelta(seconds=armed.seconds)


def _runtime(pod: Pod, now: datetime) -> dict[str, Any] | None:
    if pod.up is None or pod.status != "RUNNING":
        return None
    uptime = 0 if is_before(pod, Fault.COST_UNTOLD, now) else int((now - pod.up).total_seconds())
    gpus = [{"util": 97, "memoryUtil": 61} for _ in range(pod.gpus)]
    return {"uptime": uptime, "gpus": gpus, "cpu": {"util": 40}, "memory": {"util": 30}, "ports": []}
