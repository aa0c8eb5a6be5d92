"""Downloads: streamed, audited, and only the caller's own organization's."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from tensorant_app.api.requests import act, answers, look, path_id
from tensorant_app.services import downloads, exports, import_rows, row_files, version_images
from tensorant_app.services.exports import ExportKind

_KEPT = {"cache-control": "private, max-age=3600"}
"""An image never changes under its name."""


@answers
async def adapter(request: Request) -> Response:
    run_id = path_id(request)
    found = await act(request, lambda session, caller: downloads.adapter_zip(session, caller, run_id))
    return FileResponse(found.path, media_type="application/zip", filename=found.file_name)


@answers
async def job_files(request: Request) -> Response:
    run_id = path_id(request)
    found = await act(request, lambda session, caller: downloads.job_files(session, caller, run_id))
    headers = {"content-disposition": f'attachment; filename="{found.file_name}"'}
    return StreamingResponse(downloads.stream_zip(found), media_type="application/zip", headers=headers)


@answers
async def import_errors(request: Request) -> Response:
    import_id = path_id(request)
    found = await act(request, lambda session, caller: downloads.import_errors(session, caller, import_id))
    return FileResponse(found.path, media_type="application/x-ndjson", filename=found.file_name)


@answers
async def import_bad_rows(request: Request) -> Response:
    import_id = path_id(request)
    found = await act(request, lambda session, caller: downloads.import_bad_rows(session, caller, import_id))
    return FileResponse(found.path, media_type="application/x-ndjson", filename=found.file_name)


@answers
async def evaluation_answers(request: Request) -> Response:
    evaluation_id = path_id(request)
    found = await act(request, lambda session, caller: downloads.answers(session, caller, evaluation_id))
    return FileResponse(found.path, media_type="application/x-ndjson", filename=found.file_name)


@answers
async def version_image(request: Request) -> Response:
    """A thumbnail, made here from decoded pixels: whatever was uploaded is never handed to a browser."""
    version_id, name = path_id(request), request.path_params["name"]
    found = await look(
        request, lambda session, caller: version_images.find_thumbnail(session, caller, version_id, name)
    )
    return FileResponse(found, media_type="image/webp", headers=_KEPT)


@answers
async def import_image(request: Request) -> Response:
    """The same of an import's rows, before there is a version."""
    import_id, name = path_id(request), request.path_params["name"]
    found = await look(request, lambda session, caller: import_rows.find_thumbnail(session, caller, import_id, name))
    return FileResponse(found, media_type="image/webp", headers=_KEPT)


@answers
async def version_rows(request: Request) -> Response:
    """`format` is jsonl or parquet, `split` one of the splits; all of them, or rows with images, come as an archive."""
    version_id, query = path_id(request), request.query_params
    kind, split = query.get("format", ExportKind.JSONL), query.get("split", "")
    found = await act(
        request, lambda session, caller: exports.export_version(session, caller, version_id, kind=kind, split=split)
    )
    headers = {"content-disposition": f'attachment; filename="{found.file_name}"'}
    if found.is_archive:
        return StreamingResponse(downloads.stream_zip(found), media_type="application/zip", headers=headers)
    ((name, path),) = found.examples.items()
    media_type = "application/x-ndjson" if kind == ExportKind.JSONL else "application/vnd.apache.parquet"
    return StreamingResponse(row_files.read_pieces(name, path), media_type=media_type, headers=headers)


ROUTES = [
    Route("/api/versions/{id}/images/{name}", version_image, methods=["GET"]),
    Route("/api/imports/{id}/images/{name}", import_image, methods=["GET"]),
    Route("/api/runs/{id}/adapter.zip", adapter, methods=["GET"]),
    Route("/api/runs/{id}/job-files.zip", job_files, methods=["GET"]),
    Route("/api/imports/{id}/errors.jsonl", import_errors, methods=["GET"]),
    Route("/api/imports/{id}/bad-rows.jsonl", import_bad_rows, methods=["GET"]),
    Route("/api/versions/{id}/rows", version_rows, methods=["GET"]),
    Route("/api/evaluations/{id}/answers.jsonl", evaluation_answers, methods=["GET"]),
]
