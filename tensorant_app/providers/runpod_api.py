"""RunPod's REST API v2 as HTTP: one request, one answer, and what an answer that is no success means."""

from __future__ import annotations

import json
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import httpx

from tensorant_app.domain.errors import AuthFailed, DenialReason, Denied, ProviderError, Transient, Unknown

LARGEST_REQUEST = 102_400
"""Bytes. RunPod refuses more before it looks at the key."""
_LARGEST_ANSWER = 64 * 1024 * 1024
_SECONDS = 10.0
"""For the whole of one exchange, however slowly it trickles."""
_TIMEOUT = httpx.Timeout(connect=4.0, read=6.0, write=4.0, pool=2.0)
_FEW_LEFT = 20
"""Requests left in a window below which we slow down."""
_WINDOWS = {"minute": 60, "hour": 3600, "day": 86_400}

_NO_CAPACITY = re.compile(
    r"no longer any instances available|no (free |available )?capacity|not enough (free )?gpus"
    r"|no (free |available |suitable |matching )?(instances?|machines?|hosts?|gpus?)\b(?! (type|id|count)\b)"
    r"|out of stock|sold out|insufficient (capacity|resources)|does not have the resources"
    r"|(instances?|machines?|gpus?) (is|are) (currently |all )?(unavailable|not available|in use)"
    r"|could not find any (pods?|gpus?|instances?|machines?)",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"\bquota\b|(spend|spending|pod|rate) limit", re.IGNORECASE)
_MAY_HAVE_HAPPENED = frozenset({408, 499})
"""Of the 4xx, those that a proxy in between sends after it passed the request on."""

_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)
"""Raised before the first byte of a request leaves: name not found, refused, no TLS, no route through the proxy."""


class Unsent(Transient):
    """No connection came about, so RunPod cannot have heard of the request."""


class Lost(Transient):
    """The request left, and no whole answer came back."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the parsed JSON, or None where the body is none."""

    status: int
    body: Any
    text: str
    request_id: str | None
    retry_after: timedelta | None

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def detail(self) -> str:
        """RunPod's own words in one line, its list of errors included."""
        if not isinstance(self.body, dict):
            return _first_words(self.text)
        errors = self.body.get("errors")
        listed = [str(error) for error in errors] if isinstance(errors, list) else []
        words = [str(self.body.get("detail") or self.body.get("title") or ""), *listed]
        return "; ".join(" ".join(word.split())[:300] for word in words if word.strip())[:900]


class RunPodApi:
    """Requests with one account's key. Holds the last word on its quota, and nothing else."""

    def __init__(self, key: str, url: str, client: httpx.Client | None = None) -> None:
        """`client` stands in for both real ones in tests."""
        if not key.isascii() or not key.isprintable() or " " in key or not key:
            raise AuthFailed("The RunPod API key holds characters that no key has. Save it again under Connections.")
        self._key = key
        self._url = url.rstrip("/").removesuffix("/v2") + "/v2"
        self._client = client
        self.pause = timedelta(0)

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: object | None = None,
        is_paid: bool = False,
    ) -> Answer:
        """One exchange, never repeated. `Unsent` and `Lost` tell apart what may have reached RunPod.

        A paid call opens a connection of its own: a kept one that the other side has just closed would lose its answer.
        """
        deadline = time.monotonic() + _SECONDS
        content = None if body is None else encode(body)
        with self._opened(method, path, params=params, content=content, is_paid=is_paid) as response:
            return self._read(response, deadline)

    @contextmanager
    def stream(
        self, path: str, params: Mapping[str, str | int], headers: Mapping[str, str]
    ) -> Iterator[httpx.Response]:
        """An answer read piece by piece, by the caller; a refusal is raised."""
        with self._opened("GET", path, params=params, headers=headers) as response:
            if not response.is_success:
                raise fault(self._read(response, time.monotonic() + _SECONDS), "read the log of this Pod")
            yield response

    @contextmanager
    def _opened(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        is_paid: bool = False,
    ) -> Iterator[httpx.Response]:
        client = self._client or (_fresh_client() if is_paid else _kept_client())
        sent = {"Authorization": f"Bearer {self._key}", "User-Agent": _user_agent(), "Accept": "application/json"}
        sent |= dict(headers or {})
        if content is not None:
            sent["Content-Type"] = "application/json"
        try:
            with client.stream(
                method, self._url + path, params=dict(params or {}), content=content, headers=sent, timeout=_TIMEOUT
            ) as response:
                yield response
        except _UNSENT as error:
            raise Unsent(f"RunPod could not be reached: {_reason(error)}. Nothing was sent.") from error
        except httpx.HTTPError as error:
            raise Lost(f"RunPod gave no whole answer: {_reason(error)}.") from error

    def _read(self, response: httpx.Response, deadline: float) -> Answer:
        self.pause = max(read_quota(response.headers.get("RateLimit", "")), _retry_after(response) or timedelta(0))
        text = _read_body(response, deadline).decode(errors="replace")
        return Answer(
            response.status_code,
            _parse(text),
            text,
            response.headers.get("x-request-id"),
            _retry_after(response),
        )


def encode(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def fault(answer: Answer, doing: str, *, is_paid: bool = False) -> ProviderError:
    """The error that an answer without success means. `doing` completes "The key may not …" and "RunPod could not …".

    For a paid call every answer that does not rule out that it happened is `Unknown`.
    """
    make = _BY_STATUS.get(answer.status)
    if make is not None:
        error = make(answer, doing)
    elif 400 <= answer.status < 500 and answer.status not in _MAY_HAVE_HAPPENED:
        error = Denied(f"RunPod refused to {doing}: {_quoted(answer)}.")
    else:
        lost = Unknown if is_paid else Transient
        error = lost(f"RunPod could not {doing} (status {answer.status}): {_quoted(answer)}.")
    if isinstance(error, Transient) and is_paid and answer.status < 500:
        error = Denied(error.message, DenialReason.QUOTA if answer.status == 429 else DenialReason.UNREACHABLE)
    error.request_id, error.retry_after = answer.request_id, answer.retry_after
    return error


def _bad_request(answer: Answer, doing: str) -> ProviderError:
    """Status 400 says two things that only its prose tells apart: a broken rule, or nothing free."""
    if _NO_CAPACITY.search(answer.detail):
        return Denied(f"RunPod has no capacity to {doing}: {_quoted(answer)}.", DenialReason.CAPACITY)
    if _QUOTA.search(answer.detail):
        return Denied(f"A limit of the RunPod account is reached: {_quoted(answer)}.", DenialReason.QUOTA)
    return Denied(f"RunPod refused to {doing}: {_quoted(answer)}.")


def _no_money(answer: Answer, doing: str) -> ProviderError:
    return Denied(
        "The RunPod account's balance is too low to start this machine; it must cover at least one hour. "
        "Add funds in RunPod, then launch again.",
        DenialReason.MONEY,
    )


def _no_key(answer: Answer, doing: str) -> ProviderError:
    return AuthFailed("RunPod does not accept the API key. Save a new one under Connections.")


def _forbidden(answer: Answer, doing: str) -> ProviderError:
    """A page instead of a problem is not RunPod's word on the key, but that of a guard in front of it."""
    if not isinstance(answer.body, dict):
        return Transient(f"RunPod's front door turned the request away: {_quoted(answer)}.")
    return AuthFailed(
        f"The RunPod API key may not {doing}. Give it read and write access in RunPod, or save another one under Connections."
    )


def _too_many(answer: Answer, doing: str) -> ProviderError:
    wait = f" It asks to wait {answer.retry_after.total_seconds():.0f} s." if answer.retry_after else ""
    return Transient(f"RunPod got too many requests from this account.{wait}")


_BY_STATUS: dict[int, Callable[[Answer, str], ProviderError]] = {
    400: _bad_request,
    401: _no_key,
    402: _no_money,
    403: _forbidden,
    429: _too_many,
}


def read_quota(header: str) -> timedelta:
    """How long to rest between two requests so that none of the windows in a RateLimit header runs dry."""
    longest = 0.0
    for member in header.split(","):
        name, *pairs = (part.strip() for part in member.split(";"))
        numbers = {key: float(value) for key, _, value in (pair.partition("=") for pair in pairs) if _is_number(value)}
        left = numbers.get("r")
        if left is not None and left < _FEW_LEFT:
            until_reset = numbers.get("t", _WINDOWS.get(name.strip('"'), 0))
            longest = max(longest, until_reset / (left + 1))
    return timedelta(seconds=longest)


def _retry_after(response: httpx.Response) -> timedelta | None:
    """Seconds, or the time of day by the other side's own clock."""
    value = response.headers.get("Retry-After", "")
    seconds = float(value) if _is_number(value) else _seconds_until(value, response.headers.get("Date", ""))
    return None if seconds is None else timedelta(seconds=min(max(seconds, 0.0), 3600))


def _seconds_until(value: str, date: str) -> float | None:
    then, told_at = _date(value), _date(date)
    return None if then is None or told_at is None else (then - told_at).total_seconds()


def _date(value: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) is not None


def _read_body(response: httpx.Response, deadline: float) -> bytes:
    pieces, size = [], 0
    for piece in response.iter_bytes():
        pieces.append(piece)
        size += len(piece)
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout(f"the answer was not complete after {_SECONDS:.0f} s")
        if size > _LARGEST_ANSWER:
            raise httpx.ReadError("the answer is larger than any that we expect")
    return b"".join(pieces)


def _parse(text: str) -> Any:
    try:
        return json.loads(text) if text.strip() else None
    except (ValueError, RecursionError):
        return None


def _quoted(answer: Answer) -> str:
    tail = f" (RunPod's request id: {answer.request_id})" if answer.request_id else ""
    return f"“{answer.detail or f'status {answer.status}'}”{tail}"


def _first_words(text: str) -> str:
    plain = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", text[:20_000], flags=re.DOTALL | re.IGNORECASE)
    return " ".join(plain.split())[:200]


def _reason(error: httpx.HTTPError) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__


@lru_cache(maxsize=1)
def _user_agent() -> str:
    """Without one of its own RunPod's guard turns a client away (seen with Python's urllib in 2026)."""
    return f"tensorant/{version('tensorant')}"


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """Loading the authorities takes some 20 ms: once per process, not once per look."""
    return httpx.create_ssl_context()


def _make_client(kept: int) -> httpx.Client:
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=kept, keepalive_expiry=30)
    return httpx.Client(verify=_certificates(), limits=limits, follow_redirects=False)


@lru_cache(maxsize=1)
def _kept_client() -> httpx.Client:
    """Shared by all accounts and threads: the key travels with each request."""
    return _make_client(32)


@lru_cache(maxsize=1)
def _fresh_client() -> httpx.Client:
    return _make_client(0)
