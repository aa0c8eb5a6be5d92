"""The wheel, installed alone, serves the console where there is neither Node nor anything else on PATH."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.ports import free_port

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]


def test_it_carries_the_pages_and_the_migrations(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "packaging/wheel.py"], cwd=ROOT, check=True)
    wheel = max((ROOT / "dist").glob("tensorant-*.whl"), key=lambda path: path.stat().st_mtime)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "site")]
    subprocess.run([*pip, str(wheel)], check=True)
    assert wheel.stat().st_size < 8_000_000
    assert not list(ROOT.glob("tensorant_app/_alembic"))

    # -P and the order of PYTHONPATH: the installed package, not the checkout.
    port = free_port()
    env = {
        "PATH": "/nonexistent",
        "PYTHONPATH": str(tmp_path / "site"),
        "TENSORANT_DATA_DIR": str(tmp_path / "data"),
        "TENSORANT_PORT": str(port),
    }
    argv = [sys.executable, "-P", "-m", "tensorant_app.cli", "up"]
    process = subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        page = fetch(f"http://127.0.0.1:{port}/sign-in/", process)
        running = Path(f"/proc/{process.pid}/cwd").resolve()
    finally:
        process.terminate()
        process.wait(60)

    assert "Sign in" in page
    assert running == tmp_path
    assert os.listdir(tmp_path / "site" / "tensorant_app" / "_alembic" / "versions")


def fetch(url: str, process: subprocess.Popen[bytes]) -> str:
    give_up_at = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            assert process.poll() is None, "It ended."
            assert time.monotonic() < give_up_at, "It did not start."
            time.sleep(0.2)
