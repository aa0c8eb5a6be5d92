"""A whole console in one process on a virtual clock: real services, real jobs and the real RunPod client, over any transport."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import sqlalchemy as sa
from sqlmodel import col, select

from jobs import broker, tick
from tensorant_app.db import clock as clock_module
from tensorant_app.db import session as session_module
from tensorant_app.db.promise import Promise, claim_due, free_held_by
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import RUNPOD, ConnectionKind
from tensorant_app.domain.machines import Use
from tensorant_app.domain.members import Caller
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.placement import Placement
from tensorant_app.providers.base import FileStore
from tensorant_app.providers.registry import PROVIDERS, STORES
from tensorant_app.providers.runpod import RunPodProvider
from tensorant_app.providers.runpod_api import RunPodApi
from tensorant_app.services import connecting, evaluations, machines, prices, runs
from tensorant_app.services.connections import store
from tensorant_app.services.machines import MachineView
from tensorant_app.settings import get_settings
from tests import factories
from tests.conftest import make_tables
from tests.engines import kept_engines
from tests.faults.dataset import answer_lines, split_bytes
from tests.plain_base import make_plain_base

IMAGE = f"registry.example.org/trainer@sha256:{'7' * 64}"
WORKER = "virtual"
_MOST_ROUNDS = 200

Opens = Callable[[str, str, str, str], FileStore]


class Console:
    """One installation with one organization whose RunPod account answers through `http`; time stands still by itself."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.caller: Caller
        self.leaves_out: Collection[str] = ()
        """Kinds of jobs that are not run."""

    # The passing of time.

    def work(self) -> int:
        """Every due job, one after the other, until none is due; how many there were."""
        done = 0
        for _ in range(_MOST_ROUNDS):
            claims = claim_due()
            if not claims:
                return done
            for claim in claims:
                if claim.kind not in self.leaves_out:
                    broker.perform(claim.kind, str(claim.subject_id))
            done += len(claims)
        raise AssertionError(f"The jobs never come to rest: {claims[:3]}")

    def next_due(self) -> datetime | None:
        """When the next promise falls due."""
        with reading() as session:
            kept = sa.func.max(Promise.due_at, sa.func.coalesce(Promise.hidden_until, Promise.due_at))
            query = select(sa.func.min(kept)).where(col(Promise.kind).not_in(list(self.leaves_out)))
            return session.exec(query).one()

    def restart(self) -> None:
        """A new worker process: what the dead one held is given up, and every promise is derived anew."""
        free_held_by(WORKER)
        tick.rederive_all()

    # What people do.

    def save_volume(self, access_key: str, secret_key: str, data_center: str, volume_id: str) -> None:
        storage = {
            "data_center": data_center,
            "volume_id": volume_id,
            "access_key": access_key,
            "secret_key": secret_key,
        }
        with unit_of_work() as session:
            connecting.save_connection(session, self.caller, ConnectionKind.RUNPOD_STORAGE, storage)

    def save_key(self, api_key: str) -> None:
        with unit_of_work() as session:
            connecting.save_connection(session, self.caller, ConnectionKind.RUNPOD_COMPUTE, {"api_key": api_key})

    def draft(
        self, *, id: UUID | None = None, limit: str | None = "5.00", hours: float = 2.0, **placement: Any
    ) -> UUID:
        """A run on RunPod with everything that its checks ask for."""
        rate = HourlyRate.dollars(limit) if limit else None
        gpus, count = placement.pop("gpu_types", ("NVIDIA L40S",)), placement.pop("gpu_count", 1)
        place = Placement(RUNPOD, gpus, count, rate, **placement)
        values: dict[str, Any] = {"id": id} if id else {}
        run_id = factories.make_run(self.caller, placement=place.as_values(), runtime_limit_hours=hours, **values)
        with reading() as session:
            baseline_id = session.get_one(Run, run_id).baseline_id
        store().put(evaluations.answers_key(baseline_id), answer_lines())
        return run_id

    def launch(self, run_id: UUID, *, evaluates: bool = True) -> None:
        """At the price that its dialog shows now."""
        with unit_of_work() as session:
            shown = prices.rented_launch(session, session.get_one(Run, run_id))
            rate = shown.dearest if shown else None
            runs.launch_run(session, self.caller, run_id, evaluates=evaluates, shown_price=rate)

    # What it knows.

    def run(self, run_id: UUID) -> Run:
        with reading() as session:
            return session.get_one(Run, run_id)

    def machine(self, run_id: UUID) -> MachineView | None:
        """The current attempt's."""
        with reading() as session:
            return machines.machine_of(session, Use.RUN, run_id, session.get_one(Run, run_id).attempt)


@contextmanager
def open_console(
    folder: Path,
    now: Callable[[], datetime],
    http: httpx.BaseTransport,
    opens: Opens,
    *,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Console]:
    """An empty installation in `folder`; nothing of this process's own settings is seen, and all is put back after."""
    console = Console(now)
    with ExitStack() as stack:
        stack.enter_context(_environment(folder, settings or {}))
        stack.enter_context(clock_module.reading_from(lambda: console.now()))
        stack.enter_context(_provider(http, opens))
        client_settings = get_settings()
        shutil.copy(_template(), client_settings.data_dir / "tensorant.db")
        broker.load_actors()
        make_plain_base(client_settings.bases_dir / "tiny")
        version = f"versions/{factories.REPORT['content_sha256']}"
        for split in ("train", "validation", "test"):
            store().put(f"{version}/{split}.parquet", split_bytes(split))
        console.caller = factories.make_caller()
        yield console


@contextmanager
def _environment(folder: Path, more: Mapping[str, str]) -> Iterator[None]:
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("TENSORANT_")}
    ours = {
        "TENSORANT_DATA_DIR": str(folder / "data"),
        "TENSORANT_TRAINER_IMAGE": IMAGE,
        "TENSORANT_WORKER": WORKER,
        **more,
    }
    os.environ.update(ours)
    session_module.dispose()
    get_settings.cache_clear()
    try:
        with kept_engines():
            yield
    finally:
        session_module.dispose()
        for name in ours:
            del os.environ[name]
        os.environ.update(kept)
        get_settings.cache_clear()


@contextmanager
def _provider(http: httpx.BaseTransport, opens: Opens) -> Iterator[None]:
    """The registry's two doors lead to the given transport, and to files of one's choice."""
    before = PROVIDERS[RUNPOD], STORES[RUNPOD]
    with httpx.Client(transport=http) as client:
        url = get_settings().runpod_api_url
        PROVIDERS[RUNPOD] = lambda key, installation: RunPodProvider(RunPodApi(key, url, client), installation)
        STORES[RUNPOD] = opens
        try:
            yield
        finally:
            PROVIDERS[RUNPOD], STORES[RUNPOD] = before


@contextmanager
def time_zone(name: str | None) -> Iterator[None]:
    """The server's own clock, whatever it is set to, must make no difference."""
    before = os.environ.get("TZ")
    if name:
        os.environ["TZ"] = name
        time.tzset()
    try:
        yield
    finally:
        if name:
            os.environ.pop("TZ")
            if before is not None:
                os.environ["TZ"] = before
            time.tzset()


@lru_cache(maxsize=1)
def _template() -> Path:
    """An empty database with all tables, made once per process."""
    folder = fast_folder()
    make_tables(f"sqlite:///{folder / 'template.db'}")
    return folder / "template.db"


def fast_folder() -> Path:
    """In memory where the computer has such a place."""
    import tempfile

    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="tensorant-faults-", dir=memory if memory.is_dir() else None))
