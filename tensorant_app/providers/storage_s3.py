"""Files by key on a network volume, over S3 with what RunPod lacks left out: no batch delete, no presigned addresses."""

from __future__ import annotations

import hashlib
import io
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from uuid import uuid4

from tensorant_app.domain.errors import AuthFailed, Denied, Invalid, Transient
from tensorant_app.providers.s3 import make_client, speaking
from tensorant_app.settings import get_settings
from trainer.contract import MANIFEST, BadManifest, FileEntry, Manifest, hash_file, load

T = TypeVar("T")

_MULTIPART_FROM = 400 * 1024 * 1024
"""Bytes. RunPod takes less than 500 MB in one piece."""
_PART = 64 * 1024 * 1024
_PIECE = 1024 * 1024
_IN_MEMORY = 8 * 1024 * 1024
_TRIES = 4
_PULLS = 2
"""Of a file that is not what its manifest says: RunPod may still show an older one."""
_MOST_FILES = 10_000
_KEY = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
"""RunPod's paths have trouble with other signs."""


class S3Store:
    """A store in one bucket. What was put is read back before `put` returns: RunPod has said done, and had nothing."""

    def __init__(
        self,
        bucket: str,
        client: Any,
        cache: Path,
        *,
        patient: Any = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """`cache` keeps what was fetched; `patient` is the client for large files."""
        self._bucket = bucket
        self._client = client
        self._patient = patient or client
        self._cache = cache
        self._wait = wait

    def put(self, key: str, source: Path | bytes) -> None:
        _check(key)
        wanted = _entry(source)
        for number in range(_TRIES):
            if number:
                self._wait(2.0 ** (number - 1))
            self._send(key, source, wanted.bytes)
            if self._is_stored(key, wanted):
                return
        raise Transient(f"Network volume {self._bucket} did not keep {key} as it was written, {_TRIES} times in a row.")

    @contextmanager
    def open(self, key: str, start: int = 0, length: int | None = None) -> Iterator[BinaryIO]:
        """The bytes from `start` on as they are now; past the end there are none."""
        with _sink(length) as sink:
            self._pull(self._client, key, sink, start, length)
            sink.seek(0)
            yield sink

    def fetch(self, key: str) -> Path:
        """A file of this key, or a folder as its manifest names it; each file is taken once and its hash is checked.

        `BadManifest` where the folder is not what its manifest says; `FileNotFoundError` where there is neither.
        """
        _check(key)
        found = self._head(key)
        return self._fetch_folder(key) if found is None else self._fetch_file(key, *found)

    def size(self, key: str) -> int | None:
        found = self._head(key)
        return None if found is None else found[0]

    def names(self, prefix: str) -> Iterator[str]:
        """Slow on RunPod, which hashes each file at its first listing: never call it while somebody waits."""
        more: dict[str, str] = {"Prefix": f"{_check(prefix)}/"}
        while True:
            page = self._ask(f"list {prefix}", partial(self._client.list_objects_v2, Bucket=self._bucket, **more))
            # RunPod lists empty folders as well, and sometimes names itself as the next page.
            yield from (entry["Key"] for entry in page.get("Contents", []) if not entry["Key"].endswith("/"))
            following = page.get("NextContinuationToken")
            if not page.get("IsTruncated") or not following:
                return
            if following == more.get("ContinuationToken"):
                raise Transient(f"Network volume {self._bucket} could not list {prefix}: its list does not go on.")
            more["ContinuationToken"] = following

    def delete(self, key: str) -> None:
        """A file, or all that lies below it; one by one, since RunPod deletes no more than one at a time."""
        _check(key)
        is_file = self._head(key) is not None
        for name in [key] if is_file else list(self.names(key)):
            self._ask(f"delete {name}", partial(self._client.delete_object, Bucket=self._bucket, Key=name))

    def _ask(self, doing: str, work: Callable[[], T]) -> T:
        """RunPod denies access to a good key now and then: only a denial that stays is one."""
        for number in range(_TRIES - 1):
            with suppress(AuthFailed), speaking(doing, self._bucket):
                return work()
            self._wait(0.25 * 2.0**number)
        with speaking(doing, self._bucket):
            return work()

    def _send(self, key: str, source: Path | bytes, size: int) -> None:
        if isinstance(source, bytes):
            work = partial(self._client.put_object, Bucket=self._bucket, Key=key, Body=source)
        elif size < _MULTIPART_FROM:
            work = partial(self._send_file, key, source)
        else:
            work = partial(self._send_parts, key, source)
        self._ask(f"write {key}", work)

    def _send_file(self, key: str, source: Path) -> None:
        with source.open("rb") as file:
            self._patient.put_object(Bucket=self._bucket, Key=key, Body=file)

    def _send_parts(self, key: str, source: Path) -> None:
        from boto3.s3.transfer import S3Transfer, TransferConfig

        config = TransferConfig(multipart_threshold=_MULTIPART_FROM, multipart_chunksize=_PART, max_concurrency=4)
        S3Transfer(self._patient, config).upload_file(str(source), self._bucket, key)

    def _is_stored(self, key: str, wanted: FileEntry) -> bool:
        """Read back: neither a 200 nor the size alone says that the bytes are there."""
        for number in range(_TRIES):
            if number:
                self._wait(0.25 * 2.0**number)
            if (found := self._head(key)) is not None:
                return found[0] == wanted.bytes and self._hash(key) == wanted
        return False

    def _hash(self, key: str) -> FileEntry:
        with _sink(None) as sink:
            self._pull(self._patient, key, sink, 0, None)
            sink.seek(0)
            return _entry_of(sink)

    def _head(self, key: str) -> tuple[int, str] | None:
        """Bytes and the server's mark of this content."""
        try:
            answer = self._ask(
                f"look for {key}", partial(self._client.head_object, Bucket=self._bucket, Key=_check(key))
            )
        except FileNotFoundError:
            return None
        return int(answer["ContentLength"]), str(answer.get("ETag", ""))

    def _pull(self, client: Any, key: str, sink: BinaryIO, start: int, length: int | None) -> None:
        """Into `sink`, whole or not at all: an answer that ends early is asked for again."""
        for number in range(_TRIES):
            if number:
                self._wait(0.25 * 2.0**number)
            if self._pull_once(client, key, sink, start, length):
                return
        raise Transient(f"Network volume {self._bucket} broke off in {key}, {_TRIES} times in a row.")

    def _pull_once(self, client: Any, key: str, sink: BinaryIO, start: int, length: int | None) -> bool:
        """Whether all that was announced came."""
        asked = {"Range": f"bytes={start}-{'' if length is None else start + length - 1}"} if start or length else {}
        get = partial(client.get_object, Bucket=self._bucket, Key=_check(key), **asked)
        answer = None if length == 0 else self._ask(f"read {key}", lambda: _none_past_the_end(get))
        sink.seek(0)
        sink.truncate()
        if answer is None:
            return True
        if not _pour(answer["Body"], sink, answer["ContentLength"]):
            return False
        if asked and "ContentRange" not in answer:
            _keep_only(sink, start, length)
        return True

    def _fetch_file(self, key: str, size: int, mark: str) -> Path:
        target = self._cache / key
        stamp = target.with_name(f".{target.name}.mark")
        if target.is_file() and _read(stamp) == f"{mark} {size}":
            return target
        self._take(key, target)
        stamp.write_text(f"{mark} {size}", encoding="utf-8")
        return target

    def _fetch_folder(self, key: str) -> Path:
        folder = self._cache / key
        with self.open(f"{key}/{MANIFEST}") as file:
            text = file.read().decode(errors="replace")
        for name, entry in _files_of(text, key).items():
            target = folder / name
            if not (target.is_file() and hash_file(target) == entry):
                self._take_named(f"{key}/{name}", target, entry)
        (folder / MANIFEST).write_text(text, encoding="utf-8")
        return folder

    def _take_named(self, key: str, target: Path, wanted: FileEntry) -> None:
        """What was just written may be seen late; what stays different is damaged, and asking on would not mend it."""
        for number in range(_PULLS):
            if number:
                self._wait(1.0)
            with suppress(FileNotFoundError):
                if self._take(key, target, wanted):
                    return
        raise BadManifest(f"{key} on network volume {self._bucket} is not what its manifest says.")

    def _take(self, key: str, target: Path, wanted: FileEntry | None = None) -> bool:
        """Beside its place first: a reader sees it whole. False, and nothing taken, where it is not as `wanted`."""
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.{uuid4().hex}")
        try:
            with aside.open("w+b") as file:
                self._pull(self._patient, key, file, 0, None)
            if wanted is not None and hash_file(aside) != wanted:
                return False
            aside.replace(target)
            return True
        finally:
            aside.unlink(missing_ok=True)


def connect_volume(access_key: str, secret_key: str, data_center: str, volume_id: str) -> S3Store:
    """The files of one network volume of RunPod's."""
    settings = get_settings()
    url = settings.runpod_s3_url.replace("{data_center}", data_center.lower())
    if not re.fullmatch(r"[A-Za-z0-9-]+", data_center) or not re.fullmatch(r"[A-Za-z0-9_-]+", volume_id):
        raise Denied(f"{volume_id!r} in {data_center!r} is no network volume. Check both under Connections.")
    if not (access_key.isascii() and secret_key.isascii() and access_key.isprintable() and secret_key.isprintable()):
        raise AuthFailed("The S3 key holds characters that no key has. Save it again under Connections.")
    quick, patient = (
        make_client(url, data_center, access_key, secret_key, is_patient=is_patient) for is_patient in (False, True)
    )
    return S3Store(volume_id, quick, settings.data_dir / "cache" / volume_id, patient=patient)


def _check(key: str) -> str:
    if not _KEY.fullmatch(key) or {".", ".."} & set(key.split("/")):
        raise Invalid({"key": f"The file key {key!r} is not allowed."})
    return key


def _files_of(text: str, key: str) -> dict[str, FileEntry]:
    """Written on the machine: names that lead elsewhere, and absurd numbers of them, are refused."""
    try:
        files = dict(load(Manifest, text).files)
        for name in files:
            _check(f"{key}/{name}")
    except (ValueError, Invalid) as error:
        raise BadManifest(f"{key}/{MANIFEST} cannot be read: {error}") from error
    if len(files) > _MOST_FILES:
        raise BadManifest(f"{key}/{MANIFEST} names {len(files)} files; at most {_MOST_FILES} are taken.")
    return files


def _entry(source: Path | bytes) -> FileEntry:
    return hash_file(source) if isinstance(source, Path) else _entry_of(io.BytesIO(source))


def _entry_of(file: BinaryIO) -> FileEntry:
    digest, size = hashlib.sha256(), 0
    while piece := file.read(_PIECE):
        digest.update(piece)
        size += len(piece)
    return FileEntry(digest.hexdigest(), size)


def _sink(length: int | None) -> BinaryIO:
    """Small pieces stay in memory; a file of unknown size does not."""
    if length is not None and length <= _IN_MEMORY:
        return io.BytesIO()
    return tempfile.TemporaryFile()


def _pour(body: Any, sink: BinaryIO, announced: int) -> bool:
    """Whether as much came as was announced: RunPod ends some answers early, with status 200."""
    from botocore.exceptions import BotoCoreError, HTTPClientError

    try:
        return sum(sink.write(piece) for piece in body.iter_chunks(_PIECE)) == announced
    except (BotoCoreError, HTTPClientError):
        return False


def _keep_only(sink: BinaryIO, start: int, length: int | None) -> None:
    """A server that sent the whole file in spite of the range."""
    sink.seek(start)
    part = sink.read() if length is None else sink.read(length)
    sink.seek(0)
    sink.truncate()
    sink.write(part)


def _none_past_the_end(ask: Callable[[], Any]) -> Any:
    from botocore.exceptions import ClientError

    try:
        return ask()
    except ClientError as error:
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 416:
            return None
        raise


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
