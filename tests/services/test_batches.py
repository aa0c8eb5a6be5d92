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
from tensorant_app.services.batches import Batch, parts_of, read_batch, read_batches, stretches_of
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

    shared = Reading(path, shares_in=tmp_path)
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


def test_several_processes_find_the_notices_that_one_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [
        ("Mail ann@example.org", "<b>yes</b>"),
        ("Fine?", "n/a"),
        ("Сколько это стоит, скажите пожалуйста?", "ok " * 20),
    ]
    rows = [
        json.dumps({"messages": [{"role": "user", "content": ask}, {"role": "assistant", "content": reply}]})
        for ask, reply in said * 40
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    monkeypatch.setattr(import_work, "_BATCH", 50)

    def look(folder: Path, several: int) -> tuple[int, str]:
        folder.mkdir()
        monkeypatch.setattr(import_work, "_WORTH_PROCESSES", several)
        result = import_work.read_file(tmp_path / "rows.jsonl", folder)
        return result["warnings"], (folder / import_work.WARNINGS).read_text()

    shared = look(tmp_path / "shared", 0)

    assert shared == look(tmp_path / "alone", 1_000)
    assert shared[1].count('"email"') == 40


@pytest.mark.usefixtures("small_batches")
def test_a_line_that_is_too_long_ends_it_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes("\n".join([*lines(300), "x" * 5_000_000, *lines(300)]).encode())

    last = list(Reading(path, shares_in=tmp_path))[-1]

    assert isinstance(last, FileError)
    assert last == list(Reading(path))[-1]


def test_a_process_that_is_killed_is_told_as_a_want_of_memory(tmp_path: Path) -> None:
    with pytest.raises(MemoryError):
        list(read_batches(iter([b"{}\n"]), Killer(Layout.CHAT), tmp_path))


class Killer(ColumnMapping):
    """Kills the process that asks it for a column."""

    def column(self, name: str) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return name


def test_the_workers_of_a_killed_import_are_gone_soon(tmp_path: Path) -> None:
    code = (
        "import itertools, sys; from pathlib import Path; from tensorant_app.services import batches\n"
        "from tensorant_app.domain.layouts import ColumnMapping, Layout\n"
        "parts, folder = itertools.repeat(b'{}\\n' * 5_000), Path(sys.argv[1])\n"
        "found = batches.read_batches(parts, ColumnMapping(Layout.CHAT), folder)\n"
        "next(found); print('reading', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"reading\n"
        workers = psutil.Process(process.pid).children()
        process.kill()

    _, left = psutil.wait_procs(workers, timeout=30)

    assert len(workers) == 2
    assert left == []


def test_without_rows_a_batch_is_empty_and_not_broken(tmp_path: Path) -> None:
    batch = read_batch(b"{\n\n", CHAT, tmp_path / "table")
    batch.place(4, 6)

    assert batch.open().num_rows == 0
    assert [(error.row, error.line) for error in batch.errors] == [(5, 7)]
    assert batch.errors[0].message.startswith("Row 5 (line 7): ")
    assert (batch.rows, batch.lines, batch.blank_lines) == (1, 2, 1)


def test_batches_are_cut_behind_line_ends_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_BYTES", 10)

    def pieces() -> Iterator[bytes]:
        yield from (b"aaaa\nbb", b"bb\ncccc", b"\ndd", b"d")

    assert list(parts_of(pieces())) == [b"aaaa\nbbbb\n", b"cccc\nddd"]
    assert stretches(tmp_path, b"aaaa\nbbbb\ncccc\nddd") == [b"aaaa\nbbbb\n", b"cccc\nddd"]


def stretches(folder: Path, text: bytes) -> list[bytes]:
    (folder / "text").write_bytes(text)
    return [text[part.start : part.end] for part in stretches_of(folder / "text", 0)]


def test_a_file_is_cut_behind_a_later_line_end_or_a_carriage_return_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BATCH_BYTES", 4)
    monkeypatch.setattr(batches, "ROW_LIMIT", 8)

    assert stretches(tmp_path, b"aaaaaaaaaa\nb\nc") == [b"aaaaaaaaaa\n", b"b\nc"]
    assert stretches(tmp_path, b"aaaaaaa\rbbbbbbb\rccccccccc") == [b"aaaaaaa\rbbbbbbb\r", b"ccccccccc"]
    assert stretches(tmp_path, b"a" * 40) == [b"a" * 16, b"a" * 16, b"a" * 8]


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_no_part_of_the_first_row(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes("\n".join(lines(1_000)).encode(encoding))

    found = [batch for batch in Reading(path, shares_in=tmp_path) if isinstance(batch, Batch)]

    assert [row for batch in found for row in batch.open()["row"].to_pylist()] == [
        row.row for row in one_by_one(path)[0]
    ]
