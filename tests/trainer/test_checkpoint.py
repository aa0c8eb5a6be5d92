"""A checkpoint is whole or does not exist, and a fault while writing one leaves the one before."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.conftest import OPTIONS
from tests.trainer.faults import FULL, KILLED, PASSED, every_stage
from trainer import checkpoint
from trainer.checkpoint import Progress, load_adapter, name_of, newest, restore, rng_state, save
from trainer.errors import failure_of
from trainer.loop import fits_of, make_optimizer
from trainer.lora import add_lora

FITS = fits_of(10, OPTIONS)


@pytest.fixture
def training(tiny_base: Any) -> tuple[Any, torch.optim.Optimizer]:
    from trainer.base import load_model

    model = add_lora(load_model(tiny_base), OPTIONS)
    optimizer = make_optimizer(model, OPTIONS)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return model, optimizer


def save_at(folder: Path, training: tuple[Any, torch.optim.Optimizer], step: int) -> Path:
    return save(folder, *training, Progress(step=step, losses=[0.5] * step), rng=rng_state(), fits=FITS)


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "adapter_model.safetensors")


def torn(name: str) -> Callable[..., None]:
    """A disk that is full halfway through the writing of tensors, as safetensors reports it."""

    def write(path: Path, tensors: object) -> None:
        if path.name == name:
            path.write_bytes(b"half")
            raise RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")
        real(path, tensors)  # type: ignore[arg-type]

    real = checkpoint.write_tensors
    return write


STAGES = {
    "adapter": ("write_tensors", torn("adapter_model.safetensors")),
    "optimizer": ("write_tensors", torn("optimizer.safetensors")),
    "state": ("write_file", full_disk),
    "manifest": ("seal_folder", full_disk),
    "rename": ("sync_folder", full_disk),
    "check": ("verify_folder", full_disk),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_full_disk_at_any_stage_leaves_a_checkpoint_to_resume_from(
    training: tuple[Any, torch.optim.Optimizer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    before = save_at(tmp_path, training, 4)
    name, fault = STAGES[stage]
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, name, fault)
        with pytest.raises((OSError, RuntimeError)) as raised:
            checkpoint.save(tmp_path, *training, Progress(step=8), rng=rng_state(), fits=FITS)

    assert failure_of(raised.value).code == "disk_full"
    assert (before / "optimizer.safetensors").is_file()
    assert not list(tmp_path.glob(".*"))
    found = newest([tmp_path], FITS)
    assert found is not None
    assert found.name in ({"step-000004"} if stage not in ("rename", "check") else {"step-000004", "step-000008"})


@pytest.mark.parametrize("full", [False, True], ids=["killed", "full"])
def test_whatever_the_disk_is_at_when_a_save_ends_the_newest_verified_checkpoint_is_there(
    training: tuple[Any, torch.optim.Optimizer], tmp_path: Path, full: bool
) -> None:
    """`best` stands for the checkpoint whose adapter is kept, 4 for the one to resume from, 8 is being written."""
    torch.set_num_threads(1)
    before, folder = tmp_path / "before", tmp_path / "now"
    best, four = save_at(before, training, 2).name, save_at(before, training, 4).name
    shutil.copytree(before, folder)
    found, ends = [], []

    for stage, ended in every_stage(lambda: save_at(folder, training, 8), full=full):
        newest_one = newest([folder], FITS)
        assert newest_one is not None, stage
        for name in (best, four, newest_one.name):
            assert load_adapter(folder / name, training[0]), (stage, name)
        assert not (full and list(folder.glob(".*"))), stage
        found.append(newest_one.name)
        ends.append(ended)
        assert save_at(folder, training, 8).name == name_of(8), stage
        assert newest([folder], FITS) == folder / name_of(8), stage
        assert not list(folder.rglob(".*")), stage
        shutil.rmtree(folder)
        shutil.copytree(before, folder)

    assert len(ends) > 30
    assert set(ends) == {FULL if full else KILLED, PASSED}
    assert found == sorted(found)
    assert set(found) == {four, name_of(8)}


def test_a_torn_checkpoint_is_passed_over(training: tuple[Any, torch.optim.Optimizer], tmp_path: Path) -> None:
    save_at(tmp_path, training, 4)
    torn_one = tmp_path / "step-000008"
    torn_one.mkdir()
    (torn_one / "adapter_model.safetensors").write_bytes(b"half")
    flipped = save_at(tmp_path / "other", training, 12)
    (flipped / "state.json").write_text((flipped / "state.json").read_text().replace("0.5", "0.4", 1))

    found = newest([tmp_path / "other", tmp_path], FITS)

    assert found is not None
    assert found.name == "step-000004"


def test_a_checkpoint_of_another_run_is_not_used(training: tuple[Any, torch.optim.Optimizer], tmp_path: Path) -> None:
    save_at(tmp_path, training, 4)

    assert newest([tmp_path], fits_of(11, OPTIONS)) is None
    assert newest([tmp_path], fits_of(10, replace(OPTIONS, rank=4))) is None
    assert newest([tmp_path], FITS) is not None


def test_the_machine_s_own_checkpoints_come_before_those_of_earlier_attempts(
    training: tuple[Any, torch.optim.Optimizer], tmp_path: Path
) -> None:
    own, earlier = tmp_path / "own", tmp_path / "earlier"
    save_at(earlier, training, 12)
    mine = save_at(own, training, 16)

    assert newest([own, earlier], FITS) == mine
    assert newest([tmp_path / "none", earlier], FITS) == earlier / "step-000012"


def test_everything_comes_back(training: tuple[Any, torch.optim.Optimizer], tmp_path: Path, tiny_base: Any) -> None:
    from trainer.base import load_model

    model, optimizer = training
    kept = save_at(tmp_path, training, 3)
    drawn = torch.rand(4)
    other = add_lora(load_model(tiny_base), replace(OPTIONS, seed=1))
    other_optimizer = make_optimizer(other, OPTIONS)

    progress = restore(kept, other, other_optimizer)

    assert progress == Progress(step=3, losses=[0.5] * 3)
    assert torch.equal(torch.rand(4), drawn)
    for name, tensor in checkpoint.adapter_tensors(model).items():
        assert torch.equal(checkpoint.adapter_tensors(other)[name], tensor), name
    saved, loaded = optimizer.state_dict()["state"], other_optimizer.state_dict()["state"]
    assert len(loaded) == 28
    for place, values in saved.items():
        for key, value in values.items():
            assert torch.equal(loaded[place][key], value), (place, key)


def test_nothing_of_a_checkpoint_is_a_pickle(training: tuple[Any, torch.optim.Optimizer], tmp_path: Path) -> None:
    kept = save_at(tmp_path, training, 2)

    assert {path.suffix for path in kept.iterdir()} == {".json", ".safetensors"}
    assert json.loads((kept / "state.json").read_text())["step"] == 2
