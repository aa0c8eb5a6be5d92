"""Decides from a count of bytes, before the first step, whether activations are kept or computed again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.contract import TrainOptions

if TYPE_CHECKING:
    import torch
    from peft import PeftModel

    from trainer.batching import Pack

HEAD_BYTES = 256 << 20
"""What scores and their gradient take at most; `trainer.head` works in pieces."""
ADAM_BYTES = 12
"""Of each trained number: its gradient and two averages, in float32."""
MOST_USED = 0.85
"""The share of the free memory that may be planned with: an estimate can be wrong, and an allocator leaves gaps."""
_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What of a model and its settings says how much a token leaves behind."""

    layers: int
    width: int
    """Of the hidden state."""
    queries: int
    """Width of all heads together."""
    keys: int
    """Width of keys, and of values."""
    inner: int
    """Width of the feed-forward layer."""
    rank: int
    drops: bool
    """LoRA dropout is on."""
    number_bytes: int
    """Of one activation: 2 in bfloat16, 4 in float32."""
    trained: int
    """Trained numbers."""
    scored_heads: int = 0
    """Heads whose attention scores are kept whole, where attention is not the fused one."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """In bytes; `checkpointing` says that activations are computed again in the backward pass (gradient checkpointing)."""

    tokens: int
    activations: int
    """Kept by the heaviest forward pass, as chosen."""
    needed: int
    free: int
    checkpointing: bool


def plan_memory(sizes: Sizes, lines: int, columns: int, free: int) -> MemoryPlan:
    """For a heaviest pass of `lines` sequences of `columns` tokens. Computing again costs a third of the speed."""
    fixed = HEAD_BYTES + ADAM_BYTES * sizes.trained
    kept = activation_bytes(sizes, lines, columns)
    checkpointing = fixed + kept > MOST_USED * free
    activations = recomputed_bytes(sizes, lines, columns) if checkpointing else kept
    return MemoryPlan(lines * columns, activations, fixed + activations, free, checkpointing)


def activation_bytes(sizes: Sizes, lines: int, columns: int) -> int:
    """What all layers keep for the backward pass."""
    return sizes.layers * _layer_bytes(sizes, lines, columns)


def recomputed_bytes(sizes: Sizes, lines: int, columns: int) -> int:
    """Each layer's input, and one layer while it is computed again."""
    inputs = sizes.layers * lines * columns * sizes.width * sizes.number_bytes
    return inputs + _layer_bytes(sizes, lines, columns)


def _layer_bytes(sizes: Sizes, lines: int, columns: int) -> int:
    """Counted on Llama, Qwen3, Granite, Phi-3 and Gemma 2 (tests/trainer/test_memory.py)."""
    numbers = 5 * sizes.width + 2 * sizes.queries + 2 * sizes.keys + 4 * sizes.inner + 7 * sizes.rank
    # A dropped-out copy of each linear layer's input, and a mask of one byte.
    dropped = (4 * sizes.width + sizes.queries + sizes.inner) if sizes.drops else 0
    norms = 2 * sizes.width * 4  # always in float32
    scores = 3 * sizes.scored_heads * lines * columns * columns * 4
    return lines * columns * ((numbers + dropped) * sizes.number_bytes + dropped + norms) + scores


def heaviest(packs: Sequence[Pack]) -> tuple[int, int]:
    """Lines and columns of the pack with the most tokens."""
    return max(((len(pack.ids), len(pack.ids[0])) for pack in packs), key=lambda size: size[0] * size[1])


def sizes_of(model: PeftModel, options: TrainOptions) -> Sizes:
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // heads
    keys = getattr(config, "num_key_value_heads", None) or heads
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    experts = getattr(config, "num_experts_per_tok", None) or 1
    return Sizes(
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        queries=heads * head,
        keys=keys * head,
        inner=inner * experts,
        rank=options.rank,
        drops=options.dropout > 0,
        number_bytes=model.get_input_embeddings().weight.element_size(),
        trained=sum(p.numel() for p in model.parameters() if p.requires_grad),
        scored_heads=heads if getattr(config, "attn_logit_softcapping", None) else 0,
    )


def free_bytes(device: torch.device) -> int:
    """Of the GPU; else of this computer, or of what its container may still use."""
    if device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    return min(
        available, *(_left(*paths) for paths in _CGROUPS), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    )


def _left(limit: str, used: str) -> int:
    """Bytes below a container's limit; without bound where it has none."""
    try:
        most, now = Path(limit).read_text().strip(), int(Path(used).read_text())
    except (OSError, ValueError):
        return 1 << 62
    return max(int(most) - now, 0) if most.isdigit() else 1 << 62
