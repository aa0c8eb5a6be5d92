"""A transport for httpx that answers from a tape, and fills in what an invented tape leaves out of the provider's shapes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import httpx

from tests.tapes.tape import Reply, Tape

_MEMORY_GB = 48
_PRICE = 0.86


class TapeTransport(httpx.BaseTransport):
    def __init__(self, tape: Tape, now: Callable[[], datetime]) -> None:
        self.tape, self.now = tape, now
        self.calls: Counter[str] = Counter()
        """By method and path, as the provider saw them."""
        self.environments: dict[str, Mapping[str, str]] = {}
        """By machine name: what its create call said, which a real answer repeats and a tape does not."""
        self.exists: set[str] = set()
        """Machines that the account has, listed or not."""
        self.ended_at: dict[str, datetime] = {}
        """Machines that the tape says are released at that time."""
        self.run_name, self.our_name = "", ""
        """How the tape calls the run's machine, and how the console does."""
        self._was_listed: set[str] = set()
        self._last_list: tuple[datetime, int, bytes, httpx.Headers] | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path, method = request.url.path, request.method
        self.calls[f"{method} {path}"] += 1
        if method == "POST" and path == "/v2/pods":
            body = json.loads(request.read())
            self.environments[body["name"]] = body["env"]
        if method != "GET":
            self._last_list = None
        answer = self._list_once(request) if (method, path) == ("GET", "/v2/pods") else self._one(request)
        self.tape.note(method, path, answer.status_code)
        return answer

    def _one(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        reply = self._reply(request, path)
        if reply is None:
            return self._unwritten(request)
        answer = self._in_our_names(_answer(reply, request))
        if request.method == "POST" and path == "/v2/pods" and answer.is_success:
            self._note_made(reply.body)
        return answer

    def _note_made(self, body: Any) -> None:
        """An answer that names no machine leaves open which: those of the tape that bear the name may show themselves."""
        if isinstance(body, dict) and isinstance(body.get("id"), str):
            self.exists.add(body["id"])
        else:
            self.exists |= {
                pod for pod, name in self.tape.pods().items() if name and self._in_ours(name) in self.environments
            }

    def _list_once(self, request: httpx.Request) -> httpx.Response:
        """Whoever else lists at the same moment is told the same, and uses nothing up."""
        if self._last_list is None or self._last_list[0] != self.now():
            answer = self._list(request)
            self._last_list = (self.now(), answer.status_code, answer.content, answer.headers)
            return answer
        _, status, content, headers = self._last_list
        return httpx.Response(status, content=content, headers=headers, request=request)

    def _list(self, request: httpx.Request) -> httpx.Response:
        """The tape's own list, with each machine as the tape shows it by itself; a fault of either is the list's."""
        own = self._reply(request, "/v2/pods")
        if own is not None and own.status != 200:
            return _answer(own, request)
        pods = {pod["id"]: pod for pod in own.body["pods"]} if own is not None else {}
        for pod_id in self.tape.pods():
            if pod_id not in self.exists | self._was_listed:
                continue
            one = self._reply(request, f"/v2/pods/{pod_id}")
            if one is None:
                continue
            if one.status not in {200, 404}:
                return _answer(one, request)
            if one.status == 200:
                pods[pod_id] = one.body
            else:
                pods.pop(pod_id, None)
        self._was_listed |= pods.keys()
        named = [{**pod, "name": self._in_ours(pod["name"])} for pod in pods.values()]
        shown = [self._whole(pod) for pod in named]
        return httpx.Response(200, json={"pods": shown, "nextCursor": None}, request=request)

    def _whole(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """With the environment that its create call gave it; of a machine of somebody else, none."""
        whole = {"env": dict(self.environments.get(pod["name"], {})), **pod}
        ended = self.ended_at.get(pod["id"])
        if ended is not None and self.now() >= ended:
            whole |= {"status": "TERMINATED", "runtime": None, "cost": 0}
        return whole

    def _in_ours(self, text: str) -> str:
        """Of the tape's name for this very machine, or a later attempt's; never of another that begins like it."""
        return re.sub(rf"(?<![\w-]){re.escape(self.run_name)}(?!\w)", self.our_name, text) if self.run_name else text

    def _in_our_names(self, answer: httpx.Response) -> httpx.Response:
        answer._content = self._in_ours(answer.text).encode()
        return answer

    def _reply(self, request: httpx.Request, path: str) -> Reply | None:
        return self.tape.answer(request.method, path, dict(request.url.params), self.now())

    def _unwritten(self, request: httpx.Request) -> httpx.Response:
        """What every account answers, where the tape has nothing to say."""
        path = request.url.path
        if request.method == "DELETE":
            return httpx.Response(204, request=request)
        if path == "/v2/catalog/gpus":
            return httpx.Response(200, json={"gpus": [_gpu(self.tape)]}, request=request)
        if path.startswith("/v2/billing/"):
            return httpx.Response(200, json={"records": [], "metadata": {}}, request=request)
        if path.endswith("/logs"):
            return httpx.Response(200, content=b"", request=request)
        return httpx.Response(404, json={"title": "Not Found", "status": 404, "detail": "not found"}, request=request)


def _answer(reply: Reply, request: httpx.Request) -> httpx.Response:
    if reply.status is None:
        if re.search(r"refused|unreachable|dns|no route", reply.fault, re.IGNORECASE):
            raise httpx.ConnectError(reply.fault, request=request)
        raise httpx.ReadTimeout(reply.fault or "no answer", request=request)
    if request.url.path.endswith("/logs") and isinstance(reply.body, str):
        return httpx.Response(reply.status, content=_as_events(reply.body), request=request)
    if isinstance(reply.body, str):
        return httpx.Response(reply.status, text=reply.body, headers=reply.headers, request=request)
    content = b"" if reply.body is None else json.dumps(reply.body).encode()
    return httpx.Response(reply.status, content=content, headers=dict(reply.headers), request=request)


def _as_events(text: str) -> bytes:
    """A log as the provider streams it."""
    lines = [json.dumps({"source": "system", "line": line}) for line in text.splitlines()]
    return "".join(f"id: {n}\ndata: {line}\n\n" for n, line in enumerate(lines, 1)).encode()


def _gpu(tape: Tape) -> dict[str, Any]:
    """A catalog with the one GPU that the tape's machine has, at the price that it says."""
    made = next(
        (r.body for r in tape.replies if r.method == "POST" and isinstance(r.body, dict) and "gpu" in r.body), {}
    )
    price = tape.run.get("cost") or made.get("cost") or _PRICE
    return {
        "id": made.get("gpu", {}).get("id", "NVIDIA L40S"),
        "name": "L40S",
        "memory": _MEMORY_GB,
        "price": price,
        "availability": "HIGH",
    }
