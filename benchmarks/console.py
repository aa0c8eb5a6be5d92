"""The console in a real Chromium: memory, bytes of the first page, and how fast it answers with much behind it."""

from __future__ import annotations

import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from playwright.sync_api import Browser, Page, WebSocket, sync_playwright

from benchmarks.table import Row
from tensorant_app import routes
from trainer.attempt import take
from trainer.contract import METRICS, AttemptKeys

CHROMIUM = "/usr/bin/chromium"
ROWS, RUNS, STEPS, EVENTS = 100_000, 10_000, 100_000, 40
_START_SECONDS = 60
_ROWS_BYTES = 5_000
"""A frame with a page of rows is larger than any other."""
_PAUSE_MS = 500
"""Between two clicks of a fast reader, so that the one before is done."""


@dataclass(frozen=True)
class Seeded:
    """What was put into the installation before it was opened."""

    cookie: str
    project_id: UUID
    version_id: UUID
    run_id: UUID
    machine: str


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="tensorant-bench-") as name:
        folder = Path(name) / "data"
        seeded = _seed(folder)
        # This process plays the machine: while it holds the lock, the run is alive.
        keys = AttemptKeys.of("runs", str(seeded.run_id), 1)
        attempt = take(folder / "volume", keys, machine=seeded.machine, number=1)
        assert attempt is not None
        with _stack(folder) as (url, tree), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            try:
                return _measure(browser, url, tree, seeded, attempt.outputs / METRICS)
            finally:
                browser.close()


def _measure(browser: Browser, url: str, tree: psutil.Process, seeded: Seeded, metrics: Path) -> list[Row]:
    page, sizes = _open(browser, url, seeded)
    frames: list[tuple[float, int]] = []
    page.on("websocket", lambda socket: _note_frames(socket, frames))
    page.goto(routes.runs(seeded.project_id))
    page.locator("tbody tr").nth(10).wait_for()
    first_kb = sum(sizes) / 1000
    lcp = _largest_paint(page)
    idle = _memory(tree)
    turns = [_turn(page, frames) for _ in range(EVENTS)]
    page.goto(routes.version(seeded.project_id, seeded.version_id))
    page.get_by_text("1–50 of").wait_for()
    for _ in range(20):
        page.get_by_role("button", name="Next page").first.click()
        page.wait_for_timeout(50)
    update_kb = _chart_update(page, seeded, metrics)
    used = _memory(tree)
    return [
        Row("console.idle_mb", idle, "MB"),
        Row("console.used_mb", used, "MB"),
        Row("console.first_page_kb", first_kb, "kB"),
        Row("console.list_10k_ms_p95", _p95([event for event, _ in turns]), "ms"),
        Row("console.list_click_ms_p95", _p95([click for _, click in turns]), "ms"),
        Row("console.chart_update_kb", update_kb, "kB"),
        Row("console.lcp_ms", lcp, "ms"),
    ]


def _open(browser: Browser, url: str, seeded: Seeded) -> tuple[Page, list[float]]:
    """A page of a fresh context, and the sizes over the wire of the scripts and styles it loads."""
    context = browser.new_context(base_url=url)
    name, _, token = seeded.cookie.partition("=")
    context.add_cookies([{"name": name, "value": token, "url": url}])
    page = context.new_page()
    sizes: list[float] = []
    wanted: set[str] = set()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    kinds = ("Script", "Stylesheet")
    session.on("Network.responseReceived", lambda e: wanted.add(e["requestId"]) if e["type"] in kinds else None)
    session.on(
        "Network.loadingFinished",
        lambda e: sizes.append(e["encodedDataLength"]) if e["requestId"] in wanted else None,
    )
    return page, sizes


def _largest_paint(page: Page) -> float:
    """Milliseconds from the start of the navigation to the largest paint of the page that is open."""
    return float(
        page.evaluate(
            """() => new Promise(done => {
                new PerformanceObserver(list => done(list.getEntries().at(-1).startTime))
                    .observe({type: 'largest-contentful-paint', buffered: true});
                setTimeout(() => done(0), 3000);
            })"""
        )
    )


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def _note_frames(socket: WebSocket, frames: list[tuple[float, int]]) -> None:
    """When each frame passed, and its size; what the browser sent counts as 0."""
    socket.on("framesent", lambda data: frames.append((time.perf_counter(), 0)))
    socket.on("framereceived", lambda data: frames.append((time.perf_counter(), len(data))))


def _turn(page: Page, frames: list[tuple[float, int]]) -> tuple[float, float]:
    """Milliseconds of the event that brings the next page, and of the whole from the click to the drawn rows."""
    page.wait_for_timeout(_PAUSE_MS)
    before = page.locator("tbody tr").first.inner_text()
    frames.clear()
    began = time.perf_counter()
    page.get_by_role("button", name="Next page").first.click()
    page.wait_for_function("before => document.querySelector('tbody tr')?.innerText !== before", arg=before, polling=5)
    drawn = time.perf_counter()
    arrived = next(at for at, size in frames if size > _ROWS_BYTES)
    asked = next(at for at, size in frames if size == 0)
    return (arrived - asked) * 1000, (drawn - began) * 1000


def _chart_update(page: Page, seeded: Seeded, metrics: Path) -> float:
    """Kilobytes of the largest frame that new points bring to an open run page."""
    frames: list[int] = []
    page.on("websocket", lambda ws: ws.on("framereceived", lambda data: frames.append(len(data))))
    page.goto(routes.run(seeded.project_id, seeded.run_id))
    page.locator(".js-plotly-plot, .chart").first.wait_for()
    page.wait_for_timeout(5000)
    frames.clear()
    with metrics.open("a") as file:
        file.writelines(metric_line(step) for step in range(STEPS + 1, STEPS + 30))
    page.wait_for_timeout(12_000)
    return max(frames, default=0) / 1000


def _memory(tree: psutil.Process) -> float:
    """PSS of all processes of the installation, in MB."""
    return sum(process.memory_full_info().pss for process in [tree, *tree.children(recursive=True)]) / 1e6


@contextmanager
def _stack(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "TENSORANT_DATA_DIR": str(folder)}
    command = [sys.executable, "-m", "tensorant_app.cli", "up", "--port", str(port)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        _await(url)
        yield url, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(60)


def _await(url: str) -> None:
    give_up_at = time.monotonic() + _START_SECONDS
    while time.monotonic() < give_up_at:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("The console did not start.")


def metric_line(step: int) -> str:
    noise = random.Random(step).random()
    loss = 2 / (1 + step / 5000) + noise / 10
    values: dict[str, Any] = {"step": step, "epoch": step / 20_000, "loss": loss, "learning_rate": 1e-4, "attempt": 1}
    return (
        json.dumps({**values, "grad_norm": 0.5 + noise, "tokens_per_second": 3000 + 100 * noise, "seconds": 0.1}) + "\n"
    )


def _seed(folder: Path) -> Seeded:
    """In a process of its own, so that this one keeps the settings it has."""
    env = {**os.environ, "TENSORANT_DATA_DIR": str(folder), "TENSORANT_DATABASE_URL": ""}
    env.pop("TENSORANT_DATABASE_URL")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.seed", str(ROWS), str(RUNS), str(STEPS)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    ids = {name: UUID(found[name]) for name in ("project_id", "version_id", "run_id")}
    return Seeded(cookie=found["cookie"], machine=found["machine"], **ids)
