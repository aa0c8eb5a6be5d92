"""One account at the provider: its Pods, and what asking for, stopping and deleting one does."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.runpod_emulator.billing import Meter, Record
from tests.runpod_emulator.catalog import Catalog
from tests.runpod_emulator.clock import Clock
from tests.runpod_emulator.containers import container_of
from tests.runpod_emulator.faults import Fault, Faults
from tests.runpod_emulator.keys import Key
from tests.runpod_emulator.placing import placeable
from tests.runpod_emulator.pods import Pace, Pod
from tests.runpod_emulator.things import Things
from tests.runpod_emulator.wire import ApiError
from tests.runpod_emulator.workers import Start

NO_CAPACITY = (
    "There are no longer any instances available with the requested specifications. Please refresh and try again."
)
NO_MONEY = "Insufficient balance: at least one hour of credit is needed to create a pod."
_DEAREST = Decimal("1.55")


@dataclass(frozen=True, slots=True)
class Asking:
    """One create call that arrived, whatever was answered."""

    at: datetime
    name: str
    status: int
    """What became of it, before any fault changed the answer: 201 for created."""


@dataclass(slots=True)
class Account:
    id: str
    clock: Clock
    catalog: Catalog
    folder: Path
    """Volumes and the disks of containers live below it."""
    pace: Pace
    start: Start
    """What runs in its containers."""
    api_url: str = "https://api.runpod.io/v2"
    lock: threading.RLock = field(default_factory=threading.RLock)
    """The world's own: requests are served by threads."""
    faults: Faults = field(default_factory=Faults)
    keys: dict[str, Key] = field(default_factory=dict)
    s3_keys: dict[str, str] = field(default_factory=dict)
    """Access key → secret."""
    pods: dict[str, Pod] = field(default_factory=dict)
    """Every Pod there ever was, by id."""
    asked: list[Asking] = field(default_factory=list)
    balance: Decimal = Decimal(1000)
    revoked_until: datetime | None = None
    """Until then every key is refused."""
    things: Things = field(init=False)
    _leaving: list[Pod] = field(default_factory=list)
    """Pods whose program asks for their deletion."""

    def __post_init__(self) -> None:
        self.things = Things(self.clock, self.catalog, self.folder)

    # What the campaign's invariants read.

    def creates(self, name: str) -> int:
        """How many Pods this name was asked for and got, by create calls (a twin is not counted)."""
        return sum(1 for asking in self.asked if asking.name == name and asking.status == 201)

    def alive(self) -> list[Pod]:
        """Pods that exist and are billed, seen or not."""
        self.tick()
        return [pod for pod in self.pods.values() if pod.ended is None]

    def bill(self, pod: Pod | str | None = None) -> Decimal:
        """Dollars, exact to a millionth: what one Pod (by Pod, or id), or all, will have been billed up to now."""
        self.tick()
        wanted = pod.id if isinstance(pod, Pod) else pod
        pods = [p for p in self.pods.values() if wanted in {None, p.id}]
        return sum((p.meter.total(self.clock()) for p in pods), Decimal(0))

    def named(self, name: str) -> list[Pod]:
        self.tick()
        return [pod for pod in self.pods.values() if pod.name == name]

    def is_locked_out(self) -> bool:
        """Whether the keys are revoked now; an armed `Fault.KEY_REVOKED` strikes here."""
        now = self.clock()
        if armed := self.faults.take("account", among=(Fault.KEY_REVOKED,)):
            self.revoked_until = (
                now + timedelta(seconds=armed.seconds) if armed.seconds else datetime.max.replace(tzinfo=UTC)
            )
        return self.revoked_until is not None and now < self.revoked_until

    def tick(self) -> None:
        """Bring every Pod to the present."""
        with self.lock:
            now = self.clock()
            for pod in self.pods.values():
                if pod.ended is None:
                    pod.advance(now)
            for pod in self._leaving:
                self._delete_itself(pod, now)
            self._leaving.clear()

    # What the API does.

    def create(self, body: Mapping[str, Any]) -> Pod:
        """The new Pod; `ApiError` where the provider refuses."""
        try:
            pod = self._create(body)
        except ApiError as error:
            self.asked.append(Asking(self.clock(), body["name"], error.status))
            raise
        self.asked.append(Asking(self.clock(), body["name"], 201))
        return pod

    def shown(self) -> list[Pod]:
        now = self.clock()
        return [pod for pod in self.pods.values() if pod.is_shown(now)]

    def find(self, pod_id: str) -> Pod:
        pod = self.pods.get(pod_id)
        if pod is None or not pod.is_shown(self.clock()):
            raise ApiError(404, "pod not found")
        return pod

    def delete(self, pod_id: str) -> None:
        pod, now = self.find(pod_id), self.clock()
        if armed := self.faults.take("pods.delete", pod.name, (Fault.DELETE_DENIED,)):
            pod.hide(now, armed.seconds)
            raise ApiError(404, "pod not found")
        if armed := self.faults.take("pods.delete", pod.name, (Fault.DELETE_LATE,)):
            pod.later(now, armed.seconds, pod.terminate)
            return
        pod.terminate(now)

    def act(self, pod_id: str, action: str) -> Pod | None:
        """None where the Pod was terminated."""
        pod, now = self.find(pod_id), self.clock()
        if action not in pod.legal():
            raise ApiError(409, f"action {action!r} is not valid while the pod is {pod.status}")
        match action:
            case "terminate":
                self.delete(pod_id)
                return None
            case "stop":
                pod.stop(now)
            case "restart":
                pod.restart(now)
            case _:
                self._start_again(pod, now)
        return pod

    def billed(self, pod_id: str | None) -> Iterator[Record]:
        now, lag = self.clock(), timedelta(seconds=self.pace.billing_lag)
        for pod in self.pods.values():
            if pod_id in {None, pod.id}:
                yield from pod.meter.told(now, lag)

    def billed_volumes(self, volume_id: str | None) -> Iterator[Record]:
        now, lag = self.clock(), timedelta(seconds=self.pace.billing_lag)
        for volume in self.things.all_volumes():
            if volume_id in {None, volume.id}:
                yield from volume.meter.told(now, lag)

    def may_delete_itself(self, pod: Pod) -> bool:
        return self.faults.take("pods.own", pod.name, (Fault.SELF_DELETE_REFUSED,)) is None

    def _delete_itself(self, pod: Pod, now: datetime) -> None:
        if self.may_delete_itself(pod):
            pod.terminate(now)
        else:
            pod.say(now, "The Pod's own key may not delete it: 403.")

    def _create(self, body: Mapping[str, Any]) -> Pod:
        gpu, count, wanted = placeable(body, self.catalog, self.things)
        if self.balance <= 0 or self.faults.take("pods.create", body["name"], (Fault.NO_MONEY,)):
            raise ApiError(402, NO_MONEY)
        is_refused = self.faults.take("pods.create", body["name"], (Fault.NO_CAPACITY,)) is not None
        dc = None if is_refused else self.catalog.place(gpu, count, wanted, body["gpu"].get("minCudaVersion"))
        if dc is None or not gpu.rate or count > gpu.most:
            raise ApiError(400, NO_CAPACITY)
        accidents = tuple(self.faults.take_all("machine", body["name"])) + tuple(
            self.faults.take_all("bill", body["name"])
        )
        is_dear = any(armed.fault is Fault.PRICE_ABOVE_QUOTE for armed in accidents)
        rate = gpu.rate * count * (_DEAREST if is_dear else 1)
        pods = 2 if any(armed.fault is Fault.TWIN for armed in accidents) else 1
        return next(iter([self._build(body, dc, count, rate, accidents) for _ in range(pods)]))

    def _build(self, body: Mapping[str, Any], dc: str, count: int, rate: Decimal, accidents: Sequence[Any]) -> Pod:
        pod_id = self._new_id()
        pod = Pod(
            id=pod_id,
            name=body["name"],
            spec=dict(body),
            dc=dc,
            gpu=self.catalog.gpus[body["gpu"]["id"]],
            gpus=count,
            rate=rate,
            created=self.clock(),
            pace=self.pace,
            meter=Meter(pod_id, faults=accidents),
            start=self.start,
            contain=lambda p: container_of(p, self.folder, self.things, self.api_url, lambda: self._leaving.append(p)),
            give_back=self._give_back,
            faults=accidents,
        )
        self.catalog.take(dc, body["gpu"]["id"], count)
        self.pods[pod_id] = pod
        key = Key(f"rpa_pod_{pod_id}", pod_id=pod_id)
        self.keys[key.token] = key
        pod.begin()
        return pod

    def _new_id(self) -> str:
        """Fourteen letters and digits, the same ones in the same order each time."""
        draw = random.Random(f"{self.id}/{len(self.pods)}")
        return "".join(draw.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(14))

    def _give_back(self, pod: Pod) -> None:
        self.catalog.take(pod.dc, pod.spec["gpu"]["id"], -pod.spec["gpu"].get("count", 1))

    def _start_again(self, pod: Pod, now: datetime) -> None:
        gpu_id, count = pod.spec["gpu"]["id"], pod.spec["gpu"].get("count", 1)
        if self.catalog.free(pod.dc, gpu_id) < count:
            raise ApiError(400, "There are not enough free GPUs on the host machine to start this pod.")
        self.catalog.take(pod.dc, gpu_id, count)
        pod.start_again(now)
