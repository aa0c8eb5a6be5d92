"""An uploaded adapter.zip is taken only if everything in it is what an adapter is made of."""

from __future__ import annotations

import json
import pickle
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from trainer.adapter_folder import scaling, server_rank
from trainer.errors import TrainerError
from trainer.uploaded import verify_zip

MODULE = "model.layers.0.self_attn.q_proj"
CONFIG = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "base_model_name_or_path": "a/b"}


def tensors(rank: int = 4, out: int = 64) -> dict[str, torch.Tensor]:
    name = f"base_model.model.{MODULE}"
    return {f"{name}.lora_A.weight": torch.ones(rank, 64), f"{name}.lora_B.weight": torch.ones(out, rank)}


def zipped(folder: Path, *, config: Any = CONFIG, weights: Any = None, extra: dict[str, bytes] | None = None) -> Path:
    path = folder / "adapter.zip"
    save_file(tensors() if weights is None else weights, folder / "weights")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("adapter_config.json", json.dumps(config))
        archive.write(folder / "weights", "adapter_model.safetensors")
        for name, content in (extra or {}).items():
            archive.writestr(name, content)
    return path


def test_a_sound_adapter_is_unpacked_and_described(tmp_path: Path, tiny_base: Any) -> None:
    facts = verify_zip(zipped(tmp_path), base=Path(tiny_base.folder), unpack=tmp_path / "out")

    assert facts == {
        "base": "a/b",
        "revision": None,
        "rank": 4,
        "server_rank": 8,
        "scaling": 2.0,
        "modules": 1,
        "tensors": 2,
    }
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]


def _edited(**changes: Any) -> Callable[[Path], Path]:
    return lambda folder: zipped(folder, config={**CONFIG, **changes})


def _with(name: str, content: bytes = b"x") -> Callable[[Path], Path]:
    return lambda folder: zipped(folder, extra={name: content})


def _weights(make: Callable[[], dict[str, torch.Tensor]]) -> Callable[[Path], Path]:
    return lambda folder: zipped(folder, weights=make())


def _text(folder: Path) -> Path:
    (folder / "adapter.zip").write_bytes(b"no zip at all")
    return folder / "adapter.zip"


def _link(folder: Path) -> Path:
    path = zipped(folder)
    with zipfile.ZipFile(path, "a") as archive:
        entry = zipfile.ZipInfo("README.md")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    return path


FAULTS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no zip": (_text, "no ZIP file"),
    "escape": (_with("../evil.json"), "leads out of its folder"),
    "absolute": (_with("/etc/evil.json"), "leads out of its folder"),
    "link": (_link, "README.md is a link"),
    "pickle": (_with("optimizer.pt", pickle.dumps({})), "optimizer.pt is pickled"),
    "program": (_with("run.sh"), "run.sh has no place"),
    "bomb": (_with("big.txt", b"0" * (4 << 20)), "would unpack to 4,194,304 bytes"),
    "many": (lambda folder: zipped(folder, extra={f"{i}.txt": b"" for i in range(300)}), "302 files"),
    "whole layers": (_edited(modules_to_save=["lm_head"]), "whole layers, lm_head"),
    "other method": (_edited(peft_type="IA3"), "no LoRA adapter"),
    "own code": (_edited(auto_mapping={"base_model_class": "X"}), "asks for code"),
    "wrong rank": (_edited(r=8), "has rank 4, and adapter_config.json says 8"),
    "missing module": (_edited(target_modules=["q_proj", "v_proj"]), "target module v_proj has no matrices"),
    "other module": (_edited(target_modules=["k_proj"]), "not among the target_modules"),
    "foreign key": (
        _weights(lambda: tensors() | {"base_model.model.lm_head.weight": torch.ones(2, 2)}),
        "lm_head.weight, which is no LoRA matrix",
    ),
    "half": (_weights(lambda: dict(list(tensors().items())[:1])), "only one of its two matrices"),
    "not finite": (
        _weights(lambda: {n: t * (float("nan") if "lora_A" in n else 1.0) for n, t in tensors().items()}),
        "not finite",
    ),
    "untrained": (
        _weights(lambda: {n: t * (0.0 if "lora_B" in n else 1.0) for n, t in tensors().items()}),
        "every lora_B matrix is zero",
    ),
    "other base": (_weights(lambda: tensors(out=32)), "made for a layer of 32 by 64"),
    "lying manifest": (
        _with("manifest.json", json.dumps({"files": {"adapter_config.json": {"sha256": "0", "bytes": 1}}}).encode()),
        "differs from its manifest",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_upload_is_refused_with_its_reason_and_leaves_nothing(fault: str, tmp_path: Path, tiny_base: Any) -> None:
    make, reason = FAULTS[fault]

    with pytest.raises(TrainerError, match=reason) as refusal:
        verify_zip(make(tmp_path), base=Path(tiny_base.folder), unpack=tmp_path / "out")

    assert refusal.value.code == "upload_refused"
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".adapter-*"))


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    whole = zipped(tmp_path).read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])

    with pytest.raises(TrainerError, match="no ZIP file"):
        verify_zip(tmp_path / "cut.zip")


def test_rank_stabilised_adapters_are_scaled_by_the_root_of_their_rank_as_peft_merges_them(tiny_base: Any) -> None:
    from peft import LoraConfig, get_peft_model

    from trainer.base import load_model

    plain = load_model(tiny_base)
    before = plain.get_submodule(MODULE).weight.clone()
    config = LoraConfig(r=9, lora_alpha=6, use_rslora=True, target_modules=["q_proj"])
    model = get_peft_model(plain, config)
    layer = model.get_submodule(f"base_model.model.{MODULE}")
    torch.nn.init.normal_(layer.lora_B["default"].weight)
    product = layer.lora_B["default"].weight @ layer.lora_A["default"].weight

    merged = model.merge_and_unload().get_submodule(MODULE).weight

    assert scaling({"r": 9, "lora_alpha": 6, "use_rslora": True}) == 2.0
    assert scaling({"r": 4, "lora_alpha": 16, "use_rslora": True}) == 8.0
    torch.testing.assert_close(merged, before + 2.0 * product)


def test_every_reason_why_no_server_takes_it_is_told_at_once(tmp_path: Path, tiny_base: Any) -> None:
    """Case tr-07, of other names, ranks and sizes."""
    wide = {name.replace("q_proj", "c_attn"): tensor for name, tensor in tensors(rank=48).items()}
    whole = {f"base_model.model.{n}.weight": torch.ones(31, 8) for n in ("lm_head", "model.embed_tokens")}
    config = {**CONFIG, "r": 48, "target_modules": ["c_attn"], "modules_to_save": ["embed_tokens", "lm_head"]}
    path = zipped(tmp_path, config=config, weights=wide | whole)

    with pytest.raises(TrainerError) as refusal:
        verify_zip(path, base=Path(tiny_base.folder), most_rank=32)

    told = str(refusal.value)
    assert "whole layers, embed_tokens, lm_head (2 tensors: lm_head of 31 x 8, embed_tokens of 31 x 8)" in told
    assert "merge it into the base instead" in told
    assert "its rank of 48 is above the server's limit of 32: start the server with a limit of 64" in told
    assert (
        "no layer c_attn; its linear layers are down_proj, gate_proj, up_proj, k_proj, o_proj, q_proj, v_proj" in told
    )


def test_a_rank_that_the_server_takes_is_no_reason(tmp_path: Path, tiny_base: Any) -> None:
    path = zipped(tmp_path, config={**CONFIG, "r": 16}, weights=tensors(rank=16))

    assert verify_zip(path, base=Path(tiny_base.folder), most_rank=16)["server_rank"] == 16
    assert [server_rank(rank) for rank in (1, 8, 9, 64, 65, 300, 513)] == [8, 8, 16, 64, 128, 320, None]
