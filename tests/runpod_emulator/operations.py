"""What each operation of REST API v2 does, once the request is allowed and well-formed: status and body."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.runpod_emulator.account import Account
from tests.runpod_emulator.billing import Window, bill_answer
from tests.runpod_emulator.pod_view import pod_answer
from tests.runpod_emulator.pods import Pod
from tests.runpod_emulator.wire import Request
from tests.runpod_emulator.world import World


@dataclass(frozen=True, slots=True)
class Asking:
    """A request that is allowed and well-formed, ready to be carried out."""

    world: World
    account: Account
    request: Request
    id: str
    body: dict[str, Any]


Handler = Callable[[Asking], tuple[int, Any]]


def _list_pods(a: Asking) -> tuple[int, Any]:
    a.request.asked_words("includeClusterPods", {"true", "false"})
    return 200, {"pods": [_pod(a, pod) for pod in a.account.shown()]}


def _delete_pod(a: Asking) -> tuple[int, Any]:
    a.account.delete(a.id)
    return 204, None


def _act(a: Asking) -> tuple[int, Any]:
    pod = a.account.act(a.id, a.body["action"])
    return (204, None) if pod is None else (200, _pod(a, pod))


def _update_pod(a: Asking) -> tuple[int, Any]:
    pod = a.account.find(a.id)
    pod.name, pod.spec = a.body.get("name", pod.name), {**pod.spec, **a.body}
    return 200, _pod(a, pod)


def _pod(a: Asking, pod: Pod) -> dict[str, Any]:
    return pod_answer(pod, a.world.clock())


def _gone(delete: Callable[[str], None], entity_id: str) -> tuple[int, Any]:
    delete(entity_id)
    return 204, None


def _bill(a: Asking, item: str) -> tuple[int, Any]:
    window, asked = Window.of(a.request, a.world.clock()), a.request.asked(item)
    records = a.account.billed(asked) if item == "podId" else a.account.billed_volumes(asked)
    return 200, bill_answer(window, window.gather(records), item, asked)


HANDLERS: Mapping[str, Handler] = {
    "pods.list": _list_pods,
    "pods.create": lambda a: (201, _pod(a, a.account.create(a.body))),
    "pods.get": lambda a: (200, _pod(a, a.account.find(a.id))),
    "pods.update": _update_pod,
    "pods.delete": _delete_pod,
    "pods.action": _act,
    "volumes.list": lambda a: (200, {"networkVolumes": [v.answer() for v in a.account.things.volumes()]}),
    "volumes.create": lambda a: (201, a.account.things.add_volume(a.body).answer()),
    "volumes.get": lambda a: (200, a.account.things.volume(a.id).answer()),
    "volumes.update": lambda a: (200, a.account.things.change_volume(a.id, a.body).answer()),
    "volumes.delete": lambda a: _gone(a.account.things.delete_volume, a.id),
    "secrets.list": lambda a: (200, {"secrets": [s.answer() for s in a.account.things.secrets()]}),
    "secrets.create": lambda a: (201, a.account.things.put_secret(a.body).answer()),
    "secrets.get": lambda a: (200, a.account.things.secret(a.id).answer()),
    "secrets.update": lambda a: (200, a.account.things.put_secret(a.body, a.id).answer()),
    "secrets.delete": lambda a: _gone(a.account.things.delete_secret, a.id),
    "registries.list": lambda a: (200, {"registries": [r.answer() for r in a.account.things.registries()]}),
    "registries.create": lambda a: (201, a.account.things.add_registry(a.body).answer()),
    "registries.get": lambda a: (200, a.account.things.registry(a.id).answer()),
    "registries.delete": lambda a: _gone(a.account.things.delete_registry, a.id),
    "gpus.list": lambda a: (200, {"gpus": a.world.catalog.gpus_answer(a.request)}),
    "gpus.get": lambda a: (200, a.world.catalog.gpu_answer(a.request, a.id)),
    "datacenters.list": lambda a: (200, {"dataCenters": a.world.catalog.data_centers_answer(a.request)}),
    "datacenters.get": lambda a: (200, a.world.catalog.data_center_answer(a.request, a.id)),
    "billing.pods": lambda a: _bill(a, "podId"),
    "billing.volumes": lambda a: _bill(a, "networkVolumeId"),
}
