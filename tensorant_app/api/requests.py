"""What every route shares: the cookie, where a form came from, use cases in threads, and refusals as answers."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import quote, urlsplit
from uuid import UUID

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from tensorant_app.domain.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Refused,
    SignedOut,
    TensorantError,
)
from tensorant_app.log import log_failure
from tensorant_app.services.sessions import Visitor, Work, as_caller, as_reader
from tensorant_app.settings import get_settings

T = TypeVar("T")
Route = Callable[[Request], Awaitable[Response]]

SIGN_IN = "/sign-in"
_STATUS: tuple[tuple[type[TensorantError], int], ...] = (
    (SignedOut, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Invalid, 422),
    (Conflict, 409),
    (Refused, 409),
)
_log = logging.getLogger(__name__)


def cookies(request: Request) -> str:
    return request.headers.get("cookie", "")


def visitor(request: Request) -> Visitor:
    address = request.client.host if request.client else "unknown"
    return Visitor(address, request.headers.get("user-agent", ""))


async def look(request: Request, work: Work[T]) -> T:
    """One use case that only reads, for whom the cookie names."""
    return await asyncio.to_thread(as_reader, cookies(request), work)


async def act(request: Request, work: Work[T]) -> T:
    """One use case that writes."""
    return await asyncio.to_thread(as_caller, cookies(request), work)


def path_id(request: Request, name: str = "id") -> UUID:
    try:
        return UUID(request.path_params[name])
    except ValueError:
        raise NotFound("There is nothing under this address.") from None


def require_own_origin(request: Request) -> None:
    """A form or script of another site must not act with our cookie. Every browser says where it comes from."""
    require_origin(request.headers.get("origin"))


def require_origin(origin: str | None) -> None:
    if origin not in get_settings().origins:
        raise Forbidden(f"This request came from {origin or 'nowhere'}, not from the console itself.")


def is_known_host(host: str) -> bool:
    """Whether the Host header names us: another name that leads here is somebody's trick (DNS rebinding)."""
    return any(urlsplit(origin).netloc == host.lower() for origin in get_settings().origins)


def inside(path: str) -> str:
    """A path of this console to go on to, whatever was asked for."""
    parts = urlsplit(path)
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and not parts.netloc and not parts.scheme
    return path if is_ours and "\\" not in path and path.isprintable() else "/"


def to_sign_in(path: str) -> RedirectResponse:
    return RedirectResponse(f"{SIGN_IN}?next={quote(inside(path))}", 303)


def answers(route: Route) -> Route:
    """Refusals become answers with a sentence; anything else is a bug that gets a number."""

    @functools.wraps(route)
    async def answer(request: Request) -> Response:
        try:
            return await route(request)
        except TensorantError as error:
            return refusal(error)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception:
            failure = log_failure(_log, f"{request.method} {request.url.path} failed")
            return JSONResponse({"error": f"Something went wrong. It has been logged as {failure}."}, 500)

    return answer


def refusal(error: TensorantError, **more: int | str) -> JSONResponse:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 400)
    reasons = list(error.reasons) if isinstance(error, Refused) else []
    fields = error.fields if isinstance(error, Invalid) else {}
    return JSONResponse({"error": error.message, "reasons": reasons, "fields": fields, **more}, status)
