"""Opens a base model's folder safely and loads its tokenizer and its weights in the right precision."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.contract import MANIFEST, Base
from trainer.errors import TrainerError

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
OLDEST_GPU = (8, 0)
"""`torch.cuda.is_bf16_supported()` says yes on older ones too, by emulation (Soup#387)."""


def check_base(base: Base) -> None:
    """Refuse a folder that is incomplete or that would need its own code to load."""
    folder = Path(base.folder)
    if not (folder / "config.json").is_file():
        raise _missing(base, "there is no config.json")
    names = [path.name for path in folder.iterdir()]
    if not any(name.endswith(".safetensors") for name in names):
        if pickled := [name for name in names if name.endswith(PICKLED)]:
            raise _unsafe(base, f"its weights are pickled ({pickled[0]}), and loading a pickle can run any program")
        raise _missing(base, "there are no safetensors weights")
    _check_shards(base, folder)
    config = _read_json(base, folder / "config.json")
    if "auto_map" in config and not _is_native(str(config.get("model_type"))):
        raise _unsafe(
            base, f"its architecture {config.get('model_type')} is code of its own and not part of transformers"
        )
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise TrainerError("no_tokenizer", repo_id=base.repo_id, what="its folder holds no tokenizer.json")


def check_revision(base: Base) -> None:
    """A folder with a manifest says which revision it holds; one without was made by hand and is taken at its word."""
    path = Path(base.folder) / MANIFEST
    facts = _read_json(base, path).get("facts", {}) if path.is_file() else {}
    found = facts.get("revision") if isinstance(facts, dict) else None
    if found and found != base.revision:
        raise TrainerError("wrong_revision", repo_id=base.repo_id, found=found, wanted=base.revision)


def load_tokenizer(base: Base) -> PreTrainedTokenizerBase:
    check_base(base)
    return open_tokenizer(Path(base.folder), repo_id=base.repo_id)


def open_tokenizer(folder: Path, *, repo_id: str | None = None) -> PreTrainedTokenizerBase:
    """Of a folder that may hold nothing else; it must have a chat template and an end-of-text token."""
    from transformers import AutoTokenizer

    name = repo_id or folder.name
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError) as error:
        what = (str(error).strip() or "it cannot be read").splitlines()[0]
        raise TrainerError("no_tokenizer", repo_id=name, what=what) from error
    if not tokenizer.chat_template:
        raise TrainerError("no_template", repo_id=name)
    if not stop_tokens_in(folder, tokenizer):
        raise TrainerError("no_tokenizer", repo_id=name, what="it names no end-of-text token")
    return tokenizer


def stop_tokens(base: Base, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    return stop_tokens_in(Path(base.folder), tokenizer)


def stop_tokens_in(folder: Path, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every token that ends an answer: the tokenizer's own and those of generation_config.json."""
    path = folder / "generation_config.json"
    named = _read_json(Base(folder.name, "", str(folder)), path).get("eos_token_id") if path.is_file() else None
    stops = {named} if isinstance(named, int) else set(named or ())
    return frozenset(stops | {tokenizer.eos_token_id}) - {None}


def load_model(base: Base, *, quantised: bool = False) -> PreTrainedModel:
    """The frozen base on the best device, in evaluation mode."""
    from transformers import AutoModelForCausalLM

    check_base(base)
    device = best_device()
    dtype = best_dtype(device)
    extra: dict[str, Any] = {"quantization_config": _four_bits(dtype), "device_map": {"": device}} if quantised else {}
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        base.folder,
        dtype=dtype,
        attn_implementation="sdpa",
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
        **extra,
    )
    model.requires_grad_(False)
    if not quantised:
        return model.to(device)  # type: ignore[arg-type]
    _keep_exact(model)
    return model


def precision_of(model: PreTrainedModel | PeftModel) -> str:
    """Of the base's weights: nf4 where they are quantised, else their type."""
    return "nf4" if getattr(model, "is_loaded_in_4bit", False) else str(model.dtype).removeprefix("torch.")


def attends_fully(model: PreTrainedModel | PeftModel) -> bool:
    """Whether every layer looks back at all tokens; layers with a sliding window, or without attention, do not."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    if kinds:
        return set(kinds) == {"full_attention"}
    return getattr(config, "sliding_window", None) is None


def save_memory(model: PeftModel) -> None:
    """Keep few activations and compute the others again: a third slower, for when memory is short."""
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()


def free_memory() -> None:
    """Give back what models that are no longer named hold."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def best_device() -> torch.device:
    """Of several processes that `torchrun` started, each has a GPU of its own."""
    import torch

    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    have = torch.cuda.get_device_capability(device)
    if have < OLDEST_GPU:
        raise TrainerError("gpu_too_old", name=torch.cuda.get_device_name(device), have=f"{have[0]}.{have[1]}")
    return device


def best_dtype(device: torch.device) -> torch.dtype:
    """Always fp32 on a processor: many have no bf16 units (six times slower), and answers would differ by machine."""
    import torch

    return torch.bfloat16 if device.type == "cuda" else torch.float32


def _four_bits(dtype: torch.dtype) -> Any:
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
    )


def _keep_exact(model: PreTrainedModel) -> None:
    """bitsandbytes 0.50 repacks weights to bf16 at the first evaluation on some processors, and loses digits each time."""
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            vars(module)["support_avx512bf16_for_cpu"] = False


def _check_shards(base: Base, folder: Path) -> None:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return
    shards = set(_read_json(base, index).get("weight_map", {}).values())
    for name in sorted(shards):
        if not (folder / name).is_file():
            raise _missing(base, f"its index names {name}, which is not there")


def _is_native(model_type: str) -> bool:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return model_type in CONFIG_MAPPING


def _read_json(base: Base, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise _missing(base, f"{path.name} could not be read") from error
    return value if isinstance(value, dict) else {}


def _missing(base: Base, what: str) -> TrainerError:
    return TrainerError("base_missing", repo_id=base.repo_id, folder=base.folder, what=what)


def _unsafe(base: Base, what: str) -> TrainerError:
    return TrainerError("base_unsafe", repo_id=base.repo_id, what=what)
