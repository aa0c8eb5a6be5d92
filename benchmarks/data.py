"""Importing a large chat file against the loader that everybody uses, on the same file in the same run."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path

import psutil

from benchmarks.table import Row

ROWS = int(os.environ.get("TENSORANT_BENCH_ROWS", "300000"))
TIMES = int(os.environ.get("TENSORANT_BENCH_TIMES", "10"))
"""How many times larger the second file is; 0 leaves it out."""

_ALONE = """
import importlib.abc, sys
class NoPandas(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "pandas":
            raise ImportError(name)
sys.meta_path.insert(0, NoPandas())
"""
"""The peer brings pandas, which the product does not install, and Arrow loads it in every process where it is there."""
_OURS = """
import sys, time
from pathlib import Path
from tensorant_app.services import import_work
began = time.perf_counter()
result = import_work.read_rows(Path(sys.argv[1]), Path(sys.argv[2]))
print(time.perf_counter() - began)
assert result["accepted"] == int(sys.argv[3]), result
"""
_LOOKING = """
import sys, time
from pathlib import Path
from tensorant_app.domain.notices import COMMON_TOKENS
from tensorant_app.services import import_work
began = time.perf_counter()
import_work.list_notices(Path(sys.argv[2]), int(sys.argv[3]), COMMON_TOKENS)
print(time.perf_counter() - began)
"""
_NEAR = """
import sys, time
import json
import pyarrow.parquet as pq
from pathlib import Path
from tensorant_app.domain.copies import read_conversation
from tensorant_app.services.near_rows import NearRows
rows = pq.read_table(Path(sys.argv[2]) / "rows.parquet", columns=["example"])[0].slice(0, 100_000)
began = time.perf_counter()
with NearRows(Path(sys.argv[2]) / "sketches") as near:
    for start in range(0, len(rows), 256):
        examples = rows.slice(start, 256).to_pylist()
        near.add([read_conversation(json.loads(one)["messages"]).text for one in examples])
    list(near.pairs(lambda _: 0, lambda _: None))
print(time.perf_counter() - began)
"""
_TEMPLATE = """
import os, resource, sys, time
from pathlib import Path
from trainer.conduct import set_environment
set_environment(1)
from trainer.contract import Base, MaskJob
from trainer.mask import make_mask
def cpu():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
folder = Path(sys.argv[2])
base = Base("demo", "", os.environ["TENSORANT_BENCH_BASE"])
began, before = time.perf_counter(), cpu()
summary = make_mask(MaskJob(base, {"train": str(folder / "rows.parquet")}, str(folder)))
print(cpu() - before, time.perf_counter() - began)
assert (summary.rows, summary.refused) == (int(sys.argv[3]), 0), summary
"""
_PEER = """
import sys, time
import datasets
began = time.perf_counter()
rows = datasets.load_dataset("json", data_files=sys.argv[1], split="train", cache_dir=sys.argv[2])
print(time.perf_counter() - began)
assert len(rows) == int(sys.argv[3])
"""


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="tensorant-bench-") as name:
        folder = Path(name)
        file = write_chats(folder / "rows.jsonl", ROWS)
        peer = min(_run(_PEER, file, folder / f"peer-{n}", ROWS)[0] for n in range(3))
        ours = [_run(_OURS, file, folder / f"ours-{n}", ROWS) for n in range(3)]
        looking, _ = _run(_LOOKING, file, folder / "ours-0", ROWS)
        (cpu, wall), template_peak = _numbers(_TEMPLATE, file, folder / "ours-0", ROWS)
        rows = [
            Row("data.import.vs_hf_datasets", min(s for s, _ in ours), "s", "datasets.load_dataset", peer),
            Row("data.import.peak_mb", max(mb for _, mb in ours), "MB"),
            Row("data.personal_data_s", looking, "s"),
            Row("data.template_s", wall, "s"),
            Row("data.template_rows_per_cpu_s", ROWS / cpu, "rows/CPU-s"),
            Row("data.template_peak_mb", template_peak, "MB"),
            Row("data.near_duplicates_s", _run(_NEAR, file, folder / "ours-0", ROWS)[0], "s"),
        ]
        if TIMES:
            large = write_chats(folder / "large.jsonl", TIMES * ROWS)
            _, peak = _run(_OURS, large, folder / "large", TIMES * ROWS)
            rows.append(Row("data.import.peak_mb_10x", peak, "MB"))
        return rows


def write_chats(path: Path, rows: int) -> Path:
    """About 700 bytes a row, of a system text, a question and a reply; a tenth of them beyond ASCII."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(5_000)]
    words += ["café", "naïve", "Zürich", "größer", "“quoted”"]

    def say(least: int, most: int) -> str:
        return " ".join(chance.choices(words, k=chance.randint(least, most)))

    with path.open("w", encoding="utf-8") as file:
        for n in range(rows):
            messages = [
                {"role": "system", "content": "You answer questions about the shop."},
                {"role": "user", "content": f"Question {n}: {say(20, 40)}?"},
                {"role": "assistant", "content": f'{say(30, 75)}.\n"{say(3, 3)}"'},
            ]
            file.write(json.dumps({"messages": messages}, ensure_ascii=False) + "\n")
    return path


def _run(code: str, file: Path, folder: Path, rows: int) -> tuple[float, float]:
    """Seconds that the program says, and the largest PSS of all its processes in MB."""
    said, peak = _numbers(code, file, folder, rows)
    return said[-1], peak


def _numbers(code: str, file: Path, folder: Path, rows: int) -> tuple[list[float], float]:
    folder.mkdir(exist_ok=True)
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    env["TENSORANT_BENCH_BASE"] = _base_folder()
    code = code if code is _PEER else _ALONE + code
    command = [sys.executable, "-c", code, str(file), str(folder), str(rows)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        peaks = [0.0]
        threading.Thread(target=_watch, args=(process.pid, peaks), daemon=True).start()
        said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"It ended with code {process.returncode}.")
    return [float(number) for number in said.split()], max(peaks)


@cache
def _base_folder() -> str:
    """The demo's base model, whose tokenizer and template the rows are read with."""
    from tensorant_app.services.bases import fetch_demo_base

    return fetch_demo_base(lambda line: None).folder


def _watch(pid: int, peaks: list[float]) -> None:
    try:
        root = psutil.Process(pid)
        while True:
            peaks.append(sum(one.memory_full_info().pss for one in [root, *root.children(recursive=True)]) / 1e6)
            time.sleep(0.2)
    except psutil.Error:
        return
