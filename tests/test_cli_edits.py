"""Rows are looked through and edited from the command line, by who may, with what they come to as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from jobs import broker
from tensorant_app.domain.errors import Forbidden, Invalid, NotFound, Refused
from tensorant_app.domain.members import Caller, Role
from tests import data, factories
from tests.conftest import Clock
from tests.data import chat
from tests.plain_base import make_plain_base
from tests.test_cli import call, member

BAD = {"messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def owner(sqlite_database: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Caller:
    broker.load_actors()
    data.work_inside(monkeypatch)
    return factories.make_caller()


@pytest.fixture
def dataset_id(owner: Caller, tmp_path: Path) -> UUID:
    return data.make_dataset(owner, make_plain_base(tmp_path / "plain"))


@pytest.fixture
def import_id(owner: Caller, dataset_id: UUID, tmp_path: Path) -> UUID:
    """Rows 1 to 6: the second has no reply, 3 and 5 hold HTML."""
    rows = [chat(f"question {n}", f"<b>{n}</b><br>" if n in (3, 5) else "yes") for n in range(1, 7)]
    return data.read_import(owner, dataset_id, data.write_lines(tmp_path / "a.jsonl", [rows[0], BAD, *rows[2:]]))


def said(caller: Caller, *arguments: object) -> dict[str, Any]:
    result = call("data", *arguments, "--json", "--as", caller.name)
    assert result.exit_code == 0, result.exception
    found: dict[str, Any] = json.loads(result.output)
    return found


def refused(who: str, *arguments: object) -> BaseException | None:
    return call("data", *arguments, "--as", who).exception


def test_rows_of_a_kind_are_counted_first_and_left_out_when_one_says_so(owner: Caller, import_id: UUID) -> None:
    assert said(owner, "leave-out", import_id, "--kind", "html") == {
        "import": str(import_id),
        "found": 2,
        "done": False,
    }
    assert [row["number"] for row in said(owner, "rows", import_id, "--show", "left_out")["rows"]] == []

    done = said(owner, "leave-out", import_id, "--kind", "html", "--yes")
    assert done == {
        "import": str(import_id),
        "rows": 2,
        "ready": 3,
        "left_out": 2,
        "changed": 0,
        "mended": 0,
        "appended": 0,
        "with_errors": 1,
    }
    assert said(owner, "leave-out", import_id, "--kind", "no_reply", "--yes")["with_errors"] == 0
    assert said(owner, "put-back", import_id, "--word", "question 5", "--yes")["ready"] == 4
    assert said(owner, "undo", import_id)["ready"] == 3


def test_rows_are_named_by_number_changed_and_taken_back(owner: Caller, import_id: UUID, tmp_path: Path) -> None:
    text = tmp_path / "row.json"
    text.write_text(json.dumps(chat("hello", "Hello!")))

    assert said(owner, "edit", import_id, 2, "--text", text)["mended"] == 1
    assert said(owner, "leave-out", import_id, "--rows", "1,4-6")["left_out"] == 4
    assert said(owner, "put-back", import_id, "--rows", "2")["with_errors"] == 1

    text.write_text("{nonsense")
    assert isinstance(refused(owner.name, "edit", import_id, 2, "--text", text), Refused)
    assert isinstance(refused(owner.name, "leave-out", import_id, "--rows", "7"), NotFound)


def test_another_file_is_put_behind(owner: Caller, dataset_id: UUID, import_id: UUID, tmp_path: Path) -> None:
    other = data.read_import(owner, dataset_id, data.write_lines(tmp_path / "b.jsonl", data.chats(2)))

    assert said(owner, "append", import_id, other)["ready"] == 7
    assert [row["file_name"] for row in said(owner, "rows", import_id, "--start", 5)["rows"]] == ["b.jsonl"] * 2


def test_only_who_may_edit_does(owner: Caller, import_id: UUID) -> None:
    viewer, stranger = member(owner, Role.VIEWER), factories.make_caller(name="Other").name

    for act in (["leave-out", import_id, "--rows", "1"], ["undo", import_id], ["append", import_id, import_id]):
        assert isinstance(refused(viewer, *act), Forbidden)
        assert isinstance(refused(stranger, *act), NotFound)
    assert isinstance(refused(stranger, "rows", import_id), NotFound)
    assert isinstance(call("data", "undo", import_id).exception, Forbidden)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--rows", "1", "--word", "x"],
        ["--rows", "2-1"],
        ["--rows", "x"],
        ["--rows", "1-2000000"],
        ["--kind", "odd"],
    ],
)
def test_what_names_no_rows_is_refused(owner: Caller, import_id: UUID, words: list[str]) -> None:
    assert isinstance(refused(owner.name, "leave-out", import_id, *words), Invalid)
