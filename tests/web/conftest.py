"""The API and the guard in one process, without Reflex: what a browser sends and gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from tensorant_app.api import downloads, sign_in, uploads
from tensorant_app.api.guard import Guard
from tests.conftest import Clock

ORIGIN = "http://127.0.0.1:8020"


async def page(request: Request) -> Response:
    return HTMLResponse("<html><script>1</script></html>")


async def socket(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text(websocket.query_params.get("token", ""))
    with suppress(WebSocketDisconnect):
        await websocket.receive_text()


def make_app() -> Guard:
    routes = [*sign_in.ROUTES, *uploads.ROUTES, *downloads.ROUTES]
    return Guard(Starlette(routes=[*routes, WebSocketRoute("/_event", socket), Route("/{path:path}", page)]))


@pytest.fixture
def client(sqlite_database: str, clock: Clock) -> Iterator[TestClient]:
    """A browser on this computer that follows nothing by itself and says where its forms come from."""
    headers = {"origin": ORIGIN, "user-agent": "Mozilla/5.0 (X11; Linux) Chrome/156"}
    with TestClient(make_app(), base_url=ORIGIN, headers=headers, follow_redirects=False) as client:
        yield client
