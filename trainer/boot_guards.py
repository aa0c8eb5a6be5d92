"""What a machine looks after by itself: its GPUs before the work, its adapter and its own end after it."""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from trainer.contract import (
    CHECKPOINTS,
    MANIFEST,
    BadManifest,
    Outcome,
    Result,
    dump,
    load,
    seal_folder,
    verify_folder,
    write_file,
)

OLDEST = (8, 0)
"""Compute capability of NVIDIA's Ampere generation."""
ZIP = "data/adapter.zip"
"""Where a person looks for the adapter, on a machine whose disk ends with it."""
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
"""What an adapter is made of; the second lies once beside the checkpoints."""
BASES = "/opt/tensorant/bases"
"""Base models that were built into the image, as `<name>/<revision>`."""
_API = "https://api.runpod.io"


@dataclass(frozen=True, slots=True)
class GpuTrouble:
    """A code of `errors.WORDINGS`, and the facts that fill its sentence."""

    code: str
    facts: Mapping[str, object]


def find_gpu_trouble(environment: Mapping[str, str]) -> GpuTrouble | None:
    """What is wrong with the GPUs, before anything is downloaded; a machine asked for without GPUs has no trouble."""
    wanted = int(environment.get("TENSORANT_GPU_COUNT") or environment.get("RUNPOD_GPU_COUNT") or 0)
    if wanted == 0:
        return None
    found = _query_gpus(environment)
    if len(found) < wanted:
        return GpuTrouble("no_gpu", {"have": len(found), "wanted": wanted})
    for name, capability in found:
        if (numbers := _numbers(capability)) and numbers < OLDEST:
            return GpuTrouble("gpu_too_old", {"name": name, "have": capability})
    return None


def release_own_pod(environment: Mapping[str, str]) -> str:
    """Ask the provider to delete this very machine, with the key that it gave it; what became of that, as a sentence."""
    pod, key = environment.get("RUNPOD_POD_ID"), environment.get("RUNPOD_API_KEY")
    if not pod or not key:
        return "Nobody released this machine, and it has no key to release itself; it goes on waiting."
    api = environment.get("RUNPOD_API_URL") or environment.get("TENSORANT_RUNPOD_API_URL") or _API
    request = urllib.request.Request(  # noqa: S310 - the address is the provider's own
        f"{api.rstrip('/').removesuffix('/v2')}/v2/pods/{pod}",
        method="DELETE",
        headers={"Authorization": f"Bearer {key}", "User-Agent": "tensorant-trainer"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return f"Nobody released this machine; it asked to be deleted itself (status {answer.status})."
    except urllib.error.HTTPError as error:
        with error:
            return (
                f"Nobody released this machine, and it may not delete itself (status {error.code}); it goes on waiting."
            )
    except OSError as error:
        return f"Nobody released this machine, and the provider cannot be reached ({error}); it goes on waiting."


def link_bases(volume: Path, environment: Mapping[str, str]) -> None:
    """The image's base models where a job looks for them on a volume."""
    baked, link = Path(environment.get("TENSORANT_BASES", BASES)), volume / "bases"
    if baked.is_dir() and not link.exists():
        link.symlink_to(baked, target_is_directory=True)


def zip_adapter(volume: Path, result: Path, say: Callable[[str], None]) -> None:
    """Put a finished adapter where a person can take it away, or what there is of one whose time was over."""
    try:
        found = load(Result, result.read_text())
    except (OSError, ValueError, TypeError, KeyError):
        return
    if (volume / ZIP).exists():
        return
    if found.adapter and (volume / found.adapter / MANIFEST).exists():
        _zip(volume / found.adapter, volume / ZIP, say)
    elif found.outcome is Outcome.OVERRUN:
        _zip_unfinished(result, found, volume / ZIP, say)


def _zip_unfinished(result: Path, found: Result, target: Path, say: Callable[[str], None]) -> None:
    """The newest checkpoint that verifies, as an adapter that says of which step it is; then the result names the step."""
    checkpoints = result.parent / CHECKPOINTS
    for checkpoint in sorted(checkpoints.glob("step-*"), reverse=True):
        step, aside = int(checkpoint.name.removeprefix("step-")), target.with_name(".unfinished")
        try:
            verify_folder(checkpoint)
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            for path in (checkpoint / WEIGHTS, checkpoints / CONFIG):
                shutil.copyfile(path, aside / path.name)
            write_file(aside / "README.md", _unfinished_card(step, found.total_steps))
            seal_folder(aside, {"unfinished": True, "step": step, "total_steps": found.total_steps})
            if _zip(aside, target, say):
                write_file(result, dump(replace(found, unfinished=step)))
            return
        except (BadManifest, OSError) as error:
            say(f"{checkpoint.name} cannot be handed over: {error}.")
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _unfinished_card(step: int, total: int) -> str:
    of = f" of {total:,}" if total else ""
    return (
        f"# Unfinished LoRA adapter\n\nThe run's time was over: this is its newest checkpoint, of step {step:,}{of}. "
        f"Score it before you use it.\n"
    )


def _zip(folder: Path, target: Path, say: Callable[[str], None]) -> bool:
    """Under its name only when it is whole; whether it is there."""
    aside = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(aside, "w", zipfile.ZIP_STORED) as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(folder).as_posix())
        aside.replace(target)
    except OSError as error:
        aside.unlink(missing_ok=True)
        say(f"{target} could not be written: {error}. The adapter's files lie in {folder}.")
        return False
    say(f"The adapter is ready to be taken: {target}, {os.path.getsize(target):,} bytes.")
    return True


def _query_gpus(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Name and compute capability of each; none where the driver does not answer."""
    program = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if program is None:
        return []
    question = [program, "--query-gpu=name,compute_cap", "--format=csv,noheader"]
    try:
        answer = subprocess.run(question, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    lines = [line.rpartition(",") for line in answer.splitlines() if "," in line]
    return [(name.strip(), capability.strip()) for name, _, capability in lines]


def _numbers(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split(".") if part.isdigit())
