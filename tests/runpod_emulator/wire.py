"""A request and an answer, whatever carries them: a socket, httpx in process, or boto3 in process."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, BinaryIO


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    """Percent-encoded, as it was sent."""
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    body: BinaryIO = field(default_factory=io.BytesIO)
    length: int = 0
    """Bytes that may be read of `body`."""

    def asked(self, name: str) -> str | None:
        return next((value for key, value in self.query if key == name), None)

    def asked_words(self, name: str, allowed: Collection[str]) -> list[str]:
        """A comma-separated list, or one word; 422 where a word is not among the allowed ones."""
        words = [word for key, value in self.query if key == name for word in value.split(",")]
        if unknown := [word for word in words if word not in allowed]:
            raise ApiError(422, "Request validation failed.", [f"query.{name}: {unknown[0]!r} is not supported"])
        return words


@dataclass(slots=True)
class Response:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    stream: Iterator[bytes] | None = None
    """Instead of `body`: pieces as they come."""
    is_lost: bool = False
    """No answer goes out; the connection ends."""
    delay: float = 0.0
    """Seconds before the answer goes out."""


class ApiError(Exception):
    """An answer that is a refusal, as problem+json."""

    def __init__(
        self, status: int, detail: str, errors: Sequence[str] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.errors = status, detail, list(errors)
        self.headers = dict(headers or {})

    def response(self) -> Response:
        body: dict[str, Any] = {"title": HTTPStatus(self.status).phrase, "status": self.status, "detail": self.detail}
        if self.errors:
            body["errors"] = self.errors
        return Response(
            self.status, {"content-type": "application/problem+json", **self.headers}, json.dumps(body).encode()
        )


def as_json(status: int, value: Any) -> Response:
    return Response(status, {"content-type": "application/json"}, json.dumps(value).encode())
