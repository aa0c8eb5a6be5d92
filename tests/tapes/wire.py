"""A transport for httpx that answers from a tape, and fills in what an invented tape leaves out of the provider's shapes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import httpx

from tests.tapes.entries import Call, Reply
from tests.tapes.tape import Tape

_MEMORY_GB = 48
_PRICE = 0.86
_UNREACHABLE = re.compile(r"refused|unreachable|dns|no route|name|tls|certificate|not sent", re.IGNORECASE)


class TapeTransport(httpx.BaseTransport):
    def __init__(self, tape: Tape, now: Callable[[], datetime]) -> None:
        self.tape, self.now = tape, now
        self.calls: Counter[str] = Counter()
        """By method and path, as the provider saw them."""
        self.environments: dict[str, Mapping[str, str]] = {}
        """By machine name: what its create call said, which a real answer repeats and a tape does not."""
        self.exists: set[str] = set()
        """Machines that the account has, listed or not."""
        self.began: dict[str, datetime] = {}
        """When the container of a machine began that the tape tells nothing else of."""
        self.ended_at: dict[str, datetime] = {}
        """Machines that the tape says are released at that time."""
        self.run_name, self.our_name = "", ""
        """How the tape calls the run's machine, and how the console does."""
        self.names: dict[str, str] = {}
        """By id: the name that its create call bore, which a tape does not write anew for a later attempt."""
        self.is_cut = False
        """No line leads here."""
        self._sent = ""
        """The name in the last create call."""
        self._unanswered = ""
        """The name of a create call whose answer named no machine: whatever shows up as the run's own bears it."""
        self._made: dict[str, Mapping[str, Any]] = {}
        self._invented: set[str] = set()
        self._was_listed: set[str] = set()
        self._told: dict[tuple[datetime, str, str], Reply | None] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path, method = request.url.path, request.method
        if self.is_cut:
            raise httpx.ConnectError("network is unreachable", request=request)
        self.calls[f"{method} {path}"] += 1
        if method == "POST" and path == "/v2/pods":
            body = json.loads(request.read())
            self.environments[body["name"]] = body["env"]
            self._sent = body["name"]
        if method != "GET":
            self._told.clear()
        answer = self._list(request) if (method, path) == ("GET", "/v2/pods") else self._one(request)
        self.tape.note(method, path, answer.status_code)
        if method == "DELETE" and answer.status_code in {200, 202, 204, 404}:
            self.began.pop(path.removeprefix("/v2/pods/"), None)
        return answer

    def _one(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        reply = self._reply(request, path)
        is_create = request.method == "POST" and path == "/v2/pods"
        is_lost = reply is not None and (
            reply.status >= 500 if reply.status is not None else not _UNREACHABLE.search(reply.fault)
        )
        if is_create and is_lost:
            self._note_unknown()
        if reply is None:
            return self._unwritten(request)
        if is_create and reply.status is not None and 200 <= reply.status < 300:
            self._note_made(reply.body)
        pod_id = reply.body.get("id") if isinstance(reply.body, dict) else None
        return self._in_our_names(_answer(reply, request), str(pod_id))

    def _note_made(self, body: Any) -> None:
        """An answer that names no machine leaves open which: those of the tape that bear the name may show themselves."""
        if isinstance(body, dict) and isinstance(body.get("id"), str):
            self.exists.add(body["id"])
            self._made[body["id"]], self.began[body["id"]] = body, self.now()
            self.names[body["id"]] = self._sent
        else:
            self._unanswered = self._sent
            self.exists |= self._of_our_name()

    def _note_unknown(self) -> None:
        """The answer was lost. A tape that tells of no list can only mean machines that it shows one by one."""
        self._unanswered = self._sent
        if not self.tape.has("GET", "/v2/pods"):
            self.exists |= self._of_our_name()

    def _of_our_name(self) -> set[str]:
        return {pod for pod, name in self.tape.pods().items() if name and self._in_ours(name) in self.environments}

    def _list(self, request: httpx.Request) -> httpx.Response:
        """The tape's own list, with each machine as the tape shows it by itself; a fault of either is the list's."""
        own = self._reply(request, "/v2/pods")
        listed = _pods_of(own)
        if own is not None and listed is None:
            return self._in_our_names(_answer(own, request))
        pods = {str(pod.get("id", "")): pod for pod in listed or []}
        is_first = "cursor" not in request.url.params
        is_staged = own is not None and self.tape.is_staged(own)
        for pod_id in [one for one in self._known() if is_first or one in pods]:
            one = self._reply_about(request, pod_id)
            if one is None:
                continue
            if one.status == 404:
                # A list that was written for this very moment says what it says.
                if not (is_staged and pod_id in pods):
                    pods.pop(pod_id, None)
            elif one.status == 200 and isinstance(one.body, dict):
                pods[pod_id] = one.body
            else:
                return self._in_our_names(_answer(one, request))
        self._was_listed |= pods.keys()
        if is_first:
            pods |= {pod: seen for pod, seen in self._untold().items() if own is None or pod in self._invented}
        shown = [self._whole(self._named(pod)) for pod in pods.values()]
        rest = {key: value for key, value in own.body.items() if key != "pods"} if own is not None else {}
        headers = dict(own.headers) if own is not None else {}
        return httpx.Response(200, json={**rest, "pods": shown}, headers=headers, request=request)

    def _known(self) -> list[str]:
        """Machines that may be shown by what the tape says of each."""
        return [pod for pod in self.tape.pods() if pod in self.exists | self._was_listed]

    def _reply_about(self, request: httpx.Request, pod_id: str) -> Reply | None:
        return self._reply(request, f"/v2/pods/{pod_id}") if self.tape.has_own(pod_id) else None

    def _invent(self) -> dict[str, Any]:
        """A machine that the tape did not reckon with: it is made, and comes up well."""
        pod_id = f"pod_new{len(self._invented) + 1}"
        self._invented.add(pod_id)
        self._note_made({"id": pod_id, "cost": usual_gpu(self.tape)["price"] * gpu_count(self.tape)})
        return {"id": pod_id, "name": self._sent, "status": "PROVISIONING", "runtime": None}

    def _untold(self) -> dict[str, dict[str, Any]]:
        """Machines of which the tape tells no look at all: they are up and well until they are deleted."""
        found = {}
        for pod_id, began in self.began.items():
            if self.tape.has_own(pod_id):
                continue
            uptime = max(1, int((self.now() - began).total_seconds()))
            price = self.tape.run.get("cost") or usual_gpu(self.tape)["price"] * gpu_count(self.tape)
            bare = {"id": pod_id, "name": self.run_name, "cost": price, "actions": ["stop", "restart", "terminate"]}
            up = {"status": "RUNNING", "runtime": {"uptime": uptime, "gpus": [], "ports": []}}
            found[pod_id] = {**bare, **self._made.get(pod_id, {}), **up}
        return found

    def _named(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        return {**pod, "name": self._in_ours(str(pod.get("name", "")), str(pod.get("id", "")))}

    def _whole(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """With the environment that its create call gave it; of a machine of somebody else, none."""
        whole = {"env": dict(self.environments.get(pod["name"], {})), **pod}
        ended = self.ended_at.get(str(pod.get("id")))
        if ended is not None and self.now() >= ended:
            whole |= {"status": "TERMINATED", "runtime": None, "cost": 0}
        return whole

    def _in_ours(self, text: str, pod_id: str = "") -> str:
        """Of the tape's name for this very machine, or a later attempt's; never of another that begins like it."""
        if not self.run_name:
            return text
        own = self.names.get(pod_id) or self._unanswered or self.our_name
        exact = rf"(?<![\w-]){re.escape(self.run_name)}(?![\w-])"
        later = rf"(?<![\w-]){re.escape(self.run_name)}(?=-\d+(?![\w-]))"
        return re.sub(later, self.our_name, re.sub(exact, own, text))

    def _in_our_names(self, answer: httpx.Response, pod_id: str = "") -> httpx.Response:
        answer._content = self._in_ours(answer.text, pod_id).encode()
        return answer

    def _reply(self, request: httpx.Request, path: str) -> Reply | None:
        """Whoever else looks at the same moment is told the same, and uses nothing up."""
        call = Call(request.method, path, dict(request.url.params))
        if request.method != "GET":
            return self.tape.answer(call, self.now())
        key = (self.now(), path, str(sorted(call.query.items())))
        if self._told and next(iter(self._told))[0] != key[0]:
            self._told.clear()
        if key not in self._told:
            self._told[key] = self.tape.answer(call, self.now())
        return self._told[key]

    def _unwritten(self, request: httpx.Request) -> httpx.Response:
        """What every account answers, where the tape has nothing to say."""
        path = request.url.path
        if request.method == "DELETE":
            return httpx.Response(204, request=request)
        if request.method == "POST" and path == "/v2/pods":
            return httpx.Response(201, json=self._invent(), request=request)
        if path == "/v2/catalog/gpus":
            return httpx.Response(200, json={"gpus": [usual_gpu(self.tape)]}, request=request)
        if path.startswith("/v2/billing/"):
            return httpx.Response(200, json={"records": [], "metadata": {}}, request=request)
        if path.endswith("/logs"):
            return httpx.Response(200, content=b"", request=request)
        if found := self._untold().get(path.removeprefix("/v2/pods/")):
            return httpx.Response(200, json=self._whole(self._named(found)), request=request)
        return httpx.Response(404, json={"title": "Not Found", "status": 404, "detail": "not found"}, request=request)


def _pods_of(own: Reply | None) -> list[dict[str, Any]] | None:
    """None where a reply is no list of Pods."""
    if own is None or own.status != 200 or not isinstance(own.body, dict):
        return None
    pods = own.body.get("pods")
    return [pod for pod in pods if isinstance(pod, dict)] if isinstance(pods, list) else None


def _answer(reply: Reply, request: httpx.Request) -> httpx.Response:
    if reply.status is None:
        if _UNREACHABLE.search(reply.fault):
            raise httpx.ConnectError(reply.fault, request=request)
        if re.search(r"reset|closed|broken|disconnect", reply.fault, re.IGNORECASE):
            raise httpx.ReadError(reply.fault, request=request)
        raise httpx.ReadTimeout(reply.fault or "no answer", request=request)
    headers = dict(reply.headers)
    if request.url.path.endswith("/logs") and 200 <= reply.status < 300:
        return httpx.Response(reply.status, content=_as_events(reply.body), headers=headers, request=request)
    if isinstance(reply.body, str):
        return httpx.Response(reply.status, text=reply.body, headers=headers, request=request)
    content = b"" if reply.body is None else json.dumps(reply.body).encode()
    return httpx.Response(reply.status, content=content, headers=headers, request=request)


def _as_events(body: Any) -> bytes:
    """A log as the provider streams it, from however a tape writes it."""
    if isinstance(body, dict):
        body = next((value for value in body.values() if isinstance(value, list | str)), "")
    if isinstance(body, str) and re.search(r"^data:", body, re.MULTILINE):
        return body.encode()
    entries = body.splitlines() if isinstance(body, str) else list(body or [])
    said = [one if isinstance(one, dict) else {"source": "system", "line": str(one)} for one in entries]
    return "".join(f"id: {n}\ndata: {json.dumps(line)}\n\n" for n, line in enumerate(said, 1)).encode()


def usual_gpu(tape: Tape) -> dict[str, Any]:
    """A catalog with the one GPU that the tape's machine has, at the price that it says."""
    made = next(
        (r.body for r in tape.replies if r.method == "POST" and isinstance(r.body, dict) and "gpu" in r.body), {}
    )
    gpu = made.get("gpu") if isinstance(made.get("gpu"), dict) else {}
    told = tape.run.get("cost") or tape.run.get("price")
    # Only a tape with a catalog of its own says that it cannot be had for the limit.
    whole = told or min(made.get("cost") or _PRICE * gpu_count(tape), tape.run.get("list_price_limit") or 500)
    return {
        "id": gpu.get("id") or tape.run.get("gpu") or "NVIDIA L40S",
        "name": "L40S",
        "memory": _MEMORY_GB,
        "price": float(whole) / gpu_count(tape),
        "availability": "HIGH",
    }


def gpu_count(tape: Tape) -> int:
    """As many as the run names, or its machine shows."""
    shown = [r.body.get("gpu") for r in tape.replies if isinstance(r.body, dict)]
    told = [
        tape.run.get("gpu_count"),
        *(gpu.get("count") for gpu in [tape.run.get("gpu"), *shown] if isinstance(gpu, dict)),
    ]
    return min(8, max(1, next((int(count) for count in told if isinstance(count, int) and count), 1)))
