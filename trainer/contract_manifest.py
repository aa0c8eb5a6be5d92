"""Sealed folders: a manifest, written last, that names every file with its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainer.contract_files import dump, load, write_file

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class FileEntry:
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """`manifest.json`: written last; a folder without one that verifies does not exist."""

    files: Mapping[str, FileEntry]
    facts: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)


class BadManifest(Exception):
    """The folder is not what its manifest says; the message names the file."""


def hash_file(path: Path) -> FileEntry:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            size += len(piece)
    return FileEntry(digest.hexdigest(), size)


def seal_folder(folder: Path, facts: Mapping[str, str | int | float | bool | None] | None = None) -> Manifest:
    """Hash every file of the folder and write its manifest last, durably."""
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST)
    manifest = Manifest({name: hash_file(folder / name) for name in names}, dict(facts or {}))
    write_file(folder / MANIFEST, dump(manifest))
    return manifest


def verify_folder(folder: Path) -> Manifest:
    """The folder's manifest, or `BadManifest` where a file is missing or differs."""
    try:
        manifest = load(Manifest, (folder / MANIFEST).read_text())
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadManifest(f"{folder.name} has no readable {MANIFEST}") from error
    for name, entry in manifest.files.items():
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise BadManifest(f"{folder.name}: {MANIFEST} names a file outside the folder")
        if not (folder / name).is_file():
            raise BadManifest(f"{folder.name}: {name} is missing")
        if hash_file(folder / name) != entry:
            raise BadManifest(f"{folder.name}: {name} differs from its manifest")
    return manifest
