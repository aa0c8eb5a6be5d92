"""Writes and finds checkpoints: whole folders from which training goes on as if it had never been interrupted."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.contract import (
    MANIFEST,
    BadManifest,
    Manifest,
    dump,
    hash_file,
    seal_folder,
    sync_folder,
    verify_folder,
    write_file,
)

if TYPE_CHECKING:
    import torch
    from peft import PeftModel

ADAPTER = "adapter_model.safetensors"
OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
Tensors = dict[str, "torch.Tensor"]


@dataclass(slots=True)
class Progress:
    """What training has come to; grows with each step, and a resumed run's equals an uninterrupted one's."""

    step: int = 0
    losses: list[float] = field(default_factory=list)
    """One for each optimizer step."""
    validations: dict[str, float] = field(default_factory=dict)
    """Step → validation loss."""
    smoothed: float | None = None
    best: float | None = None
    above: int = 0
    """Steps in a row whose smoothed loss was far above the best."""
    best_validation: float | None = None
    best_step: int | None = None
    worse: int = 0
    """Evaluations since the best one."""
    stopped_early: bool = False
    narrowed: bool = False
    """Memory was too small once; fewer rows go through at a time since."""
    micro_batch_size: int | None = None
    """Rows of one forward pass where it is not the options'."""


Fits = Mapping[str, int | float | str]
"""What a checkpoint must have been made with to be of use: the plan's and the adapter's shape."""


def save(
    folder: Path, model: PeftModel, optimizer: torch.optim.Optimizer, progress: Progress, *, rng: Tensors, fits: Fits
) -> Path:
    """Atomically; the one before stays whole until this one is verified."""
    target = folder / name_of(progress.step)
    if not _is_whole(target):
        tensors = {ADAPTER: adapter_tensors(model), OPTIMIZER: _optimizer_tensors(optimizer) | rng}
        _write(target, tensors, progress, {**fits, "step": progress.step})
    _make_room(folder, target)
    return target


def _write(target: Path, tensors: Mapping[str, Tensors], progress: Progress, facts: Fits) -> None:
    folder = target.parent
    for unfinished in folder.glob(".*.tmp"):
        shutil.rmtree(unfinished)
    aside = folder / f".{target.name}.tmp"
    aside.mkdir(parents=True)
    try:
        for name, values in tensors.items():
            write_tensors(aside / name, values)
        write_file(aside / STATE, json.dumps(asdict(progress), allow_nan=False))
        seal_folder(aside, facts)
        shutil.rmtree(target, ignore_errors=True)
        aside.rename(target)
        sync_folder(folder)
        verify_folder(target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def newest(folders: Iterable[Path], fits: Fits) -> Path | None:
    """The newest checkpoint that verifies and fits; `folders` in the order in which they are searched."""
    for folder in folders:
        for checkpoint in sorted(folder.glob("step-*"), reverse=True):
            if _is_whole(checkpoint, fits):
                return checkpoint
    return None


def restore(checkpoint: Path, model: PeftModel, optimizer: torch.optim.Optimizer) -> Progress:
    """Bring weights, optimizer and random numbers back to that step."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    set_peft_model_state_dict(model, load_file(checkpoint / ADAPTER))
    tensors = load_file(checkpoint / OPTIMIZER)
    restore_rng({name: value for name, value in tensors.items() if name.startswith("rng.")})
    state: dict[int, Tensors] = {}
    for name, value in tensors.items():
        place, _, key = name.partition(".")
        if place.isdigit():
            state.setdefault(int(place), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return Progress(**json.loads((checkpoint / STATE).read_text()))


def name_of(step: int) -> str:
    return f"step-{step:06d}"


def load_adapter(checkpoint: Path, model: PeftModel) -> bool:
    """Only its matrices, which older checkpoints keep too; False where the checkpoint is not there or not whole."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    try:
        verify_folder(checkpoint)
    except BadManifest:
        return False
    set_peft_model_state_dict(model, load_file(checkpoint / ADAPTER))
    return True


def adapter_tensors(model: PeftModel) -> Tensors:
    from peft import get_peft_model_state_dict

    state = get_peft_model_state_dict(model, save_embedding_layers=False)
    return {name: value.detach().cpu().contiguous() for name, value in state.items()}


def rng_state() -> Tensors:
    """The state of every generator that dropout draws from; the order of rows needs none."""
    import torch

    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"rng.cpu": torch.get_rng_state()} | {f"rng.cuda{i}": state for i, state in enumerate(devices)}


def restore_rng(tensors: Tensors) -> None:
    import torch

    torch.set_rng_state(tensors["rng.cpu"])
    for i in range(torch.cuda.device_count()):
        if f"rng.cuda{i}" in tensors:
            torch.cuda.set_rng_state(tensors[f"rng.cuda{i}"], i)


def write_tensors(path: Path, tensors: Tensors) -> None:
    from safetensors.torch import save_file

    save_file(tensors, path, metadata={"format": "pt"})
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    state = optimizer.state_dict()["state"].items()
    named = {f"{place}.{key}": value for place, values in state for key, value in values.items()}
    return {name: value.detach().cpu().contiguous() for name, value in named.items()}


def _is_whole(checkpoint: Path, fits: Fits | None = None) -> bool:
    try:
        manifest = verify_folder(checkpoint)
    except BadManifest:
        return False
    facts = manifest.facts
    return OPTIMIZER in manifest.files and all(facts.get(name) == value for name, value in (fits or {}).items())


def _make_room(folder: Path, newer: Path) -> None:
    """Older checkpoints keep their adapter and lose what only resuming needs."""
    for checkpoint in _older(folder, newer):
        for unfinished in checkpoint.glob(".*"):
            unfinished.unlink()
        # The manifest first: a crash in between leaves a file too many, never a manifest that lies.
        files = {name: hash_file(checkpoint / name) for name in (ADAPTER, STATE) if (checkpoint / name).is_file()}
        write_file(checkpoint / MANIFEST, dump(Manifest(files, {"resumable": False})))
        (checkpoint / OPTIMIZER).unlink()


def _older(folder: Path, newer: Path) -> Iterator[Path]:
    for checkpoint in folder.glob("step-*"):
        if checkpoint.name < newer.name and (checkpoint / OPTIMIZER).is_file():
            yield checkpoint
