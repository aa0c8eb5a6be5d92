"""Signing in and out: plain forms, so that the cookie is HttpOnly and everything works before any script has loaded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tensorant_app.api.requests import answers, cookies, inside, look, require_own_origin, visitor
from tensorant_app.domain.errors import Conflict, Invalid, TensorantError
from tensorant_app.domain.sign_in import SESSION_ENDS_AFTER, LinkKind
from tensorant_app.services import links, sessions
from tensorant_app.settings import get_settings

T = TypeVar("T")

LARGEST_FORM = 16 * 1024
_LINK_SECONDS = 30 * 60
_MOST_WAITING = 20
_slow = ThreadPoolExecutor(max_workers=2, thread_name_prefix="password")
"""Argon2 takes memory and time: two at once, whoever knocks."""
_waiting = 0


@answers
async def sign_in(request: Request) -> Response:
    require_own_origin(request)
    form = await _form(request)
    onward = inside(form.get("next", "/"))
    try:
        token = await slowly(lambda: sessions.sign_in(form["email"], form["password"], visitor(request)))
    except TensorantError as error:
        return _back(f"/sign-in?next={quote(onward)}", error, email=form["email"])
    return _signed_in(token, onward)


@answers
async def sign_out(request: Request) -> Response:
    require_own_origin(request)
    await asyncio.to_thread(sessions.sign_out, cookies(request))
    return _signed_out()


@answers
async def sign_out_everywhere(request: Request) -> Response:
    require_own_origin(request)
    await asyncio.to_thread(sessions.sign_out_everywhere, cookies(request))
    return _signed_out()


@answers
async def change_password(request: Request) -> Response:
    require_own_origin(request)
    form = await _form(request)
    try:
        await slowly(
            lambda: sessions.change_password(cookies(request), form["old"], form["password"], visitor(request))
        )
    except TensorantError as error:
        return _back("/account", error)
    return _say("/account", done="The password is changed. Every other session has ended.")


@answers
async def open_link(request: Request) -> Response:
    """A sign-in link signs in; the others lead to their form, with the token in a cookie instead of the address."""
    token = request.path_params["token"]
    try:
        match await asyncio.to_thread(links.kind_of, token):
            case LinkKind.SIGN_IN:
                return _signed_in(await asyncio.to_thread(links.redeem, token, visitor(request)), "/")
            case LinkKind.SET_UP:
                return _with_link(token, "/set-up")
            case LinkKind.PASSWORD:
                return _with_link(token, "/new-password")
    except TensorantError as error:
        return _back("/sign-in", error)


@answers
async def set_up(request: Request) -> Response:
    require_own_origin(request)
    form = await _form(request)
    typed = {name: form.get(name, "") for name in ("organization", "name", "email")}
    try:
        token = await slowly(
            lambda: links.set_up(_link(request), password=form["password"], visitor=visitor(request), **typed)
        )
    except TensorantError as error:
        return _back("/set-up", error, **typed)
    return _signed_in(token, "/")


@answers
async def new_password(request: Request) -> Response:
    require_own_origin(request)
    form = await _form(request)
    try:
        token = await slowly(lambda: links.set_password(_link(request), form["password"], visitor(request)))
    except TensorantError as error:
        return _back("/new-password", error)
    return _signed_in(token, "/")


@answers
async def session(request: Request) -> Response:
    """Who is signed in; 401 where nobody is. Pages ask it when their socket is refused."""
    me = await look(request, sessions.who_am_i)
    return JSONResponse({"name": me.name, "email": me.email, "organization": me.organization, "role": me.role.value})


async def slowly(work: Callable[[], T]) -> T:
    """Work with a password, in its own two threads; a crowd is sent away rather than kept waiting."""
    global _waiting
    if _waiting >= _MOST_WAITING:
        raise Conflict("Too many people are signing in at this moment. Try again in a few seconds.")
    _waiting += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(_slow, work)
    finally:
        _waiting -= 1


async def _form(request: Request) -> dict[str, str]:
    """The fields, after the size is known; a field that is missing is empty."""
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > LARGEST_FORM:
        raise Invalid({"form": "This form is too large."})
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise Invalid({"form": "This is not a form of the console."})
    fields = await request.form(max_files=0, max_fields=20)
    return {"email": "", "password": "", "old": ""} | {name: str(value) for name, value in fields.items()}


def _signed_in(token: str, onward: str) -> Response:
    answer = RedirectResponse(onward, 303)
    _set_cookie(answer, sessions.cookie_name(), token, int(SESSION_ENDS_AFTER.total_seconds()))
    answer.delete_cookie(_link_name(), **_flags())
    return answer


def _signed_out() -> Response:
    answer = _say("/sign-in", done="You are signed out.")
    answer.delete_cookie(sessions.cookie_name(), **_flags())
    return answer


def _with_link(token: str, page: str) -> Response:
    answer = RedirectResponse(page, 303)
    _set_cookie(answer, _link_name(), token, _LINK_SECONDS)
    return answer


def _back(page: str, error: TensorantError, **typed: str) -> Response:
    """To the form again, with the sentence and what was typed but the password.

    It goes by a cookie that the page reads and deletes: in the address, others could put words into our mouth.
    """
    return _say(page, error=error.message, **typed)


def _say(page: str, **said: str) -> Response:
    answer = RedirectResponse(page, 303)
    text = quote(json.dumps({name: value[:300] for name, value in said.items()}))
    answer.set_cookie("tensorant-said", text, max_age=60, path="/", samesite="lax", secure=_is_https())
    return answer


def _set_cookie(answer: Response, name: str, value: str, seconds: int) -> None:
    answer.set_cookie(name, value, max_age=seconds, **_flags())


def _flags() -> dict[str, Any]:
    return {"path": "/", "httponly": True, "samesite": "lax", "secure": _is_https()}


def _is_https() -> bool:
    return get_settings().address.startswith("https://")


def _link(request: Request) -> str:
    return sessions.token_in(cookies(request), _link_name())


def _link_name() -> str:
    return f"{sessions.cookie_name()}-link"


ROUTES = [
    Route("/api/sign-in", sign_in, methods=["POST"]),
    Route("/api/sign-out", sign_out, methods=["POST"]),
    Route("/api/sign-out-everywhere", sign_out_everywhere, methods=["POST"]),
    Route("/api/session", session, methods=["GET"]),
    Route("/api/password", change_password, methods=["POST"]),
    Route("/api/links/{token}", open_link, methods=["GET"]),
    Route("/api/set-up", set_up, methods=["POST"]),
    Route("/api/new-password", new_password, methods=["POST"]),
]
