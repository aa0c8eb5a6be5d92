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
from PIL import Image

from tensorant_app.domain.file_kinds import MEMORY_LIMIT
from tensorant_app.services.data_check import check_file
from tensorant_app.services.image_cleaning import BadImage, clean, decode
from tests.data import chat
from tests.pictures import huge_png, pack, photograph, picture

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


def check(folder: Path, body: bytes, *, is_vision: bool = False) -> None:
    """The report can be written down, and its counts belong together."""
    path = folder / "file"
    path.write_bytes(body)
    started = time.monotonic()

    report = check_file(path, is_vision=is_vision)

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
    check(tmp_path, damaged(WHOLE[name], data))


PICTURES = {
    "png": picture(),
    "jpeg": photograph(6),
    "webp": picture("WEBP"),
    "gif": picture("GIF", save_all=True, append_images=[Image.new("RGB", (40, 24), "red")]),
    "cmyk": picture("JPEG", mode="CMYK"),
    "deep": picture("PNG", mode="I;16"),
}
paths = (
    st.sampled_from(["a.png", "b/a.jpg", "../a.png", "/a.png", "A.PNG", "gone.png", "", "https://a.example/b"])
    | odd_texts
)


def damaged(body: bytes, data: st.DataObject) -> bytes:
    made = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(made) - 1))
        made[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        made = made or bytearray(b"x")
    return bytes(made)


@pytest.mark.parametrize("name", PICTURES)
@given(data=st.data())
@looked_at
def test_any_damaged_picture_is_cleaned_or_refused(name: str, data: st.DataObject) -> None:
    started = time.monotonic()
    try:
        cleaned = clean(damaged(PICTURES[name], data))
    except BadImage:
        pass
    else:
        assert clean(cleaned.data).data == cleaned.data
        assert decode(cleaned.thumbnail).width <= 320
    assert time.monotonic() - started < 30


@given(st.lists(st.tuples(paths | st.lists(paths | values, max_size=3) | values, odd_texts), max_size=5), st.data())
@looked_at
def test_any_rows_in_an_archive_with_images(
    tmp_path: Path, found: list[tuple[object, str]], data: st.DataObject
) -> None:
    marked = [{**chat(f"<image>{text}"), "images": images} for images, text in found]
    body = pack(tmp_path / "whole.zip", marked, {"a.png": PICTURES["png"], "b/a.jpg": PICTURES["jpeg"]}).read_bytes()

    check(tmp_path, body, is_vision=True)
    check(tmp_path, damaged(body, data), is_vision=True)


@given(st.lists(rows, max_size=5))
@looked_at
def test_any_json_of_a_vision_project(tmp_path: Path, found: list[dict[str, Any]]) -> None:
    check(tmp_path, "\n".join(map(json.dumps, found)).encode(), is_vision=True)


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


def blank(width: int, height: int) -> bytes:
    """Millions of pixels in a few kilobytes."""
    target = io.BytesIO()
    Image.new("1", (width, height)).convert("P").save(target, "PNG", optimize=False)
    return target.getvalue()


def archive_of_pixels() -> bytes:
    """Images as large as may be, of the kinds that take most memory, and some that are larger."""
    exif = Image.Exif()
    exif[0x0112] = 6
    largest, turned = io.BytesIO(), io.BytesIO()
    Image.new("RGBA", (10_000, 8_000)).save(largest, "PNG", compress_level=1)
    Image.new("CMYK", (10_000, 7_999)).save(turned, "JPEG", exif=exif)
    files = {"largest.png": largest.getvalue(), "turned.jpg": turned.getvalue(), "blank.png": blank(10_000, 8_000)}
    files |= {"bomb.png": huge_png(60_000, 60_000), "long.png": huge_png(70_000, 3), "small.png": picture()}
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("rows.jsonl", "".join(json.dumps({**chat("<image>?"), "images": [n]}) + "\n" for n in files))
        for name, data in files.items():
            made.writestr(name, data)
        made.writestr("zeros.png", bytes(300 * MIB))
    return body.getvalue()


HEAVY_PICTURES = "an archive of millions of pixels"
HEAVY[HEAVY_PICTURES] = archive_of_pixels


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY)
def test_a_heavy_file_stays_within_the_memory_that_is_stated(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(HEAVY[name]())
    command = (
        "import resource, sys; from pathlib import Path; from tensorant_app.services import import_work, processes\n"
        "processes.limit_memory()\n"
        "folder = Path(sys.argv[1])\n"
        "(folder / 'result').write_text(repr(import_work.read_rows(folder / 'file', folder, with_images=sys.argv[2] == '1')['refused']))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    started = time.monotonic()

    done = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path), str(int(name == HEAVY_PICTURES))],
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) * 1024 < MEMORY_LIMIT
    assert time.monotonic() - started < 240
    assert ((tmp_path / "result").read_text() == "None") == (name in ("Parquet of one text", HEAVY_PICTURES))
