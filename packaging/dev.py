"""`tensorant up` for work on the console: pages built anew and its processes started anew when a file changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tensorant_app import cli

ROOT = Path(__file__).resolve().parent.parent
WATCHED = ("assets", "jobs", "tensorant_app", "trainer/contract.py", "rxconfig.py")
_LOOK_SECONDS = 1.0


def main() -> None:
    """A change is built (a quarter of a minute where pages changed), then web and worker start anew."""
    cli.set_up_logging("supervisor")
    tree, builder = cli.console_tree(), Builder([sys.executable, str(ROOT / "packaging" / "frontend.py")])
    threading.Thread(target=watch, args=(tree, builder), daemon=True).start()
    try:
        tree.run_forever(cli.print_doors)
    finally:
        builder.stop()


def watch(tree: cli.Supervisor, builder: Builder) -> None:
    """Until the process ends; what does not build leaves the processes as they are."""
    known = files_of(ROOT)
    while not builder.is_stopped.wait(_LOOK_SECONDS):
        if (now := files_of(ROOT)) == known:
            continue
        known = now
        if builder.build():
            for name in ("web", "worker"):
                tree.restart(name)


def files_of(root: Path) -> dict[Path, int]:
    """Every file that the console is made of, with the time of its last change."""
    found = {}
    for path in [path for name in WATCHED for path in [root / name, *(root / name).rglob("*")]]:
        if path.suffix == ".pyc" or {"_web", ".web-new"} & set(path.parts):
            continue
        try:
            if path.is_file():
                found[path] = path.stat().st_mtime_ns
        except FileNotFoundError:  # an editor's own, gone already
            continue
    return found


class Builder:
    """One build at a time, with all its processes; ended with them when the tree ends."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.is_stopped = threading.Event()

    def build(self) -> bool:
        with self._lock:
            if self.is_stopped.is_set():
                return False
            self._process = subprocess.Popen(self._command, start_new_session=True)
        return self._process.wait() == 0

    def stop(self) -> None:
        with self._lock:
            self.is_stopped.set()
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


if __name__ == "__main__":
    main()
