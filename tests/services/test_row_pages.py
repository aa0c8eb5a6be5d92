"""Rows by page and by word: what a person wrote is found, whatever its case; what a file is made of is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorant_app.services import row_pages
from tensorant_app.services.row_pages import count_rows, search_rows, slice_rows
from tests.data import chat

CALL = {"id": "c1", "type": "function", "function": {"name": "track", "arguments": '{"box": "HLF-88213"}'}}
TOOLED = {
    "messages": [
        {"role": "user", "content": "Where is it?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "Gdańsk", "tool_call_id": "c1"},
        {"role": "assistant", "content": "In Gdańsk."},
    ]
}
TEXTS = {
    1: chat("Größe of the box?", "Two metres"),
    2: chat('He said "no"', "C:\\new\nname"),
    3: chat("The user asked", "yes"),
    4: TOOLED,
    5: chat("plain", "line one\name"),
    6: chat("tame", "\\name"),
}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Six rows to be told apart and 194 that are alike, seven to a group."""
    examples = [TEXTS.get(n, chat(f"question {n}", "the same answer")) for n in range(1, 201)]
    table = {"row": list(range(1, 201)), "example": [_text(one) for one in examples]}
    pq.write_table(pa.table(table), tmp_path / "rows.parquet", row_group_size=7)
    return tmp_path / "rows.parquet"


def _text(example: dict[str, Any]) -> str:
    return json.dumps(example, ensure_ascii=False, separators=(",", ":"))


def found(path: Path, word: str) -> list[int]:
    return [row["row"] for row in search_rows(path, ["row", "example"], word, 0)[0]]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("größe", [1]),
        ("GRÖSSE OF", []),
        ('"no"', [2]),
        ("c:\\new", [2]),
        ("\nname", [2]),
        ("name", [2, 6]),
        ("user", [3]),
        ("assistant", []),
        ("content", []),
        ("hlf-88213", [4]),
        ("gdańsk", [4]),
        ("question 7", [7, *range(70, 80)]),
    ],
)
def test_what_was_written_is_found_and_counted(rows: Path, word: str, expected: list[int]) -> None:
    assert found(rows, word) == expected
    assert count_rows(rows, word) == len(expected)


def test_pages_of_a_search_follow_each_other_and_say_when_there_are_more(rows: Path) -> None:
    pages = [search_rows(rows, ["row", "example"], "same answer", start) for start in (0, 50, 100, 150)]

    assert [len(page) for page, _ in pages] == [50, 50, 50, 44]
    assert [more for _, more in pages] == [True, True, True, False]
    numbers = [row["row"] for page, _ in pages for row in page]
    assert numbers == sorted(set(numbers))


def test_a_common_word_reads_no_more_of_the_file_than_its_page_needs(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    real = row_pages._matches
    monkeypatch.setattr(row_pages, "_matches", lambda texts, word: looked.append(1) or real(texts, word))

    search_rows(rows, ["row", "example"], "same answer", 0)

    assert len(looked) <= 12, "of 29 groups; 50 rows stand in the first 9"


def test_no_row_group_is_left_out_or_read_twice_where_many_are_handed_out_together(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_pages, "_ONE_BY_ONE", 3)
    monkeypatch.setattr(row_pages, "_TOGETHER", 4)

    assert found(rows, "question 199") == [199]
    assert count_rows(rows, "same answer") == 194


def test_a_slice_begins_anywhere(rows: Path) -> None:
    assert [row["row"] for row in slice_rows(rows, ["row"], 148, 5)] == [149, 150, 151, 152, 153]
    assert [row["row"] for row in slice_rows(rows, ["row"], 198)] == [199, 200]
    assert slice_rows(rows, ["row"], 200) == []
