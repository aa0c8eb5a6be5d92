"""Files by key in a folder."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tensorant_app.domain.errors import Invalid
from tensorant_app.providers.storage import FolderStore


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


def test_what_was_put_is_there_whole(store: FolderStore, tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.write_bytes(b"x" * 3_000_000)

    store.put("one/two.bin", source)
    store.put("one/three.bin", b"abc")

    assert store.size("one/two.bin") == 3_000_000
    assert store.fetch("one/three.bin").read_bytes() == b"abc"
    assert list(store.names("one")) == ["one/three.bin", "one/two.bin"]
    with store.open("one/three.bin", start=1) as file:
        assert file.read() == b"bc"


@pytest.mark.parametrize("key", ["../escape", "a/../../escape", "/etc/passwd", "a\\b", "a\0b"])
def test_a_key_never_leads_out(store: FolderStore, key: str) -> None:
    with pytest.raises(Invalid, match="not allowed"):
        store.put(key, b"x")


def test_a_full_disk_leaves_the_old_file_and_nothing_half_made(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a/file", b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.put("a/file", b"new")

    assert store.fetch("a/file").read_bytes() == b"old"
    assert [path.name for path in store.fetch("a").iterdir()] == ["file"]


def test_deleting_what_is_not_there_is_a_success(store: FolderStore) -> None:
    store.put("a/file", b"x")

    store.delete("a")
    store.delete("a/file")

    assert store.size("a/file") is None
