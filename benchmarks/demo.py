"""The demo from an empty data folder: how long, how good, how much memory of all its processes together."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import psutil

from benchmarks.table import Row
from tensorant_app.services.bases import fetch_demo_base

_LOOK_SECONDS = 0.5


def measure() -> list[Row]:
    base = fetch_demo_base(print)
    with tempfile.TemporaryDirectory(prefix="tensorant-bench-") as name:
        folder = Path(name)
        (folder / "bases").mkdir()
        (folder / "bases" / Path(base.folder).name).symlink_to(base.folder)
        text, peak = _run(folder)
    numbers = {
        key: float(value.replace(",", ""))
        for key, value in re.findall(r"^ (\S.*?)\s{2,}([+-]?[\d.,]+)", text, re.MULTILINE)
    }
    gain, lower = re.findall(r"gain over likeliest label\s+([+-][\d.]+), at least ([+-][\d.]+)", text)[0]
    likelihood = numbers["base, likeliest label"]
    return [
        Row("demo.seconds", numbers["time"], "s"),
        Row("demo.exact_match", numbers["tuned, exact match"], "share", "base, likeliest label", likelihood),
        Row("demo.gain_over_likelihood", float(gain), "share"),
        Row("demo.gain_over_likelihood_lower", float(lower), "share"),
        Row("demo.peak_mb", peak, "MB"),
    ]


def _run(folder: Path) -> tuple[str, float]:
    """The demo's output and the largest sum of its processes' memory (PSS) seen."""
    env = {**os.environ, "TENSORANT_DATA_DIR": str(folder)}
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("tensorant")), "demo", "--headless"],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )
    peaks = [0.0]
    watcher = threading.Thread(target=_watch, args=(process, folder, peaks), daemon=True)
    watcher.start()
    text, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"The demo did not pass.\n{text}")
    return text, peaks[0]


def _watch(process: subprocess.Popen[str], folder: Path, peaks: list[float]) -> None:
    while process.poll() is None:
        peaks[0] = max(peaks[0], sum(_pss(found) for found in _processes(process.pid, folder)) / 1e6)
        threading.Event().wait(_LOOK_SECONDS)


def _processes(pid: int, folder: Path) -> list[psutil.Process]:
    """The command's tree, and the machines, which are nobody's children and work in the volume."""
    found = []
    try:
        found = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return found
    for candidate in psutil.process_iter():
        try:
            if candidate not in found and Path(candidate.cwd()).is_relative_to(folder):
                found.append(candidate)
        except psutil.Error:
            continue
    return found


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0
