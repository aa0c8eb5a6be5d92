"""The S3 side of a network volume: a bucket is a volume, a key is a path in its folder. What RunPod lacks is 501."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from tests.runpod_emulator.account import Account
from tests.runpod_emulator.faults import Armed, Fault
from tests.runpod_emulator.s3_files import Bucket
from tests.runpod_emulator.s3_sign import S3Error, verify
from tests.runpod_emulator.s3_xml import bucket_list, object_list, upload_begun, upload_done
from tests.runpod_emulator.wire import ApiError, Request, Response
from tests.runpod_emulator.world import Call, World

PIECE = 1 << 20
_FULL = S3Error(507, "InsufficientStorage", "The network volume is full.")


@dataclass(frozen=True, slots=True)
class Visit:
    """A signed request for one bucket."""

    request: Request
    bucket: Bucket
    key: str
    struck: Armed | None
    """The fault that shapes how it is carried out."""


def handle_s3(world: World, request: Request) -> Response:
    request_id = f"s3-{len(world.calls) + 1:06d}"
    try:
        response = _handle(world, request, request_id)
    except S3Error as error:
        response = error.response()
    response.headers.setdefault("x-amz-request-id", request_id)
    if request.method == "HEAD":
        response.body = b""
    return response


def _handle(world: World, request: Request, request_id: str) -> Response:
    bucket_name, _, key = unquote(request.path).lstrip("/").partition("/")
    operation = _operation(request, bucket_name, key)
    account, bucket = _log_in(world, request, bucket_name)
    account.tick()
    struck = account.faults.take(operation, key, tuple(_BEFORE))
    if struck:
        raise _BEFORE[struck.fault]
    if operation == "s3.buckets":
        return bucket_list([volume.id for volume in account.things.volumes()])
    assert bucket is not None
    changed = account.faults.take(operation, key, (Fault.S3_SHORT_WRITE, Fault.S3_SHORT_READ, Fault.S3_VANISHED))
    response = _DO[operation](Visit(request, bucket, key, changed))
    with world.lock:
        world.calls.append(Call(world.clock(), account.id, operation, key, response.status, request_id))
    if account.faults.take(operation, key, (Fault.S3_LOST, Fault.ANSWER_LOST)):
        response.is_lost = True
    return response


def _operation(request: Request, bucket: str, key: str) -> str:
    """501 for everything that the provider does not do, such as deleting many at once."""
    names = {name for name, _ in request.query} - {"x-id"}
    shape = (request.method, bool(bucket), bool(key))
    if shape[1:] == (True, True):
        if "x-amz-copy-source" in request.headers:
            raise S3Error(501, "NotImplemented")
        for method, wanted, operation in _OBJECT_OPERATIONS:
            if method == request.method and names == wanted:
                return operation
    elif shape == ("GET", True, False) and request.asked("list-type") == "2":
        return "s3.list"
    elif shape == ("HEAD", True, False):
        return "s3.head-bucket"
    elif shape == ("GET", False, False):
        return "s3.buckets"
    raise S3Error(501, "NotImplemented", "This part of S3 is not offered.")


def _log_in(world: World, request: Request, bucket_name: str) -> tuple[Account, Bucket | None]:
    def secret_of(access_key: str) -> str | None:
        owner = world.owner_of(access_key)
        return owner.s3_keys[access_key] if owner else None

    signer = verify(request, secret_of)
    account = world.owner_of(signer.access_key)
    assert account is not None
    if not bucket_name:
        return account, None
    try:
        volume = account.things.volume(bucket_name)
    except ApiError as error:
        raise S3Error(404, "NoSuchBucket", "There is no such network volume.") from error
    if signer.region != volume.dc:
        raise S3Error(400, "AuthorizationHeaderMalformed", f"The region is wrong; expecting {volume.dc!r}.")
    return account, Bucket(volume.folder)


_BEFORE: Mapping[Fault, S3Error] = {
    Fault.S3_BAD_GATEWAY: S3Error(502, "BadGateway"),
    Fault.S3_DENIED: S3Error(403, "AccessDenied"),
    Fault.S3_FULL: _FULL,
}


def _put(visit: Visit) -> Response:
    if visit.struck and visit.struck.fault is Fault.S3_VANISHED:
        etag = visit.bucket.swallow(visit.request)
    else:
        etag = visit.bucket.write(visit.key, visit.request, is_short=visit.struck is not None)
    return Response(200, {"etag": etag})


def _head(visit: Visit) -> Response:
    found = visit.bucket.find(visit.key)
    return Response(200, {**found.headers(), "content-length": str(found.size)})


def _get(visit: Visit) -> Response:
    found = visit.bucket.find(visit.key)
    first, last = _range(visit.request.headers.get("range"), found.size)
    is_part = "range" in visit.request.headers
    length = last - first + 1
    headers = {**found.headers(), "content-length": str(length)}
    if is_part:
        headers["content-range"] = f"bytes {first}-{last}/{found.size}"
    told = length // 2 if visit.struck else length
    return Response(206 if is_part else 200, headers, stream=_pieces(found.path, first, told))


def _delete(visit: Visit) -> Response:
    visit.bucket.remove(visit.key)
    return Response(204)


def _list(visit: Visit) -> Response:
    asked = visit.request.asked
    most = min(int(asked("max-keys") or 1000), 1000)
    after = asked("continuation-token") or asked("start-after") or ""
    prefix, delimiter = asked("prefix") or "", asked("delimiter") or ""
    return object_list(visit.bucket, prefix, delimiter, after, most)


def _begin(visit: Visit) -> Response:
    return upload_begun(visit.bucket, visit.key)


def _part(visit: Visit) -> Response:
    number = int(visit.request.asked("partNumber") or 0)
    upload = visit.request.asked("uploadId") or ""
    return Response(200, {"etag": visit.bucket.write_part(upload, number, visit.request)})


def _complete(visit: Visit) -> Response:
    body = visit.request.body.read(visit.request.length)
    return upload_done(visit.bucket, visit.key, visit.request.asked("uploadId") or "", body)


def _abort(visit: Visit) -> Response:
    visit.bucket.abort(visit.request.asked("uploadId") or "")
    return Response(204)


_OBJECT_OPERATIONS = (
    ("PUT", set[str](), "s3.put"),
    ("GET", set[str](), "s3.get"),
    ("HEAD", set[str](), "s3.head"),
    ("DELETE", set[str](), "s3.delete"),
    ("POST", {"uploads"}, "s3.upload-begin"),
    ("PUT", {"partNumber", "uploadId"}, "s3.upload-part"),
    ("POST", {"uploadId"}, "s3.upload-complete"),
    ("DELETE", {"uploadId"}, "s3.upload-abort"),
)
_DO: Mapping[str, Callable[[Visit], Response]] = {
    "s3.put": _put,
    "s3.get": _get,
    "s3.head": _head,
    "s3.delete": _delete,
    "s3.list": _list,
    "s3.head-bucket": lambda visit: Response(200),
    "s3.upload-begin": _begin,
    "s3.upload-part": _part,
    "s3.upload-complete": _complete,
    "s3.upload-abort": _abort,
}


def _range(text: str | None, size: int) -> tuple[int, int]:
    """First and last byte."""
    if text is None:
        return 0, size - 1
    first, _, last = text.removeprefix("bytes=").partition("-")
    if not first:
        return max(0, size - int(last)), size - 1
    if int(first) >= size:
        raise S3Error(416, "InvalidRange")
    return int(first), min(int(last) if last else size - 1, size - 1)


def _pieces(path: Path, first: int, length: int) -> Iterator[bytes]:
    file: BinaryIO
    with path.open("rb") as file:
        file.seek(first)
        while length > 0 and (piece := file.read(min(PIECE, length))):
            length -= len(piece)
            yield piece
