"""Resumable uploads: announce a file, send its pieces, ask where to go on."""

from __future__ import annotations

import asyncio
from uuid import UUID

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tensorant_app.api.requests import act, answers, look, path_id, refusal, require_own_origin
from tensorant_app.domain.errors import Invalid
from tensorant_app.services import adapter_uploads, uploads
from tensorant_app.services.uploads import Upload, WrongOffset

_LARGEST_ANNOUNCEMENT = 4096
_ANNOUNCE = "Announce a file with its dataset, name and size."


@answers
async def start(request: Request) -> Response:
    """`{"dataset": id, "name": …, "size": bytes}` for a dataset, `{"run": id, "size": bytes}` for a run's adapter.zip."""
    require_own_origin(request)
    if not request.headers.get("content-length", "").isdigit() or _length(request) > _LARGEST_ANNOUNCEMENT:
        raise Invalid({"file": _ANNOUNCE})
    try:
        asked = await request.json()
        if "run" in asked:
            run_id, size = UUID(asked["run"]), int(asked["size"])
            started = await act(
                request, lambda session, caller: adapter_uploads.start_adapter_upload(session, caller, run_id, size)
            )
            return _answer(started, 201)
        dataset_id, name, size = UUID(asked["dataset"]), str(asked["name"]), int(asked["size"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Invalid({"file": _ANNOUNCE}) from None
    upload = await act(request, lambda session, caller: uploads.start_upload(session, caller, dataset_id, name, size))
    return _answer(upload, 201)


@answers
async def show(request: Request) -> Response:
    upload_id = path_id(request)
    return _answer(await look(request, lambda session, caller: adapter_uploads.show_any(session, caller, upload_id)))


@answers
async def send(request: Request) -> Response:
    """One piece at `?offset=`. The sender, the place and the length are looked at before a byte is read."""
    require_own_origin(request)
    upload_id, offset = path_id(request), _offset(request)
    upload = await look(request, lambda session, caller: adapter_uploads.show_any(session, caller, upload_id))
    try:
        uploads.check_piece(upload, offset, _length(request))
        piece = await _read(request)
        arrived = await asyncio.to_thread(uploads.receive_piece, upload, offset, piece)
    except WrongOffset as error:
        return refusal(error, offset=error.offset)
    if arrived == upload.size:
        await act(request, lambda session, caller: adapter_uploads.finish_any(session, caller, upload_id))
    return JSONResponse({"id": str(upload.id), "offset": arrived, "size": upload.size})


@answers
async def cancel(request: Request) -> Response:
    require_own_origin(request)
    upload_id = path_id(request)
    await act(request, lambda session, caller: adapter_uploads.cancel_any(session, caller, upload_id))
    return Response(status_code=204)


async def _read(request: Request) -> bytes:
    """The body, never more than was announced."""
    length, parts, arrived = _length(request), list[bytes](), 0
    async for part in request.stream():
        arrived += len(part)
        if arrived > length:
            raise Invalid({"piece": "The piece is longer than it said."})
        parts.append(part)
    if arrived != length:
        raise Invalid({"piece": "The piece is shorter than it said. Send it again."})
    return b"".join(parts)


def _length(request: Request) -> int:
    said = request.headers.get("content-length", "")
    if not said.isdigit():
        raise Invalid({"piece": "Say how long the piece is (Content-Length)."})
    return int(said)


def _offset(request: Request) -> int:
    said = request.query_params.get("offset", "")
    if not said.isdigit() or len(said) > 15:
        raise Invalid({"offset": "Say where the piece begins: ?offset=0."})
    return int(said)


def _answer(upload: Upload, status: int = 200) -> JSONResponse:
    facts = {"id": str(upload.id), "offset": upload.offset, "size": upload.size, "state": upload.state.value}
    return JSONResponse(facts, status)


ROUTES = [
    Route("/api/uploads", start, methods=["POST"]),
    Route("/api/uploads/{id}", show, methods=["GET"]),
    Route("/api/uploads/{id}", send, methods=["PATCH"]),
    Route("/api/uploads/{id}", cancel, methods=["DELETE"]),
]
