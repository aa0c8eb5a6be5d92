"""Whether a folder holds a LoRA adapter that a base model and a server can take, told with every reason where not."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.checkpoint import ADAPTER
from trainer.contract import MANIFEST, BadManifest, verify_folder
from trainer.errors import TrainerError

CONFIG = "adapter_config.json"
SERVER_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The limits that vLLM's --max-lora-rank takes; 16 is its default."""
MOST_HEADER = 64 << 20
_KEY = re.compile(r"^base_model\.model\.(?P<module>.+)\.lora_(?P<half>[AB])\.weight$")
_TYPES = {"F32": 4, "F16": 2, "BF16": 2}
_NO_LAYERS = ("embed", "wte", "wpe")
"""In names of matrices that are tables, not linear layers."""


@dataclass(frozen=True, slots=True)
class Tensor:
    shape: tuple[int, ...]
    kind: str


def verify_adapter(folder: Path, base: Path | None = None, *, most_rank: int | None = None) -> Mapping[str, Any]:
    """Its facts. `most_rank` is the limit of the server that shall take it."""
    config, tensors = _config(folder), read_header(folder / ADAPTER)
    layers = _layers_of(base) if base else {}
    if reasons := list(_reasons(config, tensors, layers, most_rank)):
        raise _refused("; ".join(reasons))
    modules = _pairs(tensors, config)
    _require_targets(modules, config)
    if (folder / MANIFEST).is_file():
        try:
            verify_folder(folder)
        except BadManifest as error:
            raise _refused(str(error)) from error
    if base is not None:
        _require_shapes(modules, tensors, layers)
    _require_numbers(folder / ADAPTER)
    return {
        "base": config.get("base_model_name_or_path"),
        "revision": config.get("revision"),
        "rank": config["r"],
        "server_rank": server_rank(rank_of(config)),
        "scaling": scaling(config),
        "modules": len(modules),
        "tensors": len(tensors),
    }


def rank_of(config: Mapping[str, Any]) -> int:
    """The highest of any layer."""
    return int(max(config["r"], *(config.get("rank_pattern") or {"": 0}).values()))


def server_rank(rank: int) -> int | None:
    """The lowest limit with which a server takes this rank; None where there is none."""
    return next((limit for limit in SERVER_RANKS if limit >= rank), None)


def scaling(config: Mapping[str, Any]) -> float:
    """What the product of both matrices is multiplied by when it is added to the base weights."""
    root = math.sqrt(config["r"]) if config.get("use_rslora") else config["r"]
    return float(config["lora_alpha"]) / float(root)


def read_header(path: Path) -> dict[str, Tensor]:
    """Names, shapes and types of a safetensors file, without its numbers."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > MOST_HEADER:
                raise _refused(f"{path.name} has an impossible header of {length:,} bytes")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        return {name: Tensor(tuple(entry["shape"]), entry["dtype"]) for name, entry in header.items()}
    except (OSError, ValueError, struct.error, KeyError, TypeError, AttributeError) as error:
        raise _refused(f"{path.name} is missing or no safetensors file") from error


def _reasons(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], layers: Mapping[str, Tensor], most_rank: int | None
) -> Iterator[str]:
    """Of a sound adapter that still fits neither base nor server: all of them, so that it is mended once."""
    if saved := config.get("modules_to_save"):
        whole = {name: t.shape for name, t in tensors.items() if not _KEY.match(name)}
        sizes = ", ".join(f"{name.split('.')[-2]} of {' x '.join(map(str, shape))}" for name, shape in whole.items())
        held = f" ({len(whole)} tensors: {sizes})" if whole else ""
        yield (
            f"it holds whole layers, {', '.join(saved)}{held}, beside its matrices, which no server loads as an adapter: "
            "merge it into the base instead"
        )
    rank = rank_of(config)
    if most_rank is not None and rank > most_rank:
        limit = server_rank(rank)
        start = f"start the server with a limit of {limit}, or " if limit else ""
        yield f"its rank of {rank} is above the server's limit of {most_rank}: {start}train with at most {most_rank}"
    modules = [key["module"] for key in map(_KEY.match, tensors) if key]
    if missing := _leaves(m for m in modules if layers and f"{m}.weight" not in layers):
        yield f"the base model has no layer {missing}; its linear layers are {_linear_leaves(layers)}"


def _linear_leaves(layers: Mapping[str, Tensor]) -> str:
    names = [name.removesuffix(".weight") for name, tensor in layers.items() if len(tensor.shape) == 2]
    names = [name for name in names if not any(part in name for part in _NO_LAYERS)]
    head = " (lm_head is there too and is not adapted)" if "lm_head" in names else ""
    return (_leaves(name for name in names if name != "lm_head") or "none") + head


def _leaves(modules: Iterator[str]) -> str:
    return ", ".join(dict.fromkeys(module.rpartition(".")[2] for module in modules))


def _layers_of(base: Path) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for path in sorted(base.glob("*.safetensors")):
        weights |= read_header(path)
    return weights


def _config(folder: Path) -> Mapping[str, Any]:
    try:
        config = json.loads((folder / CONFIG).read_text())
    except (OSError, ValueError) as error:
        raise _refused(f"it has no readable {CONFIG}") from error
    if not isinstance(config, dict) or str(config.get("peft_type")).upper() != "LORA":
        raise _refused(f"its {CONFIG} describes no LoRA adapter")
    if config.get("auto_mapping") or config.get("use_dora"):
        raise _refused(f"its {CONFIG} asks for code or a method (auto_mapping, DoRA) that is not supported")
    for name in ("r", "lora_alpha"):
        if not isinstance(config.get(name), int | float) or not 1 <= config[name] <= 100_000:
            raise _refused(f"its {CONFIG} has no usable {name}")
    return config


def _pairs(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> list[str]:
    """The adapted modules; each has both matrices, of the rank that the config says."""
    found: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        key = _KEY.match(name)
        if key is None:
            raise _refused(f"its weights hold {name}, which is no LoRA matrix")
        if tensor.kind not in _TYPES or len(tensor.shape) != 2:
            raise _refused(f"{name} is {tensor.kind} of shape {list(tensor.shape)}, which no LoRA matrix is")
        found.setdefault(key["module"], {})[key["half"]] = tensor
    if not found:
        raise _refused("its weights hold no matrix")
    for module, halves in found.items():
        if set(halves) != {"A", "B"}:
            raise _refused(f"{module} has only one of its two matrices")
        wanted = next(
            (r for part, r in (config.get("rank_pattern") or {}).items() if module.endswith(part)), config["r"]
        )
        if halves["A"].shape[0] != wanted or halves["B"].shape[1] != wanted:
            raise _refused(f"{module} has rank {halves['A'].shape[0]}, and {CONFIG} says {wanted}")
    return sorted(found)


def _require_targets(modules: list[str], config: Mapping[str, Any]) -> None:
    targets = config.get("target_modules")
    if not isinstance(targets, list):
        return  # "all-linear" or a pattern: the base decides
    strange = [m for m in modules if not any(m == t or m.endswith(f".{t}") for t in targets)]
    unused = [t for t in targets if not any(m == t or m.endswith(f".{t}") for m in modules)]
    if strange:
        raise _refused(f"{strange[0]} is not among the target_modules of its {CONFIG}")
    if unused:
        raise _refused(f"the target module {unused[0]} has no matrices")


def _require_shapes(modules: list[str], tensors: Mapping[str, Tensor], layers: Mapping[str, Tensor]) -> None:
    """Each matrix fits the layer that it is made for."""
    for module in modules:
        layer = layers[f"{module}.weight"]
        first, second = (tensors[f"base_model.model.{module}.lora_{half}.weight"].shape for half in "AB")
        if (second[0], first[1]) != layer.shape:
            raise _refused(
                f"{module} is made for a layer of {second[0]} by {first[1]}, and the base has {list(layer.shape)}"
            )


def _require_numbers(path: Path) -> None:
    from safetensors import safe_open

    learned = False
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - it is no mapping
                tensor = file.get_tensor(name)
                if not tensor.isfinite().all():
                    raise _refused(f"{name} holds numbers that are not finite")
                learned = learned or (".lora_B." in name and bool(tensor.any()))
    except (OSError, ValueError) as error:
        raise _refused(f"{path.name} cannot be read to its end") from error
    if not learned:
        raise _refused("it learned nothing: every lora_B matrix is zero")


def _refused(what: str) -> TrainerError:
    return TrainerError("upload_refused", what=what)
