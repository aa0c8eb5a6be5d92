"""Several processes read the very rows and faults that one reads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tensorant_app.domain.datasets import FileError, Row, RowError
from tensorant_app.domain.layouts import ColumnMapping, Layout
from tensorant_app.services import batches, containers, import_work, reading
from tensorant_app.services.batches import Batch, read_batch, read_batches
from tensorant_app.services.reading import Reading

CHAT = ColumnMapping(Layout.CHAT, {"messages": "messages"})


def lines(count: int) -> list[str]:
    """Good rows, copies, blank lines, faults and carriage returns."""
    made = []
    for n in range(count):
        row = {
            "messages": [
                {"role": "user", "content": f"q{n % 900}"},
                {"role": "assistant", "content": "é" * (n % 40 + 1)},
            ]
        }
        text = json.dumps(row, ensure_ascii=n % 3 == 0)
        made.append(
            {7: "", 11: "  \r", 13: "{", 17: text.replace(", ", ",\r"), 19: text + "\r" + text}.get(n % 23, text)
        )
    return made


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_BYTES", 20_000)
    monkeypatch.setattr(containers, "CHUNK", 10_000)
    monkeypatch.setattr(reading, "SHARED_FROM", 0)


def one_by_one(path: Path) -> tuple[list[Row], list[RowError], Reading]:
    read = Reading(path)
    found = list(read)
    return [one for one in found if isinstance(one, Row)], [one for one in found if isinstance(one, RowError)], read


@pytest.mark.usefixtures("small_batches")
def test_the_rows_and_faults_are_those_of_one_process(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes("\n".join(lines(5_000)).encode())
    rows, errors, alone = one_by_one(path)

    shared = Reading(path, shares_work=True)
    found = [batch for batch in shared if isinstance(batch, Batch)]

    assert len(found) > 5
    assert [Row(**values) for batch in found for values in batch.open().to_pylist()] == rows
    assert [error for batch in found for error in batch.errors] == errors
    assert (shared.rows, shared.tally.blank_lines) == (alone.rows, alone.tally.blank_lines)


@pytest.mark.usefixtures("small_batches")
def test_an_import_finds_the_same_copies_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.jsonl").write_bytes("\n".join(lines(3_000)).encode())

    def read(folder: Path) -> tuple[dict[str, Any], str, str]:
        folder.mkdir()
        result = import_work.read_rows(tmp_path / "rows.jsonl", folder)
        return result, (folder / import_work.ERRORS).read_text(), (folder / import_work.WARNINGS).read_text()

    shared = read(tmp_path / "shared")
    monkeypatch.setattr(reading, "WORKERS", 1)

    assert shared == read(tmp_path / "alone")
    assert shared[0]["duplicates"] > 0


@pytest.mark.usefixtures("small_batches")
def test_a_line_that_is_too_long_ends_it_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes("\n".join([*lines(300), "x" * 5_000_000, *lines(300)]).encode())

    last = list(Reading(path, shares_work=True))[-1]

    assert isinstance(last, FileError)
    assert last == list(Reading(path))[-1]


def test_a_process_that_is_killed_is_told_as_a_want_of_memory() -> None:
    with pytest.raises(MemoryError):
        list(read_batches(iter([b"{}\n"]), Killer(Layout.CHAT)))


class Killer(ColumnMapping):
    """Kills the process that asks it for a column."""

    def column(self, name: str) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return name


def test_the_workers_of_a_killed_import_are_gone_soon() -> None:
    code = (
        "import itertools; from tensorant_app.services import batches\n"
        "from tensorant_app.domain.layouts import ColumnMapping, Layout\n"
        "batches.BATCH_BYTES = 10_000\n"
        "found = batches.read_batches(itertools.repeat(b'{}\\n' * 5_000), ColumnMapping(Layout.CHAT))\n"
        "next(found); print('reading', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"reading\n"
        workers = psutil.Process(process.pid).children()
        process.kill()

    _, left = psutil.wait_procs(workers, timeout=30)

    assert len(workers) == 2
    assert left == []


def test_without_rows_a_batch_is_empty_and_not_broken() -> None:
    batch = read_batch(b"{\n\n", 4, 6, CHAT)

    assert batch.open().num_rows == 0
    assert [(error.row, error.line) for error in batch.errors] == [(5, 7)]


def test_batches_are_cut_behind_line_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_BYTES", 10)

    def pieces() -> Iterator[bytes]:
        yield from (b"aaaa\nbb", b"bb\ncccc", b"\ndd", b"d")

    assert list(batches._batched(pieces())) == [b"aaaa\nbbbb\n", b"cccc\nddd"]
