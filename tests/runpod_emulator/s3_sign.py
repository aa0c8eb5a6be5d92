"""Whether an S3 request is signed by a key of ours: AWS signature, version 4."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote
from xml.sax.saxutils import escape

from tests.runpod_emulator.wire import Request, Response

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]+)"
)


class S3Error(Exception):
    """An answer that is a refusal, in S3's XML."""

    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(code)
        self.status, self.code, self.message = status, code, message

    def response(self) -> Response:
        text = self.message or HTTPStatus(self.status).phrase
        body = f"<?xml version='1.0'?><Error><Code>{self.code}</Code><Message>{escape(text)}</Message></Error>"
        return Response(self.status, {"content-type": "application/xml"}, body.encode())


@dataclass(frozen=True, slots=True)
class Signer:
    access_key: str
    region: str


def verify(request: Request, secret_of: Callable[[str], str | None]) -> Signer:
    """Who signed the request, for which region. The time of the signature is not looked at: clocks may be virtual."""
    match = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    if match is None:
        raise S3Error(403, "AccessDenied", "The request is not signed.")
    access_key, day, region, signed, signature = match.groups()
    secret = secret_of(access_key)
    if secret is None:
        raise S3Error(403, "InvalidAccessKeyId", "The access key does not exist.")
    scope = f"{day}/{region}/s3/aws4_request"
    told = "\n".join(("AWS4-HMAC-SHA256", request.headers.get("x-amz-date", ""), scope, _digest(request, signed)))
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    if not hmac.compare_digest(hmac.new(key, told.encode(), "sha256").hexdigest(), signature):
        raise S3Error(403, "SignatureDoesNotMatch", "The secret key is not the right one.")
    return Signer(access_key, region)


def _digest(request: Request, signed: str) -> str:
    """Hash of the request in its canonical form."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in request.query)
    headers = [f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in signed.split(";")]
    query = "&".join(f"{name}={value}" for name, value in pairs)
    payload = request.headers.get("x-amz-content-sha256", "")
    whole = "\n".join((request.method, request.path, query, "".join(headers), signed, payload))
    return hashlib.sha256(whole.encode()).hexdigest()
