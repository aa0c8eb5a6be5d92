"""Looks into an adapter.zip that somebody hands in, and trusts nothing in it until everything has been checked."""

from __future__ import annotations

import shutil
import stat
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

from trainer.adapter_folder import verify_adapter
from trainer.errors import TrainerError

ALLOWED = (".json", ".safetensors", ".jinja", ".md", ".txt", ".model")
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".npy", ".npz")
MOST_FILES = 200
MOST_BYTES = 8 << 30
MOST_RATIO = 200
"""Weights hardly shrink; what unpacks to far more than it is was made to fill a disk."""
SMALL = 1 << 20
"""Below this size a ratio says nothing."""


def verify_zip(
    path: Path, *, base: Path | None = None, unpack: Path | None = None, most_rank: int | None = None
) -> Mapping[str, Any]:
    """The adapter's facts, or a `TrainerError` that names what is wrong. `unpack` receives the files once all is well."""
    with tempfile.TemporaryDirectory(dir=unpack.parent if unpack else None, prefix=".adapter-") as name:
        folder = Path(name) / "adapter"
        folder.mkdir()
        _unpack(path, folder)
        facts = verify_adapter(folder, base, most_rank=most_rank)
        if unpack:
            shutil.rmtree(unpack, ignore_errors=True)
            folder.rename(unpack)
    return facts


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


def _refused(what: str) -> TrainerError:
    return TrainerError("upload_refused", what=what)
