"""Makes the wheel: the code, the built pages and the migrations, from a copy, so that the checkout stays as it is."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PARTS = ("pyproject.toml", "README.md", "LICENSE", "tensorant_app", "jobs", "trainer")


def main() -> None:
    target = ROOT / "dist"
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "tensorant"
        copy.mkdir()
        for part in _PARTS:
            take(ROOT / part, copy / part)
        take(ROOT / "alembic", copy / "tensorant_app" / "_alembic")
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*command, "--wheel-dir", str(target), "."], cwd=copy, check=True)
    newest = max(target.glob("tensorant-*.whl"), key=lambda path: path.stat().st_mtime)
    print(f"{newest.relative_to(ROOT)}, {newest.stat().st_size / 1e6:.1f} MB")


def take(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".web-new"))
    elif source.exists():
        shutil.copy(source, target)


if __name__ == "__main__":
    main()
