"""`/health`: whether each part works, for people and for whatever watches the console."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tensorant_app.api.guard import is_signed_in
from tensorant_app.api.requests import answers
from tensorant_app.services import doctor
from tensorant_app.services.doctor import Line
from tensorant_app.settings import get_settings


def health_route(redis: Callable[[], Line]) -> Route:
    """`redis` looks whether hints get through; this layer knows no broker."""

    @answers
    async def health(request: Request) -> Response:
        lines = await asyncio.to_thread(lambda: [*doctor.examine_quickly(), redis()])
        is_well = all(line.is_well for line in lines)
        # In public only whether, not what: versions and paths are for those who sign in.
        knows = not get_settings().is_public or await is_signed_in(request.headers)
        parts = {line.part: {"ok": line.is_well, **({"says": line.sentence} if knows else {})} for line in lines}
        return JSONResponse({"ok": is_well, "parts": parts}, 200 if is_well else 503)

    return Route("/health", health, methods=["GET"])
