"""An adapter is published only after it was checked."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.conftest import OPTIONS
from tests.trainer.faults import FULL, KILLED, PASSED, every_stage
from trainer import package
from trainer.contract import Base, TrainJob, verify_folder
from trainer.errors import TrainerError
from trainer.lora import add_lora

FACTS: dict[str, float | int | None] = {"step": 1, "loss": 0.5, "validation_loss": None}


def job_for(base: Base) -> TrainJob:
    return TrainJob("here", 1, "tune-here", base, "train.parquet", "validation.parquet", OPTIONS, threads=1)


@pytest.fixture
def model(tiny_base: Base) -> Any:
    from trainer.base import load_model

    adapted = add_lora(load_model(tiny_base), replace(OPTIONS, dropout=0.0))
    torch.manual_seed(3)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return adapted


def write(tiny_base: Base, model: Any, tokenizer: Any, target: Path) -> package.Unchecked:
    probe = package.probe(model, [[1, 5, 9], [4, 4]], target.parent / package.PROBE)
    return package.write(target, job_for(tiny_base), model, tokenizer, facts=FACTS, probe=probe)


def test_weights_that_learned_nothing_are_refused(tiny_base: Base, tokenizer: Any, tmp_path: Path) -> None:
    from trainer.base import load_model

    with pytest.raises(TrainerError, match="nothing was learned"):
        write(tiny_base, add_lora(load_model(tiny_base), OPTIONS), tokenizer, tmp_path / "adapter")

    assert not (tmp_path / "adapter").exists()


def test_weights_that_are_not_finite_are_refused(tiny_base: Base, model: Any, tokenizer: Any, tmp_path: Path) -> None:
    next(p for p in model.parameters() if p.requires_grad).data[0, 0] = float("nan")

    with pytest.raises(TrainerError, match="not finite"):
        write(tiny_base, model, tokenizer, tmp_path / "adapter")


def test_the_loaded_adapter_answers_as_the_trained_model_does(
    tiny_base: Base, model: Any, tokenizer: Any, tmp_path: Path
) -> None:
    made = write(tiny_base, model, tokenizer, tmp_path / "adapter")

    package.verify(tiny_base, made.aside, made.probe, quantised=False)


def test_an_adapter_that_answers_otherwise_is_never_published(
    tiny_base: Base, model: Any, tokenizer: Any, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    made = write(tiny_base, model, tokenizer, tmp_path / "adapter")
    weights = made.aside / "adapter_model.safetensors"
    save_file({name: tensor * 1.01 for name, tensor in load_file(weights).items()}, weights, metadata={"format": "pt"})

    with pytest.raises(TrainerError, match="differ from the trainer's"):
        package.verify(tiny_base, made.aside, made.probe, quantised=False)
    with pytest.raises(TrainerError, match="in a fresh process it failed") as raised:
        package.publish(made, job_for(tiny_base))

    assert raised.value.code == "adapter_invalid"
    assert not (tmp_path / "adapter").exists()


def test_a_path_of_this_machine_in_the_folder_is_refused(
    tiny_base: Base, model: Any, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "_model_card", lambda job, facts: f"Trained from {job.base.folder}")

    with pytest.raises(TrainerError, match=r"README.md holds a path of this machine"):
        write(tiny_base, model, tokenizer, tmp_path / "adapter")


@pytest.mark.parametrize("full", [False, True], ids=["killed", "full"])
def test_whatever_the_disk_is_at_an_adapter_is_published_whole_or_not_at_all(
    tiny_base: Base, model: Any, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """The fresh process that checks it writes nothing, so it is taken to agree."""
    torch.set_num_threads(1)
    agreed = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(package.subprocess, "run", lambda *arguments, **more: agreed)
    folder = tmp_path / "run"
    published, ends = [], []

    def hand_over() -> None:
        folder.mkdir(exist_ok=True)
        package.publish(write(tiny_base, model, tokenizer, folder / "adapter"), job_for(tiny_base))

    for stage, ended in every_stage(hand_over, full=full):
        published.append((folder / "adapter").exists())
        if published[-1]:
            assert verify_folder(folder / "adapter").facts["step"] == 1, stage
        ends.append(ended)
        hand_over()
        assert verify_folder(folder / "adapter").facts["step"] == 1, stage
        shutil.rmtree(folder)

    assert len(ends) > 15
    assert set(ends) == {FULL if full else KILLED, PASSED}
    assert published == sorted(published)
    assert published[-1]
