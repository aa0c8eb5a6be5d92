"""Stands before everything: who may open a page or a socket, and what a browser is told about us."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tensorant_app.api.requests import is_known_host, to_sign_in
from tensorant_app.domain.errors import SignedOut
from tensorant_app.services.sessions import as_reader, digest, token_in
from tensorant_app.settings import get_settings

OPEN_PAGES = ("/sign-in", "/set-up", "/new-password", "/404")
_OPEN_FILES = re.compile(r"/(assets|fonts|icons)/|/[\w.-]+\.(css|js|ico|png|svg|woff2|webmanifest|txt|data)$")
_CLOSED = ("/_upload", "/_event", "/_all_routes", "/ping", "/_health")
"""Reflex's own routes over HTTP, of which we use none: events come by websocket only."""
LOOK_AGAIN_SECONDS = 5.0
"""So long a socket may outlive its session."""
_PAGE = (
    "default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_NO_PAGE = "default-src 'none'; frame-ancestors 'none'"
_INLINE_SCRIPT = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)


class Guard:
    """ASGI middleware, the outermost."""

    def __init__(self, app: ASGIApp, pages: Path | None = None) -> None:
        self._app = app
        self._headers = security_headers()
        self._scripts = script_hashes(pages)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "websocket":
                await self._socket(scope, receive, send)
            case "http":
                await self._http(scope, receive, send)
            case _:
                await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                # "Not modified" says no type, and its policy replaces the one that the browser kept.
                is_page = message["status"] == HTTPStatus.NOT_MODIFIED or "html" in headers.get("content-type", "")
                headers["content-security-policy"] = self._policy(path) if is_page else _NO_PAGE
                if path.startswith("/assets/") and message["status"] == HTTPStatus.OK:
                    headers["cache-control"] = "public, max-age=31536000, immutable"
                else:
                    headers.setdefault("cache-control", "no-store" if path.startswith("/api/") else "no-cache")
            await send(message)

        answer = await _refuse(scope)
        await (answer or self._app)(scope, receive, send_with_headers)

    def _policy(self, path: str) -> str:
        """As strict as the page allows: its inline scripts by hash; styles inline, for Radix and Emotion write them."""
        page = path.strip("/") or "index"
        scripts = self._scripts.get(page) or sorted(set().union(*self._scripts.values()))
        return _PAGE.format(scripts=" ".join(["'self'", *(f"'sha256-{hashed}'" for hashed in scripts)]))

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Nobody without a session gets a socket, no other site does, and none outlives its session for long."""
        headers = Headers(scope=scope)
        own = headers.get("origin") in get_settings().origins and is_known_host(headers.get("host", ""))
        if not own or not await is_signed_in(headers):
            await receive()
            await send({"type": "websocket.close", "code": 4403})
            return
        serving = asyncio.ensure_future(self._app(_bound(scope, headers), receive, send))
        watching = asyncio.ensure_future(_until_signed_out(headers))
        try:
            await asyncio.wait({serving, watching}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            watching.cancel()
            if not serving.done():
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
                await _close(send)


def _bound(scope: Scope, headers: Headers) -> Scope:
    """The scope with the tab's token bound to the session: Reflex keeps a tab's state under that token alone, and
    whoever signs in next in this tab, or learns a token, must not find what the one before had on the screen."""
    mark = digest(token_in(headers.get("cookie", "")))[:16]
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    bound = [(name, f"{value.removesuffix(mark)}{mark}" if name == "token" else value) for name, value in query]
    return {**scope, "query_string": urlencode(bound).encode()}


async def is_signed_in(headers: Headers) -> bool:
    try:
        await asyncio.to_thread(as_reader, headers.get("cookie", ""), lambda session, caller: None)
    except SignedOut:
        return False
    return True


async def _until_signed_out(headers: Headers) -> None:
    while True:
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        if not await is_signed_in(headers):
            return


async def _close(send: Send) -> None:
    try:
        await send({"type": "websocket.close", "code": 4401})
    except RuntimeError:
        return  # It was closed already.


async def _refuse(scope: Scope) -> Response | None:
    """The answer to give instead; None to let it pass."""
    headers, path = Headers(scope=scope), scope["path"].rstrip("/") or "/"
    if not is_known_host(headers.get("host", "")):
        known = " or ".join(get_settings().origins)
        return PlainTextResponse(f"This console answers at {known}. (TENSORANT_ORIGIN says where.)\n", 421)
    if path.startswith(_CLOSED):
        return PlainTextResponse("Not found\n", 404)
    if path.startswith("/api/") or path in ("/health", *OPEN_PAGES) or _OPEN_FILES.match(path):
        return None
    return None if await is_signed_in(headers) else to_sign_in(_asked_for(scope))


def _asked_for(scope: Scope) -> str:
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{scope['path']}?{query}" if query else str(scope["path"])


def security_headers() -> dict[str, str]:
    headers = {
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=()",
    }
    if get_settings().address.startswith("https://"):
        headers["strict-transport-security"] = "max-age=31536000"
    return headers


def script_hashes(pages: Path | None) -> dict[str, list[str]]:
    """Page → the hashes of its inline scripts, as a policy names them."""
    found: dict[str, list[str]] = {}
    if pages is None:
        return found
    for page in sorted(pages.rglob("*.html")):
        name = page.relative_to(pages).with_suffix("").as_posix().removesuffix("/index")
        scripts = _INLINE_SCRIPT.findall(page.read_text("utf-8"))
        found[name] = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    return found
