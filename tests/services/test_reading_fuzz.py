"""No file makes the reading crash, hang or take more than its stated memory: TENSORANT_FUZZ=20000 looks longer."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorant_app.domain.file_kinds import MEMORY_LIMIT
from tensorant_app.services.data_check import check_file

EXAMPLES = int(os.environ.get("TENSORANT_FUZZ", "60"))
MIB = 1024 * 1024
looked_at = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

odd_texts = st.text(st.sampled_from('ab ,;\t\n\r"\\\0\ud83d\u200b\u2028é<>@+14[]{}:'), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | odd_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_texts, inner, max_size=3),
    max_leaves=5,
)
roles = st.sampled_from(["system", "user", "assistant", "tool", "function", "developer", "human", "gpt", "observation"])
turns = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("role", "from"), roles | values),
        **dict.fromkeys(("content", "value", "tool_calls", "function_call", "weight", "tool_call_id", "name"), values),
    },
)
rows = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ("messages", "conversations", "prompt", "completion", "history"), st.lists(turns, max_size=4) | values
        ),
        **dict.fromkeys(("instruction", "input", "output", "system", "tools", "functions", "images", "label"), values),
    },
)
COLUMNS = ("messages", "conversations", "prompt", "completion", "instruction", "output", "tools")
STARTS = [
    b"",
    b"\x1f\x8b\x08",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"PAR1",
    b"\xff\xfe",
    b"\xfe\xff",
    b"\xef\xbb\xbf",
    b"[{",
    b'{"messages"',
]


def check(folder: Path, body: bytes) -> None:
    """The report can be written down, and its counts belong together."""
    path = folder / "file"
    path.write_bytes(body)
    started = time.monotonic()

    report = check_file(path)

    for finding in (*report.errors, *report.warnings):
        json.dumps(finding).encode()
        finding["message"].encode()
    assert report.refused is not None or report.accepted + report.rejected == report.rows > 0
    assert time.monotonic() - started < 30


@given(st.sampled_from(STARTS), st.binary(max_size=400))
@looked_at
def test_any_bytes(tmp_path: Path, start: bytes, body: bytes) -> None:
    check(tmp_path, start + body)


@given(st.lists(rows, max_size=5), st.sampled_from(["lines", "array", "indented", "columns"]), st.booleans())
@looked_at
def test_any_json(tmp_path: Path, found: list[dict[str, Any]], shape: str, ascii_only: bool) -> None:
    def dump(value: object, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=ascii_only, indent=indent)

    match shape:
        case "lines":
            text = "\n".join(map(dump, found))
        case "columns":
            text = dump({name: [row.get(name) for row in found] for name in COLUMNS})
        case _:
            text = dump(found, 1 if shape == "indented" else None)
    check(tmp_path, text.encode("utf-8", "surrogatepass"))


@given(
    st.lists(st.lists(odd_texts | st.sampled_from(COLUMNS), min_size=1, max_size=4), max_size=5),
    st.sampled_from(",;\t"),
)
@looked_at
def test_any_table(tmp_path: Path, found: list[list[str]], separator: str) -> None:
    head = separator.join(("prompt", "completion"))
    check(tmp_path, "\n".join([head, *map(separator.join, found)]).encode("utf-8", "surrogatepass"))


def whole_files() -> dict[str, bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from openpyxl import Workbook

    chats = [
        {"messages": [{"role": "user", "content": f"q{n}"}, {"role": "assistant", "content": "a"}]} for n in range(3)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in chats).encode()
    archive, table, book = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("a.jsonl", lines)
    pq.write_table(pa.Table.from_pylist(chats), table)
    sheet = Workbook()
    for cells in (("prompt", "completion"), ("a", "b")):
        sheet.active.append(cells)
    sheet.save(book)
    return {
        "lines": lines,
        "array": json.dumps(chats).encode(),
        "gzip": gzip.compress(lines),
        "zip": archive.getvalue(),
        "parquet": table.getvalue(),
        "workbook": book.getvalue(),
    }


WHOLE = whole_files()


@pytest.mark.parametrize("name", WHOLE)
@given(data=st.data())
@looked_at
def test_any_damage(tmp_path: Path, name: str, data: st.DataObject) -> None:
    body = bytearray(WHOLE[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        body = body or bytearray(b"x")

    check(tmp_path, bytes(body))


def deep(count: int) -> bytes:
    return b'{"messages": ' + b"[" * count


def repeated_texts() -> bytes:
    """A text of 2 MiB that stands once in a Parquet file, and in each of its 700 rows, more together than an import may take."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    body = io.BytesIO()
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 700, pa.int32()), pa.array(["a" * 2 * MIB]))
    pq.write_table(pa.table({"prompt": texts, "completion": pa.array(["b"] * 700)}), body)
    return body.getvalue()


HEAVY: dict[str, Any] = {
    "one line of 100 MiB": lambda: b'{"messages": [{"role": "user", "content": "' + b"a" * 100 * MIB,
    "one array element of 100 MiB": lambda: b'[{"messages": [{"role": "user", "content": "' + b"a" * 100 * MIB,
    "one cell of 100 MiB": lambda: b'prompt,completion\nx,"' + b"a" * 100 * MIB,
    "a table of quotation marks": lambda: b"prompt,completion\n" + b'"' * 20 * MIB,
    "a line of brackets": lambda: deep(3 * MIB),
    "an array of brackets": lambda: b"[" * 8 * MIB,
    "an array of commas": lambda: b"[" + b"," * 2 * MIB,
    "columns of nothing": lambda: b'{"a": [' + b"[]," * 5 * MIB + b"[]]}",
    "a row of small lists": lambda: b'{"messages": [' + b"[]," * 300_000 + b"[]]}",
    "carriage returns": lambda: b"{}\r" * 5 * MIB,
    "blank lines": lambda: b"\n" * 15 * MIB,
    "a gzip of nothing": lambda: gzip.compress(b" " * 60 * MIB),
    "Parquet of one text": repeated_texts,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY)
def test_a_heavy_file_stays_within_the_memory_that_is_stated(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(HEAVY[name]())
    command = (
        "import resource, sys; from pathlib import Path; from tensorant_app.services import import_work\n"
        "import_work.limit_memory()\n"
        "folder = Path(sys.argv[1])\n"
        "(folder / 'result').write_text(repr(import_work.read_rows(folder / 'file', folder)['refused']))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    started = time.monotonic()

    done = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) * 1024 < MEMORY_LIMIT
    assert time.monotonic() - started < 240
    assert ((tmp_path / "result").read_text() == "None") == (name == "Parquet of one text")
