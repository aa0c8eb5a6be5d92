"""The count of bytes that decides whether activations are kept, beside what PyTorch really keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from trainer.batching import Pack, pack_rows, pad_rows
from trainer.chat import Encoded
from trainer.contract import TrainOptions
from trainer.lora import add_lora
from trainer.memory import (
    HEAD_BYTES,
    MOST_USED,
    Sizes,
    activation_bytes,
    free_bytes,
    heaviest,
    plan_memory,
    recomputed_bytes,
    sizes_of,
)
from trainer.step import summed_loss

EIGHT_B = Sizes(
    layers=32,
    width=4096,
    queries=4096,
    keys=1024,
    inner=14336,
    rank=16,
    drops=False,
    number_bytes=2,
    trained=42_000_000,
)
"""As Llama 3.1 8B in bfloat16."""
GIB = 1 << 30
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {},
    "granite": {},
    "phi3": {},
    "gemma2": {"layer_types": ["full_attention"] * 3},
}


def kept_bytes(model: Any, pack: Pack) -> int:
    """What autograd saves for the backward pass, weights not counted."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved: dict[int, torch.UntypedStorage] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        summed_loss(model, pack)
    return sum(storage.nbytes() for storage in saved.values())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_the_estimate_is_near_what_is_really_kept(family: str, dropout: float, layout: str) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        family, vocab_size=500, hidden_size=96, intermediate_size=288, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=16, pad_token_id=0, eos_token_id=1, **FAMILIES[family],
    )  # fmt: skip
    options = TrainOptions(rank=12, dropout=dropout)
    model = add_lora(AutoModelForCausalLM.from_config(config).requires_grad_(False), options).train()
    rows = [Encoded([first, *range(5, 104)], [(98, 100)], "", []) for first in (1, 2, 3)]
    pack = pad_rows(rows) if layout == "padded" else pack_rows(rows, share_prefix=False)

    guess = activation_bytes(sizes_of(model, options), *heaviest([pack]))

    assert 0.75 < guess / kept_bytes(model, pack) < 1.5


def test_activations_are_kept_as_long_as_they_fit() -> None:
    needed = plan_memory(EIGHT_B, 1, 4096, free=1 << 60).needed

    roomy = plan_memory(EIGHT_B, 1, 4096, free=int(needed / MOST_USED) + 1)
    tight = plan_memory(EIGHT_B, 1, 4096, free=int(needed / MOST_USED) - 1)

    assert (roomy.checkpointing, roomy.needed) == (False, needed)
    assert tight.checkpointing
    assert tight.activations == recomputed_bytes(EIGHT_B, 1, 4096)
    assert tight.needed < needed / 5


def test_an_8b_model_on_80_gib_keeps_them_and_on_24_gib_does_not() -> None:
    weights = 15 * GIB

    large = plan_memory(EIGHT_B, 1, 4096, free=80 * GIB - weights)
    small = plan_memory(EIGHT_B, 1, 4096, free=24 * GIB - weights)

    assert 15 * GIB < large.activations < 30 * GIB
    assert (large.checkpointing, small.checkpointing) == (False, True)
    assert small.needed < 9 * GIB


def test_more_of_anything_never_needs_less() -> None:
    small = activation_bytes(EIGHT_B, 2, 512)

    assert activation_bytes(EIGHT_B, 2, 513) > small
    assert activation_bytes(EIGHT_B, 3, 512) > small
    assert activation_bytes(replace(EIGHT_B, drops=True), 2, 512) > small
    assert activation_bytes(replace(EIGHT_B, number_bytes=4), 2, 512) > small
    assert activation_bytes(replace(EIGHT_B, scored_heads=32), 2, 512) > small
    assert plan_memory(EIGHT_B, 1, 1, free=GIB).needed > HEAD_BYTES


def test_this_computer_has_some_memory_free_and_not_more_than_it_has() -> None:
    import os

    free = free_bytes(torch.device("cpu"))

    assert 0 < free <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
