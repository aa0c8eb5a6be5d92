"""Rejected rows are handed back as they stand in the file, whatever kind of file it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tensorant_app.services import import_work
from tests.data import chat

GOOD = json.dumps(chat("a", "b"))


def bad_rows(folder: Path, body: bytes) -> list[dict[str, Any]]:
    source = folder / "source"
    source.write_bytes(body)
    import_work.read_file(source, folder)
    return [json.loads(line) for line in (folder / "bad_rows.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("body", "raws"),
    [
        (f'{GOOD}\n{{"x": 1}}\n\n{GOOD}\n{{nonsense\n'.encode(), {2: '{"x": 1}', 4: "{nonsense"}),
        (f'{GOOD}\n{{"messages": "\xff"}}\n'.encode("latin-1"), {2: '{"messages": "\\xff"}'}),
        (f'[{GOOD}, {{"x": 1}}, 7]'.encode(), {2: '{"x": 1}', 3: "7"}),
        (f"[{GOOD}}}, {GOOD} {GOOD},, 7]".encode(), {1: GOOD, 3: GOOD, 4: None, 5: "7"}),
        (
            b'prompt,completion\na,b\n"two\nlines",b,c\n"q","1\n2"\nx\ny,z\n',
            {2: '"two\nlines",b,c', 4: "x"},
        ),
        (b"prompt;completion\r\na;b\r\nonly one\r\n", {2: "only one"}),
        (b'prompt,completion\na,b\n"never closed,b\n', {2: '"never closed,b'}),
    ],
    ids=["lines", "not UTF-8", "array", "array with odd commas", "cells on several lines", "last line", "cut off"],
)
def test_every_rejected_row_comes_back_as_it_stands(tmp_path: Path, body: bytes, raws: dict[int, str | None]) -> None:
    found = bad_rows(tmp_path, body)

    assert {row["row"]: row["raw"] for row in found} == raws
    assert all(row["reasons"] and row["reasons"][0]["message"] for row in found)


def test_every_reason_of_a_row_stands_beside_it_once(tmp_path: Path) -> None:
    row = {"messages": [{"role": "robot", "content": 7}, {"role": "assistant", "content": ""}]}

    found = bad_rows(tmp_path, f"{GOOD}\n{json.dumps(row)}\n".encode())

    assert [one["row"] for one in found] == [2]
    assert len(found[0]["reasons"]) >= 3


def test_the_bar_never_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int]] = []
    monkeypatch.setattr(import_work, "_TELL_SECONDS", 0)
    monkeypatch.setattr(
        import_work,
        "write_file",
        lambda path, text, **_: told.append((json.loads(text)["step"], json.loads(text)["done"])),
    )
    monkeypatch.setattr(import_work, "_BATCH", 1)
    bad_rows_of = b'{"x": 1}\n' + f"{GOOD}\n".encode() * 9

    bad_rows(tmp_path, bad_rows_of)

    assert next(step for step, _ in told) == "reading"
    assert {step for step, _ in told} == {"reading", "collecting", "looking"}
    assert [percent for _, percent in told] == sorted(percent for _, percent in told)
    assert told[-1] == ("looking", 100)
