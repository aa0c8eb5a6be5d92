"""Looks into an adapter.zip that somebody hands in, and trusts nothing in it until everything has been checked."""

from __future__ import annotations

import json
import math
import re
import shutil
import stat
import struct
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from trainer.checkpoint import ADAPTER
from trainer.contract import MANIFEST, BadManifest, verify_folder
from trainer.errors import TrainerError

CONFIG = "adapter_config.json"
ALLOWED = (".json", ".safetensors", ".jinja", ".md", ".txt", ".model")
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".npy", ".npz")
MOST_FILES = 200
MOST_BYTES = 8 << 30
MOST_RATIO = 200
"""Weights hardly shrink; what unpacks to far more than it is was made to fill a disk."""
SMALL = 1 << 20
"""Below this size a ratio says nothing."""
MOST_HEADER = 64 << 20
_KEY = re.compile(r"^base_model\.model\.(?P<module>.+)\.lora_(?P<half>[AB])\.weight$")
_TYPES = {"F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True, slots=True)
class Tensor:
    shape: tuple[int, ...]
    kind: str


def verify_zip(path: Path, *, base: Path | None = None, unpack: Path | None = None) -> Mapping[str, Any]:
    """The adapter's facts, or a `TrainerError` that names what is wrong. `unpack` receives the files once all is well."""
    with tempfile.TemporaryDirectory(dir=unpack.parent if unpack else None, prefix=".adapter-") as name:
        folder = Path(name) / "adapter"
        folder.mkdir()
        _unpack(path, folder)
        facts = verify_adapter(folder, base)
        if unpack:
            shutil.rmtree(unpack, ignore_errors=True)
            folder.rename(unpack)
    return facts


def verify_adapter(folder: Path, base: Path | None = None) -> Mapping[str, Any]:
    config = _config(folder)
    tensors = read_header(folder / ADAPTER)
    modules = _pairs(tensors, config)
    _require_targets(modules, config)
    if (folder / MANIFEST).is_file():
        try:
            verify_folder(folder)
        except BadManifest as error:
            raise _refused(str(error)) from error
    if base is not None:
        _require_base(modules, tensors, base)
    _require_numbers(folder / ADAPTER)
    return {
        "base": config.get("base_model_name_or_path"),
        "revision": config.get("revision"),
        "rank": config["r"],
        "scaling": scaling(config),
        "modules": len(modules),
        "tensors": len(tensors),
    }


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


def _unpack(path: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            _require_safe_names(archive)
            for entry in archive.infolist():
                if not entry.is_dir():
                    target = folder / entry.filename
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(entry) as source, target.open("wb") as sink:
                        _copy(source, sink, entry)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise _refused(f"it is no ZIP file that can be read ({error})") from error


def _require_safe_names(archive: zipfile.ZipFile) -> None:
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if len(entries) > MOST_FILES:
        raise _refused(f"it holds {len(entries):,} files, more than {MOST_FILES}")
    if len(set(names)) < len(names):
        raise _refused("it holds two files of the same name")
    for entry in entries:
        _require_safe(entry)
    total = sum(entry.file_size for entry in entries)
    if total > MOST_BYTES:
        raise _refused(f"it unpacks to {total:,} bytes, more than {MOST_BYTES:,}")


def _require_safe(entry: zipfile.ZipInfo) -> None:
    name = entry.filename
    parts = PurePosixPath(name).parts
    if name.startswith("/") or "\\" in name or ":" in name or ".." in parts or "\0" in name:
        raise _refused(f"{name!r} leads out of its folder")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise _refused(f"{name} is a link")
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in PICKLED:
        raise _refused(f"{name} is pickled, and loading a pickle can run any program; save it as safetensors")
    if not entry.is_dir() and suffix not in ALLOWED:
        raise _refused(f"{name} has no place in an adapter")
    if entry.file_size > SMALL and entry.file_size > MOST_RATIO * max(entry.compress_size, 1):
        raise _refused(f"{name} would unpack to {entry.file_size:,} bytes from {entry.compress_size:,}")


def _copy(source: IO[bytes], sink: IO[bytes], entry: zipfile.ZipInfo) -> None:
    """Never more than the entry claims, whatever its data say."""
    left = entry.file_size
    while piece := source.read(1 << 20):
        left -= len(piece)
        if left < 0:
            raise _refused(f"{entry.filename} is larger than it claims")
        sink.write(piece)


def _config(folder: Path) -> Mapping[str, Any]:
    try:
        config = json.loads((folder / CONFIG).read_text())
    except (OSError, ValueError) as error:
        raise _refused(f"it has no readable {CONFIG}") from error
    if not isinstance(config, dict) or str(config.get("peft_type")).upper() != "LORA":
        raise _refused(f"its {CONFIG} describes no LoRA adapter")
    if config.get("auto_mapping") or config.get("use_dora"):
        raise _refused(f"its {CONFIG} asks for code or a method (auto_mapping, DoRA) that is not supported")
    if saved := config.get("modules_to_save"):
        raise _refused(
            f"it holds whole layers ({', '.join(saved)}) beside its matrices, which no server loads as an adapter; merge it into the base"
        )
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


def _require_base(modules: list[str], tensors: Mapping[str, Tensor], base: Path) -> None:
    """Each matrix fits the layer that it is made for."""
    weights: dict[str, Tensor] = {}
    for path in sorted(base.glob("*.safetensors")):
        weights |= read_header(path)
    for module in modules:
        layer = weights.get(f"{module}.weight")
        if layer is None:
            raise _refused(f"the base model has no layer {module}")
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
