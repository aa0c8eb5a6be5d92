"""`tensorant up` for work on the console: pages built anew and the web process started anew when a file changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tensorant_app import cli

ROOT = Path(__file__).resolve().parent.parent
WATCHED = ("assets", "jobs", "tensorant_app", "rxconfig.py")
_LOOK_SECONDS = 1.0


def main() -> None:
    """A file under `tensorant_app` or `assets` changed: build (a quarter of a minute), then restart web and worker."""
    cli.set_up_logging("supervisor")
    tree = cli.console_tree()
    threading.Thread(target=watch, args=(tree,), daemon=True).start()
    tree.run_forever(cli.print_doors)


def watch(tree: cli.Supervisor) -> None:
    seen = newest()
    while True:
        time.sleep(_LOOK_SECONDS)
        if (now := newest()) == seen:
            continue
        seen = now
        if subprocess.run([sys.executable, str(ROOT / "packaging" / "frontend.py")], check=False).returncode == 0:
            for name in ("web", "worker"):
                if pid := tree.pids().get(name):
                    os.kill(pid, signal.SIGTERM)


def newest() -> float:
    files = [path for name in WATCHED for path in [ROOT / name, *(ROOT / name).rglob("*")]]
    return max(f.stat().st_mtime for f in files if f.is_file() and f.suffix != ".pyc" and "_web" not in f.parts)


if __name__ == "__main__":
    main()
