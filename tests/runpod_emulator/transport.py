"""The provider without a socket: a transport for httpx, and a hook for boto3. Both run in the caller's own thread."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx

from tests.runpod_emulator.api import handle
from tests.runpod_emulator.s3 import handle_s3
from tests.runpod_emulator.wire import Request, Response
from tests.runpod_emulator.world import World

PATIENCE = 10.0
"""Seconds that a caller waits where it does not say how long."""


class EmulatorTransport(httpx.BaseTransport):
    """`httpx.Client(base_url=world.api_url, transport=EmulatorTransport(world))`; a slow answer moves the clock."""

    def __init__(self, world: World) -> None:
        self.world = world

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = handle(self.world, _of_httpx(request))
        patience = request.extensions.get("timeout", {}).get("read") or PATIENCE
        if response.is_lost or response.delay > patience:
            self.world.clock.sleep(patience)
            raise httpx.ReadTimeout("no answer", request=request)
        self.world.clock.sleep(response.delay)
        content = response.body if response.stream is None else b"".join(response.stream)
        return httpx.Response(response.status, headers=response.headers, content=content, request=request)


def attach_s3(client: Any, world: World) -> None:
    """Let a boto3 S3 client speak to the world directly: nothing it sends leaves the process."""
    client.meta.events.register_first("before-send.s3", _boto_hook(world))


def _of_httpx(request: httpx.Request) -> Request:
    body = request.read()
    path, _, query = request.url.raw_path.decode().partition("?")
    headers = {name.lower(): value for name, value in request.headers.items()}
    pairs = parse_qsl(query, keep_blank_values=True)
    return Request(request.method, path, pairs, headers, io.BytesIO(body), len(body))


def _boto_hook(world: World) -> Callable[..., Any]:
    from botocore.awsrequest import AWSResponse  # type: ignore[import-untyped]
    from botocore.exceptions import ReadTimeoutError  # type: ignore[import-untyped]
    from urllib3.response import HTTPResponse

    def answer(request: Any, **_: Any) -> AWSResponse:
        response = handle_s3(world, _of_boto(request))
        if response.is_lost:
            raise ReadTimeoutError(endpoint_url=request.url)
        raw = HTTPResponse(
            body=io.BytesIO(_whole(response)),
            headers=response.headers,
            status=response.status,
            preload_content=False,
            request_method=request.method,
        )
        return AWSResponse(request.url, response.status, raw.headers, raw)

    return answer


def _whole(response: Response) -> bytes:
    return response.body if response.stream is None else b"".join(response.stream)


def _of_boto(request: Any) -> Request:
    url = urlsplit(request.url)
    headers = {name.lower(): _text(value) for name, value in request.headers.items()}
    # What a connection would add by itself, and the signature covers.
    headers.setdefault("host", url.netloc)
    body = _bytes_of(request.body)
    pairs = parse_qsl(url.query, keep_blank_values=True)
    return Request(request.method, url.path, pairs, headers, io.BytesIO(body), len(body))


def _bytes_of(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, (bytes, bytearray)):
        return bytes(body)
    return bytes(body.read())


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
