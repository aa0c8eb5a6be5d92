"""A base model's folder without a model: the files that the console reads, made in a millisecond."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainer.contract import Base, seal_folder

REPO_ID = "tests/tiny-llama"
REVISION = "a" * 40
CONFIG: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "max_position_embeddings": 2048,
}


def make_plain_base(
    folder: Path,
    *,
    without: Sequence[str] = (),
    extra: Mapping[str, bytes] | None = None,
    revision: str = REVISION,
    tokenizer: str = "{}",
    **config: Any,
) -> Base:
    """Sealed and usable; `without` leaves files out, `extra` adds some, `config` keys override."""
    files = {
        "config.json": json.dumps({**CONFIG, **config}).encode(),
        "tokenizer.json": tokenizer.encode(),
        "chat_template.jinja": b"{{ messages }}",
        "model.safetensors": weights({"embed": [100, 64], "head": [64]}),
        **(extra or {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if name not in without:
            (folder / name).write_bytes(content)
    seal_folder(folder, {"repo_id": REPO_ID, "revision": revision})
    return Base(REPO_ID, revision, str(folder))


def weights(shapes: Mapping[str, Sequence[int]]) -> bytes:
    """The header of a safetensors file, and no data behind it."""
    header = {name: {"dtype": "F32", "shape": list(shape), "data_offsets": [0, 0]} for name, shape in shapes.items()}
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return len(text).to_bytes(8, "little") + text
