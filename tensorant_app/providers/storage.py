"""Files by key: a folder of this computer."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tensorant_app.domain.errors import Invalid


class FolderStore:
    """A store in one folder. A file appears under its key whole, or not at all."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._root.mkdir(parents=True, exist_ok=True)

    @property
    def root(self) -> Path:
        return self._root

    def put(self, key: str, source: Path | bytes) -> None:
        target = self._path(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with aside.open("wb") as file:
                if isinstance(source, bytes):
                    file.write(source)
                else:
                    with source.open("rb") as original:
                        shutil.copyfileobj(original, file, 1 << 20)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(target)
        except OSError:
            aside.unlink(missing_ok=True)
            raise

    def take(self, key: str, source: Path) -> None:
        """Like `put`, but the file moves: the same disk copies nothing, and `source` is gone."""
        target = self._path(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as file:
            os.fsync(file.fileno())
        try:
            source.replace(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self.put(key, source)
            source.unlink()

    def write_on(self, key: str, start: int, data: bytes) -> None:
        """Write at a place of a file that grows, and end it there; the same bytes twice are the same file."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("r+b" if path.exists() else "w+b") as file:
            file.seek(start)
            file.write(data)
            file.truncate()

    @contextmanager
    def open(self, key: str, start: int = 0, length: int | None = None) -> Iterator[BinaryIO]:
        with self._path(key).open("rb") as file:
            file.seek(start)
            yield file

    def fetch(self, key: str) -> Path:
        return self._path(key)

    def size(self, key: str) -> int | None:
        path = self._path(key)
        return path.stat().st_size if path.is_file() else None

    def names(self, prefix: str) -> Iterator[str]:
        folder = self._path(prefix)
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield path.relative_to(self._root).as_posix()

    def delete(self, key: str) -> None:
        path = self._path(key)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        """Keys are made by us; one that leads out of the root is a bug or an attack."""
        is_plain = "\\" not in key and "\0" not in key
        path = (self._root / key).resolve() if is_plain else self._root.parent
        if not path.is_relative_to(self._root):
            raise Invalid({"key": f"The file key {key!r} is not allowed."})
        return path
