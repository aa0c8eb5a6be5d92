"""Machines rented from RunPod, through its REST API v2. What RunPod gets wrong, and our rule for it, is in docs/machines.md."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from tensorant_app.domain.errors import AuthFailed, DenialReason, Denied, ProviderError, Transient, Unknown, Unsupported
from tensorant_app.domain.machines import RENTED, Sighting
from tensorant_app.domain.offers import MIN_CUDA
from tensorant_app.providers.base import (
    GPU_COUNT_VARIABLE,
    INSTALLATION_VARIABLE,
    MACHINE_VARIABLE,
    STORAGE_VARIABLE,
    BillLine,
    Listed,
    LogLine,
    MachineRequest,
    NetworkVolume,
    Offer,
    Rented,
    Storage,
    sight,
)
from tensorant_app.providers.runpod_api import LARGEST_REQUEST, Answer, Lost, RunPodApi, Unsent, encode, fault
from tensorant_app.providers.runpod_logs import read_log
from tensorant_app.providers.runpod_reading import (
    next_cursor,
    read_bill,
    read_offers,
    read_pod,
    read_pods,
    read_volumes,
    says_more,
)
from tensorant_app.settings import get_settings

T = TypeVar("T")

MOUNT = "/workspace"
"""Where the volume, or the Pod's own disk, lies on the machine."""
BOOT_COMMAND = "/opt/tensorant/boot"
"""The entry point of the trainer's image."""
_MOST_VARIABLES = 50
_MOST_PAGES = 100
_MUST_READ: tuple[tuple[str, Mapping[str, str | int], str], ...] = (
    ("/pods", {}, "list Pods"),
    ("/network-volumes", {}, "list network volumes"),
    ("/billing/pods", {"lastN": 1, "bucketSize": "day"}, "read the Pods' billing"),
)
_NO_SUCH_FIELD = re.compile(
    r"(additional|unevaluated|unknown|unrecogni[sz]ed|unexpected|unsupported)[^;]*\b(entrypoint|cmd)\b"
    r"|\b(entrypoint|cmd)\b[^;]*(not allowed|not permitted|not supported|unknown|unrecogni[sz]ed|unexpected|unsupported)",
    re.IGNORECASE,
)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


class RunPodProvider:
    """Pods of one account. Knows nothing from one call to the next but its client."""

    rules = RENTED
    free = False

    def __init__(self, api: RunPodApi, installation: str) -> None:
        self._api = api
        self._installation = installation

    @property
    def pause(self) -> timedelta:
        return self._api.pause

    def check(self) -> Sequence[str]:
        """Each thing that the console reads must be readable; whether the key may create is learnt at the first launch."""
        troubles = []
        for path, params, doing in _MUST_READ:
            try:
                self._read(path, params, doing)
            except (AuthFailed, Denied) as error:
                troubles.append(error.message)
        return list(dict.fromkeys(troubles))

    def offers(self, count: int = 1) -> Sequence[Offer]:
        params: dict[str, str | int] = {
            "include": "AVAILABILITY",
            "product": "POD",
            "cloud": "SECURE",
            "count": count,
            "minCudaVersion": MIN_CUDA,
        }
        return read_offers(self._read("/catalog/gpus", params, "list the GPU types").body)

    def create(self, request: MachineRequest) -> Rented:
        """One request; a second one only where the first was refused by an account that knows no exec-form command."""
        body = create_body(request, self._installation)
        answer = self._send_create(body)
        if _knows_no_entrypoint(answer):
            answer = self._send_create(_with_args(body))
        if not answer.is_success:
            raise fault(answer, _starting(request), is_paid=True)
        if not isinstance(answer.body, dict) or not _is_id(answer.body.get("id")):
            raise Unknown("RunPod said that the Pod was started, but not under which id.", request_id=answer.request_id)
        pod = read_pod(answer.body)
        return Rented(pod.provider_id, pod.provider_status, pod.rate, pod.created_at)

    def listing(self) -> Sequence[Listed]:
        """Whole or not at all: a list that breaks off must not make a machine look gone."""
        found: dict[str, Listed] = {}
        params: dict[str, str | int] = {}
        seen: set[str] = set()
        while len(seen) < _MOST_PAGES:
            body = self._read("/pods", params, "list Pods").body
            if not isinstance(body, dict) or not isinstance(body.get("pods"), list):
                raise Transient("RunPod's list of Pods could not be read.")
            found |= {pod.provider_id: pod for pod in read_pods(body)}
            cursor = next_cursor(body)
            if cursor is None and not says_more(body):
                return list(found.values())
            if cursor is None or cursor in seen:
                raise Transient("RunPod's list of Pods says that it goes on, and does not.")
            seen.add(cursor)
            params = {"cursor": cursor}
        raise Transient(f"RunPod's list of Pods did not end after {_MOST_PAGES} pages.")

    def find(self, provider_id: str) -> Listed | None:
        answer = self._api.ask("GET", f"/pods/{_checked(provider_id)}")
        if answer.status == 404:
            return None
        if not answer.is_success:
            raise fault(answer, "read this Pod")
        if not isinstance(answer.body, dict) or answer.body.get("id") != provider_id:
            raise Transient(f"RunPod's answer about Pod {provider_id} could not be read.")
        return read_pod(answer.body)

    def look(self, name: str, outputs: str, at: datetime) -> Sighting:
        return sight(self.listing(), name, self._installation, at)

    def stop(self, name: str) -> None:
        """Only where RunPod itself says that this Pod can be stopped; a Pod on a network volume often cannot."""
        _raise_first(_try_each(self._stop, self._ours(name)))

    def _stop(self, pod: Listed) -> None:
        if "stop" not in pod.actions:
            raise Unsupported(f"Pod {pod.provider_id} cannot be stopped now: release it.")
        answer = self._api.ask("POST", f"/pods/{_checked(pod.provider_id)}/action", body={"action": "stop"})
        if answer.status in {400, 409}:
            raise Unsupported(f"RunPod would not stop Pod {pod.provider_id}: {answer.detail}. Release it.")
        if not answer.is_success:
            raise fault(answer, "stop Pods")

    def release(self, name: str, outputs: str, known: Sequence[str] = ()) -> bool:
        """The known ids first, and each whatever became of the others: no list that fails, and no Pod that is refused, spares one."""
        taken: list[str] = []
        ids = list(dict.fromkeys(known))

        def delete(provider_id: str) -> None:
            if self.terminate(provider_id):
                taken.append(provider_id)

        troubles = _try_each(delete, ids)
        try:
            twins = [pod.provider_id for pod in self._ours(name) if pod.provider_id not in ids]
        except ProviderError as error:
            troubles.append(error)
        else:
            troubles += _try_each(delete, twins)
        _raise_first(troubles)
        return bool(taken)

    def terminate(self, provider_id: str) -> bool:
        answer = self._api.ask("DELETE", f"/pods/{_checked(provider_id)}")
        if not answer.is_success and answer.status != 404:
            raise fault(answer, "delete Pods")
        return answer.is_success

    def logs(self, provider_id: str, after: str | None = None) -> Iterator[LogLine]:
        return read_log(self._api, _checked(provider_id), after)

    def bill(self, provider_id: str, since: datetime, until: datetime) -> Sequence[BillLine]:
        params = {"podId": provider_id, **_window(since, until, _HOUR), "bucketSize": "hour"}
        body = self._read("/billing/pods", params, "read the Pods' billing").body
        return read_bill(body, "podId", provider_id, _HOUR)

    def bill_volume(self, volume_id: str, since: datetime, until: datetime) -> Sequence[BillLine]:
        """A network volume's days that touch the span."""
        params = {"networkVolumeId": volume_id, **_window(since, until, _DAY), "bucketSize": "day"}
        body = self._read("/billing/network-volumes", params, "read the volumes' billing").body
        return read_bill(body, "networkVolumeId", volume_id, _DAY)

    def volumes(self) -> Sequence[NetworkVolume]:
        return read_volumes(self._read("/network-volumes", {}, "list network volumes").body)

    def put_secret(self, name: str, value: str) -> None:
        """Keep a value in the account's own secrets, for machines alone; a value of that name is replaced."""
        body = {"name": name, "value": value, "description": "Kept by Tensorant for its training Pods."}
        answer = self._api.ask("POST", "/account/secrets", body=body)
        if answer.status in {400, 409}:
            answer = self._replace_secret(name, value, answer)
        if not answer.is_success:
            raise fault(answer, "keep a secret")

    def _replace_secret(self, name: str, value: str, refusal: Answer) -> Answer:
        """RunPod never tells a value; the id of the one that bears the name is in its list."""
        listed = self._read("/account/secrets", {}, "list secrets").body
        entries = listed.get("secrets", []) if isinstance(listed, dict) else []
        for entry in entries:
            if isinstance(entry, dict) and entry.get("name") == name:
                return self._api.ask("PATCH", f"/account/secrets/{_checked(str(entry['id']))}", body={"value": value})
        return refusal

    def _ours(self, name: str) -> list[Listed]:
        """Pods of this name that name this installation; deleting asks for more proof than looking."""
        return [pod for pod in self.listing() if (pod.name, pod.installation) == (name, self._installation)]

    def _read(self, path: str, params: Mapping[str, str | int], doing: str) -> Answer:
        answer = self._api.ask("GET", path, params=params)
        if not answer.is_success:
            raise fault(answer, doing)
        if not isinstance(answer.body, dict):
            raise Transient(f"RunPod could not {doing}: its answer was not JSON.", request_id=answer.request_id)
        return answer

    def _send_create(self, body: Mapping[str, Any]) -> Answer:
        if len(encode(body)) > LARGEST_REQUEST:
            raise Denied("The request for this Pod is larger than RunPod takes. Shorten its environment.")
        try:
            return self._api.ask("POST", "/pods", body=body, is_paid=True)
        except Unsent as error:
            raise Denied(error.message, DenialReason.UNREACHABLE) from error
        except Lost as error:
            raise Unknown(f"{error.message} The Pod may have been started.") from error


def _starting(request: MachineRequest) -> str:
    where = f" in {request.data_center}" if request.data_center else ""
    return f"start a Pod with {request.gpu_count} × {request.gpu_type}{where}"


def connect(key: str, installation: str) -> RunPodProvider:
    """The account of an API key."""
    return RunPodProvider(RunPodApi(key, get_settings().runpod_api_url), installation)


def create_body(request: MachineRequest, installation: str) -> dict[str, Any]:
    """The request for one Pod. No secret stands in it: RunPod shows a Pod's environment to everybody with a key."""
    environment = {
        **request.environment,
        **{variable: f"{{{{ RUNPOD_SECRET_{secret} }}}}" for variable, secret in request.secrets.items()},
        STORAGE_VARIABLE: request.storage.value,
        GPU_COUNT_VARIABLE: str(request.gpu_count),
        MACHINE_VARIABLE: request.name,
        INSTALLATION_VARIABLE: installation,
    }
    if len(environment) > _MOST_VARIABLES:
        raise Denied(f"A Pod takes at most {_MOST_VARIABLES} variables; this one has {len(environment)}.")
    if "@sha256:" not in request.image:
        raise Denied("The trainer's image is not pinned by digest. Set TENSORANT_TRAINER_IMAGE to …@sha256:….")
    body = {
        "name": request.name,
        "image": request.image,
        "cloud": "SECURE",
        "gpu": {"id": request.gpu_type, "count": request.gpu_count, "minCudaVersion": request.min_cuda},
        "mounts": _mounts(request),
        "disk": request.disk_gb,
        "ports": [],
        "startSsh": False,
        "env": environment,
        "entrypoint": [BOOT_COMMAND],
        "cmd": list(request.command),
    }
    if request.data_center:
        body["dataCenterIds"] = [request.data_center]
    return body


def _mounts(request: MachineRequest) -> dict[str, Any]:
    if request.storage is Storage.POD:
        return {"persistent": {"size": max(request.disk_gb, 10), "path": MOUNT}}
    if not request.volume_id or not request.data_center:
        raise Denied(
            "A Pod on a network volume needs the volume's id and its data center. Save them under Connections."
        )
    return {"network": [{"volumeId": request.volume_id, "path": MOUNT}]}


def _try_each(act: Callable[[T], None], things: Iterable[T]) -> list[ProviderError]:
    """What went wrong; the next is tried all the same."""
    troubles = []
    for thing in things:
        try:
            act(thing)
        except ProviderError as error:
            troubles.append(error)
    return troubles


def _raise_first(troubles: Sequence[ProviderError]) -> None:
    if troubles:
        raise troubles[0]


def _knows_no_entrypoint(answer: Answer) -> bool:
    """An older front end refuses the field itself, before any work: nothing was started. Another rule is no such word."""
    return answer.status == 422 and _NO_SUCH_FIELD.search(answer.detail) is not None


def _with_args(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same command in the older field, whose JSON form keeps the arguments apart."""
    rest = {key: value for key, value in body.items() if key not in {"entrypoint", "cmd"}}
    return {**rest, "args": json.dumps({"entrypoint": body["entrypoint"], "cmd": body["cmd"]})}


def _window(since: datetime, until: datetime, bucket: timedelta) -> dict[str, str]:
    """Both ends in UTC, on the borders of the buckets that hold them."""
    epoch = datetime(2000, 1, 1, tzinfo=UTC)
    start = since - (since - epoch) % bucket
    end = until + (epoch - until) % bucket
    return {"startTime": _utc(start), "endTime": _utc(max(end, start + bucket))}


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _checked(provider_id: str) -> str:
    """An id becomes a part of a path: one with other signs would lead elsewhere."""
    if not _is_id(provider_id):
        raise Denied(f"{provider_id!r} is no id of RunPod's.")
    return provider_id


def _is_id(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]+", value) is not None
