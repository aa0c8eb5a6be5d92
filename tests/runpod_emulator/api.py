"""REST API v2: one request in, one answer out. Every body is held against our shapes, coming and going."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tests.runpod_emulator.account import Account
from tests.runpod_emulator.faults import Armed, Fault
from tests.runpod_emulator.keys import Key
from tests.runpod_emulator.logs import Asked, stream
from tests.runpod_emulator.operations import HANDLERS, Asking
from tests.runpod_emulator.pod_view import ODD_STATUS
from tests.runpod_emulator.schema import errors_in
from tests.runpod_emulator.shapes import ANSWERS, BODIES
from tests.runpod_emulator.wire import ApiError, Request, Response, as_json
from tests.runpod_emulator.world import Call, World

MOST_BYTES = 102_400
HTML = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>cloudflare</body></html>"


def handle(world: World, request: Request) -> Response:
    """The answer to any request, also to one that makes no sense."""
    with world.lock:
        request_id = f"req-{len(world.calls) + 1:06d}"
        try:
            response = _handle(world, request, request_id)
        except ApiError as error:
            response = error.response()
    response.headers.setdefault("x-request-id", request_id)
    return response


def _handle(world: World, request: Request, request_id: str) -> Response:
    operation, entity_id = _route(request)
    if request.length > MOST_BYTES:
        raise ApiError(413, f"request larger than {MOST_BYTES} bytes")
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise ApiError(401, "missing bearer token")
    account, key = world.log_in(token)
    account.tick()
    headers = world.rates.count(token, world.clock())
    raw = request.body.read(request.length)
    name = _name(account, operation, entity_id, raw)
    call = _Call(world, account, operation, name, request_id)
    struck = account.faults.take(operation, name, tuple(_BEFORE))
    if struck and (answer := _BEFORE[struck.fault](struck)):
        call.note(answer.status)
        return answer
    try:
        if not _is_allowed(account, key, operation, request.method, entity_id):
            raise ApiError(403, "access denied")
        response = _carry_out(Asking(world, account, request, entity_id, _body(operation, raw)), operation)
    except ApiError as error:
        error.headers |= headers
        response = error.response()
    call.note(response.status)
    response.headers.update(headers)
    response.delay = struck.seconds if struck else 0.0
    return _after(response, account.faults.take(operation, name, (Fault.ANSWER_LOST, Fault.ERROR_AFTER)))


def _is_allowed(account: Account, key: Key, operation: str, method: str, entity_id: str) -> bool:
    if not key.may(operation, writes=method != "GET", pod_id=entity_id or None):
        return False
    deletes_itself = key.pod_id is not None and method == "DELETE"
    return not deletes_itself or account.may_delete_itself(account.find(entity_id))


@dataclass(frozen=True, slots=True)
class _Call:
    world: World
    account: Account
    operation: str
    name: str | None
    request_id: str

    def note(self, status: int) -> None:
        at = self.world.clock()
        self.world.calls.append(Call(at, self.account.id, self.operation, self.name, status, self.request_id))


def _route(request: Request) -> tuple[str, str]:
    """Operation and id; 404 and 405 as the provider tells them."""
    allowed: list[str] = []
    for pattern, methods in ROUTES:
        if match := re.fullmatch(pattern, request.path):
            if request.method in methods:
                return methods[request.method], unquote(match[1]) if match.groups() else ""
            allowed += methods
    if allowed:
        raise ApiError(405, "method not allowed", headers={"allow": ", ".join(allowed)})
    raise ApiError(404, "resource not found")


def _name(account: Account, operation: str, entity_id: str, raw: bytes) -> str | None:
    """Of the Pod that the request is about, for faults meant for one Pod."""
    if operation == "pods.create":
        try:
            return str(json.loads(raw)["name"])
        except (ValueError, KeyError, TypeError):
            return None
    return account.pods[entity_id].name if entity_id in account.pods else None


def _body(operation: str, raw: bytes) -> dict[str, Any]:
    if operation not in BODIES:
        return {}
    try:
        body = json.loads(raw, parse_float=_number)
    except ValueError as error:
        raise ApiError(400, f"request body is not valid JSON: {error}") from error
    errors = errors_in(BODIES[operation], body)
    if operation == "pods.create" and not errors and "image" not in body and "templateId" not in body:
        errors = ["$: missing properties 'image'"]
    if errors:
        raise ApiError(422, "Request validation failed.", errors)
    return dict(body)


def _number(text: str) -> int | float:
    """10.0 is a whole number to JSON Schema."""
    value = float(text)
    return int(value) if value.is_integer() else value


def _carry_out(asking: Asking, operation: str) -> Response:
    if operation == "pods.logs":
        pod = asking.account.find(asking.id)
        pieces = stream(pod.logs, Asked.of(asking.request), lambda: pod.ended is None and asking.world.wait())
        headers = {"content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no"}
        return Response(200, headers, stream=pieces)
    status, value = HANDLERS[operation](asking)
    if value is None:
        return Response(status)
    wrong = errors_in(ANSWERS[operation], value) if asking.world.checks_answers else []
    # A word that nobody documented is what `Fault.UNKNOWN_STATUS` is for.
    if wrong and ODD_STATUS not in json.dumps(value):
        raise AssertionError(f"The emulator's own answer to {operation} is wrong: {wrong}")
    return as_json(status, value)


def _after(response: Response, struck: Armed | None) -> Response:
    if struck is None:
        return response
    if struck.fault is Fault.ERROR_AFTER:
        return ApiError(500, "query failed").response()
    response.is_lost = True
    return response


_BEFORE: Mapping[Fault, Callable[[Armed], Response | None]] = {
    Fault.REQUEST_LOST: lambda armed: Response(504, is_lost=True),
    Fault.SLOW: lambda armed: None,
    Fault.RATE_LIMITED: lambda armed: ApiError(
        429, "rate limit exceeded", headers={"retry-after": f"{armed.seconds:.0f}"}
    ).response(),
    Fault.ERROR: lambda armed: ApiError(500, "internal server error").response(),
    Fault.HTML: lambda armed: Response(502, {"content-type": "text/html"}, HTML),
    Fault.FORBIDDEN: lambda armed: ApiError(403, "key lacks write access to pods").response(),
    Fault.DELETE_REFUSED: lambda armed: ApiError(500, "could not delete the pod").response(),
    Fault.NO_EXEC_FORM: lambda armed: ApiError(
        422, "Request validation failed.", ["$: additional properties 'entrypoint', 'cmd' not allowed"]
    ).response(),
    Fault.FIELD_REFUSED: lambda armed: ApiError(
        422, "Request validation failed.", ["$: additional properties 'volumeInGb' not allowed"]
    ).response(),
    Fault.STOP_REFUSED: lambda armed: ApiError(409, "action is not valid for this pod").response(),
}
"""What happens instead of the request; None where it is carried out all the same."""


def _crud(path: str, noun: str, *, changes: str | None) -> list[tuple[str, dict[str, str]]]:
    one = {"GET": f"{noun}.get", "DELETE": f"{noun}.delete"} | ({changes: f"{noun}.update"} if changes else {})
    return [(path, {"GET": f"{noun}.list", "POST": f"{noun}.create"}), (f"{path}/([^/]+)", one)]


ROUTES = [
    *_crud("/v2/pods", "pods", changes="PATCH"),
    ("/v2/pods/([^/]+)/action", {"POST": "pods.action"}),
    ("/v2/pods/([^/]+)/logs", {"GET": "pods.logs"}),
    *_crud("/v2/network-volumes", "volumes", changes="PATCH"),
    *_crud("/v2/account/secrets", "secrets", changes="PATCH"),
    *_crud("/v2/registries", "registries", changes=None),
    ("/v2/catalog/gpus", {"GET": "gpus.list"}),
    ("/v2/catalog/gpus/(.+)", {"GET": "gpus.get"}),
    ("/v2/catalog/datacenters", {"GET": "datacenters.list"}),
    ("/v2/catalog/datacenters/([^/]+)", {"GET": "datacenters.get"}),
    ("/v2/billing/pods", {"GET": "billing.pods"}),
    ("/v2/billing/network-volumes", {"GET": "billing.volumes"}),
]
