"""S3's answers in XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape

from tests.runpod_emulator.s3_files import Bucket
from tests.runpod_emulator.s3_sign import S3Error
from tests.runpod_emulator.wire import Response

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


def bucket_list(names: Sequence[str]) -> Response:
    buckets = "".join(f"<Bucket><Name>{name}</Name></Bucket>" for name in names)
    return _xml("ListAllMyBucketsResult", f"<Buckets>{buckets}</Buckets>")


def object_list(bucket: Bucket, prefix: str, delimiter: str, after: str, most: int) -> Response:
    """One page of ListObjectsV2; the token of the next page is the last key told."""
    told: list[str] = []
    groups: dict[str, None] = {}
    last, is_cut = "", False
    for key in bucket.keys(prefix):
        group = _group(key, prefix, delimiter)
        if key <= after or (group and group <= after) or (group and group in groups):
            continue
        if len(told) + len(groups) == most:
            is_cut = True
            break
        last = group or key
        if group:
            groups[group] = None
        else:
            told.append(key)
    token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if is_cut else ""
    common = "".join(f"<CommonPrefixes><Prefix>{escape(g)}</Prefix></CommonPrefixes>" for g in groups)
    count = f"<KeyCount>{len(told) + len(groups)}</KeyCount><MaxKeys>{most}</MaxKeys>"
    head = f"<Prefix>{escape(prefix)}</Prefix>{count}<IsTruncated>{str(is_cut).lower()}</IsTruncated>{token}"
    return _xml("ListBucketResult", head + "".join(_content(bucket, key) for key in told) + common)


def upload_begun(bucket: Bucket, key: str) -> Response:
    upload = bucket.begin(key)
    return _xml("InitiateMultipartUploadResult", f"<Key>{escape(key)}</Key><UploadId>{upload}</UploadId>")


def upload_done(bucket: Bucket, key: str, upload: str, body: bytes) -> Response:
    parts = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
    if not parts or parts != sorted(parts):
        raise S3Error(400, "InvalidPartOrder")
    etag = bucket.complete(key, upload, parts)
    return _xml("CompleteMultipartUploadResult", f"<Key>{escape(key)}</Key><ETag>{escape(etag)}</ETag>")


def _group(key: str, prefix: str, delimiter: str) -> str:
    if not delimiter:
        return ""
    head, found, _ = key[len(prefix) :].partition(delimiter)
    return f"{prefix}{head}{found}" if found else ""


def _content(bucket: Bucket, key: str) -> str:
    if key.endswith("/"):
        return f"<Contents><Key>{escape(key)}</Key><Size>0</Size></Contents>"
    found = bucket.find(key)
    etag, at = escape(found.headers()["etag"]), found.at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    facts = f"<LastModified>{at}</LastModified><ETag>{etag}</ETag><Size>{found.size}</Size>"
    return f"<Contents><Key>{escape(key)}</Key>{facts}</Contents>"


def _xml(name: str, inner: str) -> Response:
    text = f'<?xml version="1.0" encoding="UTF-8"?><{name} xmlns="{_NAMESPACE}">{inner}</{name}>'
    return Response(200, {"content-type": "application/xml"}, text.encode())
