"""How soon: a launch is on the wire, a lost machine is noticed, an overrun one ended, an orphan shown."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import httpx
from sqlmodel import select

from jobs import worker
from tensorant_app.db.connections import Connection
from tensorant_app.db.organizations import Organization
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import ConnectionKind
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.runs import RunState
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services import runs, strays
from tests import factories
from tests.faults.console import Console, open_console
from tests.faults.site import DATA_CENTER, VOLUME, Site, open_site
from tests.runpod_emulator import EmulatorTransport, Fault, RealClock, Script, World
from tests.runpod_emulator.keys import Key
from tests.tapes.stage import connect

_LAUNCHES = 40
_OFFSETS = range(0, 120, 15)
"""Seconds after a look at which something happens: each of these once."""
_PATIENCE = 900


def measure() -> dict[str, float]:
    launches = sorted(launch_ms())
    return {
        "launch_ms_p95": launches[int(0.95 * len(launches))],
        "lost_noticed_s": max(_each(lost_noticed)),
        "gone_noticed_s": max(_each(gone_noticed)),
        "deadline_overrun_s": max(_each(deadline_overrun)),
        "orphan_shown_s": max(_each(orphan_shown)),
    }


class _Wire(httpx.BaseTransport):
    """Notes when each create call reaches the provider."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner
        self.created: dict[str, float] = {}
        self.news = threading.Condition()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if (request.method, request.url.path) == ("POST", "/v2/pods"):
            with self.news:
                self.created[json.loads(request.read())["name"]] = time.perf_counter()
                self.news.notify_all()
        return self._inner.handle_request(request)


def launch_ms() -> list[float]:
    """From the member's confirmation to the create call, over jobs in threads and hints inside the process.

    The files for the machine lie on this computer's disk: what an upload would take comes on top.
    """
    with TemporaryDirectory(prefix="tensorant-bench-") as name:
        world = World(Path(name) / "provider", clock=RealClock(), start=Script().start)
        world.add_key(world.add_account(), Key(factories.SECRETS[ConnectionKind.RUNPOD_COMPUTE]["api_key"]))
        wire = _Wire(EmulatorTransport(world))
        volume = FolderStore(Path(name) / "volume")
        with open_console(Path(name), RealClock(), wire, lambda *given: volume) as console, _working():
            connect(console, DATA_CENTER)
            with unit_of_work() as session:
                storage = session.exec(select(Connection).where(Connection.kind == ConnectionKind.RUNPOD_STORAGE)).one()
                storage.shown = {**storage.shown, "volume_id": VOLUME}
                session.get_one(Organization, console.caller.organization_id).run_slots = _LAUNCHES + 1
            found = [_launch(console, wire) for _ in range(_LAUNCHES + 1)]
        world.close()
    return found[1:]  # the first one brings the base and the version


def _launch(console: Console, wire: _Wire) -> float:
    run_id = console.draft(limit="5.00")
    began = time.perf_counter()
    console.launch(run_id, evaluates=False)
    with wire.news:
        if not wire.news.wait_for(lambda: f"tune-{run_id}" in wire.created, timeout=60):
            raise RuntimeError(f"Never asked for: {console.run(run_id).sentence}")
    with unit_of_work() as session:
        runs.cancel_run(session, console.caller, run_id)
    return 1000 * (wire.created[f"tune-{run_id}"] - began)


@contextmanager
def _working() -> Iterator[None]:
    """A worker as `python -m jobs.worker` runs it, in threads of this process."""
    is_over = threading.Event()
    thread = threading.Thread(target=worker.run, args=(is_over.is_set,))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


# On a virtual clock, a second at a time.


def _each(story: Callable[[Site, UUID], float]) -> Iterator[float]:
    """The story at every offset, on a run that trains for hours."""
    for offset in _OFFSETS:
        with open_site(steps=1_000, step=30.0, checkpoint_every=100, is_deaf=True) as site:
            run_id = site.console.draft(hours=0.5)
            site.console.launch(run_id, evaluates=False)
            _until(site, lambda: site.console.run(run_id).state is RunState.TRAINING)  # noqa: B023
            site.pass_time(600)
            _pass(site, offset)
            yield story(site, run_id)


def lost_noticed(site: Site, run_id: UUID) -> float:
    """The provider says that the machine failed."""
    (pod,) = site.account.alive()
    pod._go_down(site.clock(), "ERROR")
    return _until(site, lambda: _is_lost(site, run_id))


def gone_noticed(site: Site, run_id: UUID) -> float:
    """It left the list without a word."""
    (pod,) = site.account.alive()
    pod.vanish(site.clock())
    return _until(site, lambda: _is_lost(site, run_id))


def deadline_overrun(site: Site, run_id: UUID) -> float:
    """Of a trainer that hears nothing: from its deadline to the machine's end at the provider."""
    machine = site.console.machine(run_id)
    assert machine is not None
    _until(site, lambda: site.account.alive() == [], seconds=3_600)
    return (site.clock() - machine.deadline).total_seconds()


def orphan_shown(site: Site, run_id: UUID) -> float:
    """A machine of this installation that no row knows."""
    site.account.faults.arm(Fault.TWIN)
    site.console.launch(site.console.draft(hours=0.5), evaluates=False)
    return _until(site, lambda: len(_shown(site)) > 0)


def _shown(site: Site) -> list[strays.StrayView]:
    with reading() as session:
        return strays.list_strays(session, site.console.caller)


def _is_lost(site: Site, run_id: UUID) -> bool:
    machine = site.console.machine(run_id)
    return machine is None or machine.state is not MachineState.HELD


def _until(site: Site, is_true: Callable[[], bool], seconds: int = _PATIENCE) -> float:
    began = site.clock()
    while not is_true():
        _pass(site, 1)
        if site.clock() - began > timedelta(seconds=seconds):
            raise RuntimeError("It did not come true in time.")
    return (site.clock() - began).total_seconds()


def _pass(site: Site, seconds: int) -> None:
    for _ in range(seconds):
        site.pass_time(1)


if __name__ == "__main__":
    print(json.dumps(measure()))
