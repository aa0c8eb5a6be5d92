"""A page of a million frozen rows: the first one, one by a word that is common, and one by a word that is rare."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.table import Row
from tensorant_app.services import examples
from tensorant_app.services.row_pages import count_rows, search_rows, slice_rows
from trainer.contract import MASK, Split

ROWS = int(os.environ.get("TENSORANT_BENCH_FROZEN_ROWS", "1000000"))
_GROUP = 1_000
"""As `services.version_files` writes them."""
_COLUMNS = ("row", "example")
_SCHEMA = pa.schema([("row", pa.int64()), ("example", pa.string())])


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="tensorant-bench-") as name:
        file = write_rows(Path(name) / "train.parquet", ROWS)
        write_masks(Path(name) / MASK, ROWS)
        return times_of(file)


def times_of(file: Path) -> list[Row]:
    """Pages as a person gets them: the rows, their messages, and how many tokens each one has."""
    starts = [random.Random(7).randrange(ROWS - 50) for _ in range(40)]
    with patch.object(examples, "store", return_value=SimpleNamespace(fetch=file.parent.joinpath)):
        first = _seconds(lambda: _page(slice_rows(file, _COLUMNS, 0)))
        pages = [_seconds(lambda start=start: _page(slice_rows(file, _COLUMNS, start))) for start in starts]  # type: ignore[misc]
        common = [_seconds(lambda: _page(search_rows(file, _COLUMNS, "hundredth", 0)[0])) for _ in range(40)]
        rare = [_seconds(lambda word=word: _page(search_rows(file, _COLUMNS, word, 0)[0])) for word in _RARE]  # type: ignore[misc]
        counted = _seconds(lambda: count_rows(file, "hundredth"))
    return [
        Row("data.page_first_ms", 1e3 * first, "ms"),
        Row("data.page_ms_p95", 1e3 * _p95(pages), "ms"),
        Row("data.search_common_ms_p95", 1e3 * _p95(common), "ms"),
        Row("data.search_any_ms_max", 1e3 * max(rare), "ms"),
        Row("data.search_count_ms", 1e3 * counted, "ms"),
    ]


def _page(rows: Sequence[Mapping[str, Any]]) -> None:
    examples._views(".", Split.TRAIN, rows)


_RARE = ("zebrafish", "no such word", "Zebrafish", "groß", "ü")


def write_rows(path: Path, rows: int) -> Path:
    """About 700 bytes a row; the word `hundredth` stands in one of a hundred, `zebrafish` in one of the last."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(5_000)]
    texts = [" ".join(chance.choices(words, k=200)) for _ in range(5_000)]
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
        for first in range(0, rows, _GROUP):
            numbers = list(range(first, min(first + _GROUP, rows)))
            writer.write_table(pa.table([numbers, [_example(n, rows, texts) for n in numbers]], schema=_SCHEMA))
    return path


def write_masks(path: Path, rows: int) -> None:
    """As the trainer writes it, but for the texts."""
    schema = pa.schema([("split", pa.string()), *((name, pa.int64()) for name in ("row", "tokens", "trained_tokens"))])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for first in range(0, rows, _GROUP):
            numbers = list(range(first, min(first + _GROUP, rows)))
            many = len(numbers)
            writer.write_table(pa.table([["train"] * many, numbers, [180] * many, [60] * many], schema=schema))


def _example(n: int, rows: int, texts: Sequence[str]) -> str:
    question = texts[n * 7_919 % len(texts)][n * 31 % 600 :][:280]
    reply = texts[n * 104_729 % len(texts)][n * 17 % 600 :][:320]
    marks = " hundredth" * (n % 100 == 0) + " zebrafish" * (n == rows - 5)
    return (
        '{"messages":[{"role":"system","content":"You answer questions about the shop."},'
        f'{{"role":"user","content":"Question {n}: {question}?"}},'
        f'{{"role":"assistant","content":"{reply}{marks}.\\n\\"yes\\""}}]}}'
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _p95(seconds: Sequence[float]) -> float:
    return sorted(seconds)[int(0.95 * (len(seconds) - 1))]
