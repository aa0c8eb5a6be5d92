"""What a Pod's program finds when its container starts: its command, its environment, its volume and its disk."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.runpod_emulator.faults import Fault
from tests.runpod_emulator.pods import Pod
from tests.runpod_emulator.things import Things
from tests.runpod_emulator.workers import Container

_SECRET = re.compile(r"\{\{\s*RUNPOD_SECRET_(\w+)\s*\}\}")


def container_of(pod: Pod, folder: Path, things: Things, api_url: str, release: Callable[[], None]) -> Container:
    """`folder` is the account's."""
    spec, mounts = pod.spec, pod.spec.get("mounts", {})
    network, kept = next(iter(mounts.get("network", [])), None), mounts.get("persistent")
    own = folder / "pods" / pod.id
    return Container(
        pod_id=pod.id,
        name=pod.name,
        command=_command(spec),
        env=_env(pod, network, things, api_url),
        mount=network["path"] if network else kept["path"] if kept else None,
        volume=things.volume(network["volumeId"]).folder if network else own / "kept" if kept else None,
        disk=own / "disk",
        boot=pod.boots,
        gpus=pod.gpus,
        gpu=pod.gpu.id,
        capability="7.0" if pod.fault(Fault.OLD_GPU) else pod.gpu.capability,
        say=pod.say,
        release=release,
    )


def _command(spec: Mapping[str, Any]) -> Sequence[str]:
    """The exec form, or the older field: JSON with both parts, or words as a shell splits them."""
    args = spec.get("args", "")
    if args.startswith("{"):
        return _command({name: words for name, words in json.loads(args).items() if name != "args"})
    return [*spec.get("entrypoint", ()), *(spec.get("cmd") or shlex.split(args))]


def _env(pod: Pod, network: Mapping[str, str] | None, things: Things, api_url: str) -> dict[str, str]:
    """The variables that were asked for, secrets filled in, and the provider's own."""
    asked = pod.spec.get("env", {})
    filled = {name: _SECRET.sub(lambda match: things.secret_value(match[1]), text) for name, text in asked.items()}
    return {
        **filled,
        "RUNPOD_POD_ID": pod.id,
        "RUNPOD_DC_ID": pod.dc,
        "RUNPOD_GPU_COUNT": str(pod.gpus),
        "RUNPOD_API_KEY": f"rpa_pod_{pod.id}",
        "RUNPOD_API_URL": api_url,
        **({"RUNPOD_VOLUME_ID": network["volumeId"]} if network else {}),
    }
