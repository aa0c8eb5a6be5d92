"""Files by key: what every store does, in a folder and on a network volume, and what a folder does alone."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensorant_app.domain.errors import Invalid
from tensorant_app.providers.base import FileStore
from tensorant_app.providers.storage import FolderStore
from tests.providers.volumes import volume_of
from tests.runpod_emulator import Emulator
from trainer.contract import seal_folder


@pytest.fixture(params=["folder", "network volume"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore:
    if request.param == "folder":
        return FolderStore(tmp_path / "store")
    return volume_of(Emulator(tmp_path / "runpod"), tmp_path / "cache")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[FolderStore]:
    return FolderStore(tmp_path / "store")


def test_what_was_put_is_there_whole(store: FileStore, tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.write_bytes(b"x" * 3_000_000)

    store.put("one/two.bin", source)
    store.put("one/three.bin", b"abc")

    assert store.size("one/two.bin") == 3_000_000
    assert store.fetch("one/two.bin").read_bytes() == source.read_bytes()
    assert store.fetch("one/three.bin").read_bytes() == b"abc"
    assert list(store.names("one")) == ["one/three.bin", "one/two.bin"]


@pytest.mark.parametrize(
    ("start", "length", "read"), [(0, None, b"abcdef"), (2, None, b"cdef"), (1, 3, b"bcd"), (6, None, b"")]
)
def test_a_part_of_a_file_is_read(store: FileStore, start: int, length: int | None, read: bytes) -> None:
    store.put("a/file", b"abcdef")

    with store.open("a/file", start, length) as file:
        assert file.read(length if length is not None else -1) == read


def test_a_file_that_is_not_there(store: FileStore) -> None:
    assert store.size("a/file") is None
    with pytest.raises(FileNotFoundError), store.open("a/file") as file:
        file.read()


def test_a_file_put_again_is_the_new_one(store: FileStore) -> None:
    store.put("a/file", b"old")
    store.fetch("a/file")
    store.put("a/file", b"new")

    assert store.fetch("a/file").read_bytes() == b"new"


def test_a_sealed_folder_is_fetched_whole(store: FileStore, tmp_path: Path) -> None:
    made = tmp_path / "made"
    (made / "deep").mkdir(parents=True)
    (made / "deep" / "weights.bin").write_bytes(b"w" * 1000)
    (made / "config.json").write_text("{}")
    seal_folder(made)
    for path in sorted(made.rglob("*")):
        if path.is_file():
            store.put(f"runs/1/adapter/1/{path.relative_to(made).as_posix()}", path)

    fetched = store.fetch("runs/1/adapter/1")

    assert (fetched / "deep" / "weights.bin").read_bytes() == b"w" * 1000
    assert (fetched / "manifest.json").read_text() == (made / "manifest.json").read_text()


@pytest.mark.parametrize("key", ["../escape", "a/../../escape", "/etc/passwd", "a\\b", "a\0b"])
def test_a_key_never_leads_out(store: FileStore, key: str) -> None:
    with pytest.raises(Invalid, match="not allowed"):
        store.put(key, b"x")


def test_deleting_what_is_not_there_is_a_success(store: FileStore) -> None:
    store.put("a/file", b"x")
    store.put("a/b/file", b"x")
    store.put("ab", b"x")

    store.delete("a")
    store.delete("a/file")

    assert store.size("a/file") is None
    assert store.size("a/b/file") is None
    assert store.size("ab") == 1


def test_a_full_disk_leaves_the_old_file_and_nothing_half_made(
    folder: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put("a/file", b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        folder.put("a/file", b"new")

    assert folder.fetch("a/file").read_bytes() == b"old"
    assert [path.name for path in folder.fetch("a").iterdir()] == ["file"]
