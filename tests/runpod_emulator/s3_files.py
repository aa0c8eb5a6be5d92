"""One bucket's files: written aside and moved to their place, as a reader on the volume must never see half a file."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

from tests.runpod_emulator.s3_sign import S3Error
from tests.runpod_emulator.wire import Request

HIDDEN = ".s3compat_uploads"
MOST_BYTES = 500 * 1000 * 1000
"""Of one PUT, and of one part."""
_PIECE = 1 << 20
_CHECKSUMS = ("x-amz-checksum-", "x-amz-sdk-checksum-", "x-amz-trailer")


@dataclass(frozen=True, slots=True)
class Found:
    path: Path
    size: int
    at: datetime

    def headers(self) -> dict[str, str]:
        times = {"last-modified": format_datetime(self.at, usegmt=True)}
        return {"etag": etag_of(self.path), "accept-ranges": "bytes", "content-type": "binary/octet-stream", **times}


@dataclass(frozen=True, slots=True)
class Bucket:
    folder: Path

    def find(self, key: str) -> Found:
        path = self._path(key)
        if not path.is_file():
            raise S3Error(404, "NoSuchKey", "The specified key does not exist.")
        stat = path.stat()
        return Found(path, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))

    def keys(self, prefix: str) -> Iterator[str]:
        """In S3's order; folders that hold nothing end in a slash."""
        start = self._path(prefix.rpartition("/")[0]) if "/" in prefix else self.folder
        found = []
        for path in start.rglob("*") if start.is_dir() else ():
            key = path.relative_to(self.folder).as_posix()
            if key.split("/")[0] == HIDDEN:
                continue
            if path.is_file():
                found.append(key)
            elif path.is_dir() and not any(path.iterdir()):
                found.append(f"{key}/")
        return iter(sorted((key for key in found if key.startswith(prefix)), key=lambda key: key.encode()))

    def write(self, key: str, request: Request, *, is_short: bool = False) -> str:
        """Store the request's body; the ETag."""
        aside = self._aside(uuid4().hex)
        try:
            etag = _receive(request, aside)
            if is_short:
                with aside.open("r+b") as file:
                    file.truncate(aside.stat().st_size // 2)
            self._move(aside, key)
        finally:
            aside.unlink(missing_ok=True)
        return etag

    def swallow(self, request: Request) -> str:
        """Read the body and store nothing."""
        aside = self._aside(uuid4().hex)
        try:
            return _receive(request, aside)
        finally:
            aside.unlink(missing_ok=True)

    def remove(self, key: str) -> None:
        path = self._path(key)
        if path.is_file():
            path.unlink()

    def begin(self, key: str) -> str:
        upload = uuid4().hex
        self._path(key)
        self._aside(upload).mkdir()
        return upload

    def write_part(self, upload: str, number: int, request: Request) -> str:
        return _receive(request, self._upload(upload) / f"{number:05d}")

    def complete(self, key: str, upload: str, parts: Sequence[int]) -> str:
        folder = self._upload(upload)
        whole = self._aside(uuid4().hex)
        digests = b""
        with whole.open("wb") as file:
            for number in parts:
                part = folder / f"{number:05d}"
                if not part.is_file():
                    raise S3Error(400, "InvalidPart", f"Part {number} was not uploaded.")
                with part.open("rb") as piece:
                    shutil.copyfileobj(piece, file, _PIECE)
                digests += bytes.fromhex(etag_of(part).strip('"'))
        self._move(whole, key)
        shutil.rmtree(folder)
        return f'"{hashlib.md5(digests).hexdigest()}-{len(parts)}"'

    def abort(self, upload: str) -> None:
        shutil.rmtree(self._upload(upload))

    def _move(self, aside: Path, key: str) -> None:
        target = self._path(key)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            aside.replace(target)
        except OSError as error:
            raise S3Error(400, "InvalidRequest", "A folder and a file cannot bear the same name.") from error

    def _upload(self, upload: str) -> Path:
        folder = self.folder / HIDDEN / upload
        if not upload.isalnum() or not folder.is_dir():
            raise S3Error(404, "NoSuchUpload")
        return folder

    def _aside(self, name: str) -> Path:
        (self.folder / HIDDEN).mkdir(parents=True, exist_ok=True)
        return self.folder / HIDDEN / name

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if not key.isprintable() or "\\" in key or ".." in parts or "" in parts[:-1] or parts[0] == HIDDEN:
            raise S3Error(400, "InvalidArgument", "The key is not a plain path.")
        return self.folder / key


def etag_of(path: Path) -> str:
    """Of the whole content, as the provider reckons it too; remembered until the file changes."""
    stat = path.stat()
    return _etag(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4096)
def _etag(path: Path, changed: int, size: int) -> str:
    digest = hashlib.md5()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return f'"{digest.hexdigest()}"'


def _receive(request: Request, target: Path) -> str:
    """The body as a file, if it is what its headers say; its ETag."""
    claimed = request.headers.get("x-amz-content-sha256", "UNSIGNED-PAYLOAD")
    if claimed.startswith("STREAMING") or any(name.startswith(_CHECKSUMS) for name in request.headers):
        # Nobody says that the provider takes them, so the console must not count on it.
        raise S3Error(501, "NotImplemented", "Checksum headers and trailers are not offered.")
    if request.length > MOST_BYTES:
        raise S3Error(400, "EntityTooLarge", "More than 500 MB need a multipart upload.")
    md5, sha256, left = hashlib.md5(), hashlib.sha256(), request.length
    with target.open("wb") as file:
        while left > 0 and (piece := request.body.read(min(_PIECE, left))):
            left -= len(piece)
            md5.update(piece)
            sha256.update(piece)
            file.write(piece)
    if left:
        raise S3Error(400, "IncompleteBody", "The connection ended before the whole body had come.")
    if claimed != "UNSIGNED-PAYLOAD" and claimed != sha256.hexdigest():
        raise S3Error(400, "XAmzContentSHA256Mismatch")
    return f'"{md5.hexdigest()}"'
