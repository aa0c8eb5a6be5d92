"""What `make dev` adds to `tensorant up`: it sees every change, and its build ends with it."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from tests.jobs.conftest import wait_for


@pytest.fixture(scope="module")
def dev() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dev", Path(__file__).parents[1] / "packaging" / "dev.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_file_that_is_changed_new_or_gone_is_seen_and_built_pages_are_not(dev: ModuleType, tmp_path: Path) -> None:
    page, built = tmp_path / "tensorant_app" / "pages" / "run.py", tmp_path / "tensorant_app" / "_web" / "index.html"
    for path in (page, built):
        path.parent.mkdir(parents=True)
        path.write_text("1")
    before = dev.files_of(tmp_path)

    built.write_text("22")
    assert dev.files_of(tmp_path) == before
    new = page.with_name("runs.py")
    new.write_text("1")
    assert dev.files_of(tmp_path).keys() - before.keys() == {new}
    page.unlink()
    assert page not in dev.files_of(tmp_path)


def test_an_editors_dangling_link_does_no_harm(dev: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / ".#runs.py").symlink_to("ada@desk.4711")

    assert dev.files_of(tmp_path) == {}


def test_a_build_that_goes_on_ends_with_its_processes(dev: ModuleType, tmp_path: Path) -> None:
    child = f"import pathlib, os, time; pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid())); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    builder = dev.Builder([sys.executable, "-c", parent])
    built: list[bool] = []
    thread = threading.Thread(target=lambda: built.append(builder.build()))
    thread.start()
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "", 30)
    pid = int((tmp_path / "pid").read_text())

    builder.stop()
    thread.join(30)

    assert built == [False]
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, 10)
    assert builder.build() is False


def test_what_does_not_build_is_said(dev: ModuleType) -> None:
    assert dev.Builder([sys.executable, "-c", ""]).build() is True
    assert dev.Builder([sys.executable, "-c", "raise SystemExit(1)"]).build() is False
