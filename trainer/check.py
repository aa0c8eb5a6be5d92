"""Answers whether this machine can train: one optimizer step of a tiny random model, and what the machine has."""

from __future__ import annotations

import importlib.metadata
import os
import time
from typing import TYPE_CHECKING

from trainer.errors import failure_of

if TYPE_CHECKING:
    import torch

LIBRARIES = ("torch", "transformers", "peft", "safetensors", "tokenizers", "pyarrow", "bitsandbytes")
OPTIONAL = ("bitsandbytes",)
TINY = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
"""The model of one step."""
Report = dict[str, bool | str | int | float | dict[str, str]]


def check() -> Report:
    """Never raises: trouble is part of the report."""
    began = time.monotonic()
    try:
        versions = _versions()
        device = _train_one_step()
    except Exception as error:  # whatever is wrong with the installation is what this command is for
        return {"ok": False, "error": failure_of(error).message}
    return {
        "ok": True,
        "versions": versions,
        "device": device.type,
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "bf16": _has_bf16(device),
        "seconds": round(time.monotonic() - began, 2),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if name not in OPTIONAL:
                raise
    return found


def _train_one_step() -> torch.device:
    from transformers import LlamaConfig, LlamaForCausalLM

    from trainer.base import best_device
    from trainer.batching import pack_rows
    from trainer.chat import Encoded
    from trainer.contract import TrainOptions
    from trainer.lora import add_lora
    from trainer.step import make_optimizer, summed_loss

    device, options = best_device(), TrainOptions(rank=4)
    model = add_lora(LlamaForCausalLM(LlamaConfig(**TINY)).to(device), options)  # type: ignore[arg-type]
    optimizer = make_optimizer(model, options)
    rows = [Encoded([1, 2, 3, i, i + 1], [(3, 5)], "", []) for i in range(4, 8)]
    summed_loss(model, pack_rows(rows, share_prefix=True)).backward()
    optimizer.step()
    return device


def _has_bf16(device: torch.device) -> bool:
    """Whether training would use it."""
    import torch

    from trainer.base import best_dtype

    return best_dtype(device) is torch.bfloat16
