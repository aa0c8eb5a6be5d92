"""One Pod: where it is in its life, moved along by the clock, one change after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.runpod_emulator.billing import Meter
from tests.runpod_emulator.catalog import Gpu
from tests.runpod_emulator.faults import Armed, Fault
from tests.runpod_emulator.logs import CONTAINER, SYSTEM, Logs
from tests.runpod_emulator.workers import Container, Start, Worker

ENDED = "TERMINATED"
LEGAL: Mapping[str, Sequence[str]] = {
    "PROVISIONING": ("stop", "terminate"),
    "STARTING": ("stop", "terminate"),
    "RUNNING": ("stop", "restart", "terminate"),
    "EXITED": ("start", "terminate"),
    "ERROR": ("start", "terminate"),
    ENDED: (),
}
_DISK_PER_GB_HOUR = Decimal("0.10") / 730
_KEPT_PER_GB_HOUR = Decimal("0.20") / 730
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the provider is, in seconds."""

    provision: float = 5
    pull: float = 30
    settle: float = 5
    """RUNNING already, and no runtime yet."""
    restart: float = 3
    linger: float = 0
    """A deleted Pod answers GET with TERMINATED for so long."""
    billing_lag: float = 1800


@dataclass(frozen=True, slots=True)
class Planned:
    """Something that will happen to a Pod, at its own time."""

    at: datetime
    change: Callable[[datetime], None]
    is_deletion: bool = False
    """Also when the Pod has stopped meanwhile."""


@dataclass(slots=True)
class Pod:
    id: str
    name: str
    spec: Mapping[str, Any]
    """The body that asked for it."""
    dc: str
    gpu: Gpu
    gpus: int
    rate: Decimal
    """Dollars per hour for the whole machine."""
    created: datetime
    pace: Pace
    meter: Meter
    start: Start
    contain: Callable[[Pod], Container]
    give_back: Callable[[Pod], None]
    """Called once when the GPUs are free again."""
    faults: Sequence[Armed] = ()
    status: str = "PROVISIONING"
    started: datetime | None = None
    up: datetime | None = None
    """Since when the container runs; None while it does not."""
    ended: datetime | None = None
    boots: int = 0
    holds_gpus: bool = True
    hidden: tuple[datetime, datetime] | None = None
    logs: Logs = field(default_factory=Logs)
    plan: list[Planned] = field(default_factory=list)
    worker: Worker | None = None

    def begin(self) -> None:
        """Right after creation: the way up, and whatever is to go wrong on it."""
        self.meter.switch(self.created, self.rate, self._disk_rate(_DISK_PER_GB_HOUR))
        self._go_up(self.created)
        for fault, change in self._accidents().items():
            if armed := self.fault(fault):
                self.later(self.created, armed.seconds, change)
        if armed := self.fault(Fault.HIDDEN):
            self.hide(self.created, armed.seconds)

    def legal(self) -> list[str]:
        """The actions that may be asked of it now."""
        can_stop = not self.fault(Fault.NO_STOP)
        return [action for action in LEGAL[self.status] if can_stop or action != "stop"]

    def fault(self, fault: Fault) -> Armed | None:
        return next((armed for armed in self.faults if armed.fault is fault), None)

    def later(self, at: datetime, seconds: float, change: Callable[[datetime], None]) -> None:
        is_deletion = change == self.terminate
        self.plan.append(Planned(at + timedelta(seconds=seconds), change, is_deletion))
        self.plan.sort(key=lambda planned: planned.at)

    def advance(self, now: datetime) -> None:
        """Live up to now: what was planned happens at its own time, and the program works in between."""
        while self.plan and self.plan[0].at <= now:
            planned = self.plan.pop(0)
            self._work(planned.at)
            planned.change(planned.at)
        self._work(now)

    def hide(self, at: datetime, seconds: float) -> None:
        self.hidden = (at, at + timedelta(seconds=seconds))

    def is_shown(self, now: datetime) -> bool:
        if self.hidden and self.hidden[0] <= now < self.hidden[1]:
            return False
        return self.ended is None or now < self.ended + timedelta(seconds=self.pace.linger)

    # What others do to it.

    def stop(self, at: datetime) -> None:
        self.logs.add(at, SYSTEM, "stop container")
        self._go_down(at, "EXITED")

    def restart(self, at: datetime) -> None:
        self._kill()
        self.logs.add(at, SYSTEM, "restart container")
        self.later(at, self.pace.restart, self._boot)

    def start_again(self, at: datetime) -> None:
        self.status, self.holds_gpus = "STARTING", True
        self.meter.switch(at, self.rate, self._disk_rate(_DISK_PER_GB_HOUR))
        self._go_up(at)

    def terminate(self, at: datetime) -> None:
        if self.ended is None:
            self.logs.add(at, SYSTEM, "remove container")
            self.vanish(at)

    def vanish(self, at: datetime) -> None:
        """Gone without a word, as with its host."""
        self._go_down(at, ENDED)
        self.meter.switch(at, _ZERO, _ZERO)
        self.plan.clear()
        self.ended = at

    # The way up.

    def _go_up(self, at: datetime) -> None:
        pace = self.pace
        if self.fault(Fault.NEVER_STARTS):
            return
        self.later(at, pace.provision, self._allocate)
        if armed := self.fault(Fault.NO_RUNTIME):
            self.later(at, 0, self._run)
            self.later(at, armed.seconds, self._boot)
            return
        if self.fault(Fault.IMAGE_PULL):
            return
        self.later(at, pace.provision + pace.pull, self._run)
        if not self.fault(Fault.OLD_DRIVER):
            self.later(at, pace.provision + pace.pull + pace.settle, self._boot)

    def _allocate(self, at: datetime) -> None:
        self.status = "STARTING" if self.status == "PROVISIONING" else self.status
        self.logs.add(at, SYSTEM, f"create container {self.spec.get('image')}\npulling image")
        if self.fault(Fault.IMAGE_PULL):
            reason = f'Head "https://registry/{self.spec.get("image")}": no basic auth credentials'
            self.logs.add(at, SYSTEM, f"error pulling image: {reason}")

    def _run(self, at: datetime) -> None:
        self.status, self.started = "RUNNING", self.started or at
        if self.fault(Fault.OLD_DRIVER):
            self.logs.add(at, SYSTEM, "error starting container: unsatisfied condition: cuda>=12.8")

    def _boot(self, at: datetime) -> None:
        if self.ended or self.status not in {"RUNNING", "STARTING"}:
            return
        self.status, self.up = "RUNNING", at
        self.boots += 1
        self.gpus = 0 if self.fault(Fault.ZERO_GPUS) else self.gpus
        self.logs.add(at, SYSTEM, "start container")
        self.worker = self.start(self.contain(self), at)

    # The way down.

    def _work(self, to: datetime) -> None:
        if self.worker is None or (exit := self.worker.advance(to)) is None:
            return
        self.worker = None
        self.logs.add(exit.at, SYSTEM, f"container ended with code {exit.code}")
        if self.fault(Fault.EXIT_LOOP):
            self.up = None
            self.later(exit.at, self.pace.restart, self._boot)
            self.advance(to)
        else:
            self._go_down(exit.at, "EXITED")

    def _go_down(self, at: datetime, status: str) -> None:
        self._kill()
        self.plan = [planned for planned in self.plan if planned.is_deletion]
        self.status = status
        self.meter.switch(at, _ZERO, self._disk_rate(_KEPT_PER_GB_HOUR, only_kept=True))
        if self.holds_gpus:
            self.holds_gpus = False
            self.give_back(self)

    def _kill(self) -> None:
        if self.worker:
            self.worker.kill()
        self.worker, self.up = None, None

    def _accidents(self) -> Mapping[Fault, Callable[[datetime], None]]:
        return {
            Fault.RESTARTED: self._fall_over,
            Fault.CRASHED: self._crash,
            Fault.HOST_LOST: self.vanish,
            Fault.HOST_ERROR: lambda at: self._go_down(at, "ERROR"),
            Fault.DELETED_BY_HAND: self.terminate,
        }

    def _fall_over(self, at: datetime) -> None:
        if self.worker:
            self.restart(at)

    def _crash(self, at: datetime) -> None:
        self.logs.add(at, SYSTEM, "container ended with code 137")
        self._go_down(at, "EXITED")

    def say(self, at: datetime, text: str) -> None:
        self.logs.add(at, CONTAINER, text)

    def _disk_rate(self, per_gb: Decimal, *, only_kept: bool = False) -> Decimal:
        kept: int = self.spec.get("mounts", {}).get("persistent", {}).get("size", 0)
        disk: int = 0 if only_kept else self.spec.get("disk", 20)
        return per_gb * (kept + disk)
