"""The composition root: pages, API and guard in one application; tells the jobs what is due at once."""

from __future__ import annotations

import importlib
import logging
import pkgutil
import secrets
from pathlib import Path

import reflex as rx
from reflex.utils import prerequisites
from starlette.applications import Starlette
from starlette.types import ASGIApp

import tensorant_app.pages
from jobs.broker import ping, send, set_up_broker
from tensorant_app.api import downloads, health, sign_in, uploads
from tensorant_app.api.guard import Guard
from tensorant_app.components.connection import connection_banners
from tensorant_app.components.document import LANGUAGE, STYLESHEETS, head
from tensorant_app.db.session import set_hint_sender
from tensorant_app.services.doctor import Line
from tensorant_app.settings import get_settings


def make_app() -> rx.App:
    for page in pkgutil.iter_modules(tensorant_app.pages.__path__, "tensorant_app.pages."):
        importlib.import_module(page.name)
    app = rx.App(
        stylesheets=list(STYLESHEETS),
        head_components=[*head(), rx.el.script(src="/upload.js", defer=True)],
        html_lang=LANGUAGE,
        backend_exception_handler=_note_bug,
        api_transformer=[make_api(), _guarded],
    )
    app.app_wraps.pop((5, "Overlay"))
    app.app_wraps[5, "Connection"] = lambda stateful: connection_banners()
    return app


def make_api() -> Starlette:
    return Starlette(routes=[*sign_in.ROUTES, *uploads.ROUTES, *downloads.ROUTES, health.health_route(look_at_redis)])


def send_hints() -> None:
    """Through Redis where there is one. Without, the worker's own pulse finds what is due."""
    url = get_settings().broker_url
    if url is not None:
        set_up_broker(url)
        set_hint_sender(send)


def look_at_redis() -> Line:
    if get_settings().broker_url is None:
        return Line("redis", True, "none: hints stay inside the worker, which is a bit slower")
    problem = ping()
    return Line("redis", problem is None, problem or "answers")


def _note_bug(exception: Exception) -> None:
    """What a page's handler let through: every use case of ours shows its own sentence, so this is a bug in a page."""
    logging.getLogger(__name__).error("An event failed [%s]", secrets.token_hex(4), exc_info=exception)


def _guarded(inner: ASGIApp) -> ASGIApp:
    pages = prerequisites.get_web_dir() / "build" / "client"
    return Guard(inner, pages if Path(pages).is_dir() else None)


app = make_app()
