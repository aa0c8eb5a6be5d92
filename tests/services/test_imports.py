"""A file is received whole, and what is wrong with it can be read afterwards."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Invalid, Refused
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.members import Caller
from tensorant_app.services import imports, row_errors
from tensorant_app.services.connections import store
from tensorant_app.services.data_check import check_file
from tests import data
from tests.data import chat


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)


@pytest.fixture
def import_id(caller: Caller, dataset_id: UUID) -> UUID:
    """Waiting for its file."""
    with unit_of_work() as session:
        return imports.start_import(session, caller, dataset_id, "tickets.jsonl")


class TestReceiving:
    def test_a_file_that_is_not_there_is_named(self, import_id: UUID, tmp_path: Path) -> None:
        with pytest.raises(Invalid, match=r"There is no file .*nothing\.jsonl\. Look at"):
            imports.receive_file(import_id, tmp_path / "nothing.jsonl")

    def test_what_has_not_arrived_cannot_be_checked(self, caller: Caller, import_id: UUID) -> None:
        with pytest.raises(Conflict, match=r"tickets\.jsonl has not arrived yet\. Send it again"), unit_of_work() as s:
            imports.check_import(s, caller, import_id)

        assert data.show_import(caller, import_id).state is ImportState.RECEIVING

    def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_received(
        self, import_id: UUID, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = data.write_lines(tmp_path / "tickets.jsonl", data.chats(3))
        fill_disk(monkeypatch)

        with pytest.raises(Refused) as refused:
            imports.receive_file(import_id, path)

        assert "No space left on device. Free some space, then try again." in refused.value.reasons[0]
        assert list(store().names(f"imports/{import_id}")) == []

    def test_a_cancelled_import_is_not_checked(self, caller: Caller, import_id: UUID, tmp_path: Path) -> None:
        imports.receive_file(import_id, data.write_lines(tmp_path / "a", data.chats(3)))
        with unit_of_work() as session:
            imports.cancel_import(session, caller, import_id)

        with pytest.raises(Conflict, match="cancelled"), unit_of_work() as session:
            imports.check_import(session, caller, import_id)

    @pytest.mark.parametrize("name", ["", "  "])
    def test_a_dataset_needs_a_name(self, caller: Caller, dataset_id: UUID, name: str) -> None:
        from tensorant_app.db.datasets import Dataset

        with reading() as session:
            project_id = session.get_one(Dataset, dataset_id).project_id

        with pytest.raises(Invalid, match="A dataset needs a name"), unit_of_work() as session:
            imports.create_dataset(session, caller, project_id, name)


class TestReading:
    def test_a_good_file_is_ready_with_all_its_rows(self, caller: Caller, dataset_id: UUID, tmp_path: Path) -> None:
        path = data.write_lines(tmp_path / "tickets.jsonl", data.chats(7))

        import_id = data.read_import(caller, dataset_id, path)

        view = data.show_import(caller, import_id)
        assert (view.state, view.rows, view.accepted, view.rejected) == (ImportState.READY, 7, 7, 0)
        with reading() as session:
            assert list(imports.read_errors(session, caller, import_id)) == []

    @pytest.mark.parametrize(
        ("lines", "reason"),
        [
            ([], "The file is empty; put at least one example into it."),
            (["", "  "], "The file is empty;"),
            (["colour,size", "a,b"], 'The rows hold "colour", "size", which is no layout that is known'),
            (['"text"'], "No row is a JSON object; of line 1: a text instead"),
            ([{"prompt": "a", "chosen": "b", "rejected": "c"}], "The file holds preferences"),
            (
                [{"messages": [{"role": "user", "content": "hello"}]}] * 3,
                "No row of the file can be trained on. Read the list of errors, mend the file, and import it again.",
            ),
        ],
        ids=["empty", "blank", "table", "text", "preferences", "no reply"],
    )
    def test_a_file_without_a_row_to_train_on_fails_in_one_sentence(
        self, caller: Caller, dataset_id: UUID, tmp_path: Path, lines: list[object], reason: str
    ) -> None:
        import_id = data.read_import(caller, dataset_id, data.write_lines(tmp_path / "tickets.jsonl", lines))

        view = data.show_import(caller, import_id)
        assert view.state is ImportState.FAILED
        assert view.reason is not None
        assert view.reason.startswith(reason)
        assert store().size(imports.rows_key(import_id)) is None

    def test_a_mixed_file_keeps_every_fault_with_row_line_and_path(
        self, caller: Caller, dataset_id: UUID, tmp_path: Path
    ) -> None:
        bad_role = {"messages": [{"role": "robot", "content": "x"}, {"role": "assistant", "content": "y"}]}
        path = data.write_lines(tmp_path / "tickets.jsonl", [chat("a"), "", bad_role, "{nonsense", chat("b")])

        import_id = data.read_import(caller, dataset_id, path)

        view = data.show_import(caller, import_id)
        assert (view.state, view.rows, view.accepted, view.rejected) == (ImportState.READY, 4, 2, 2)
        with reading() as session:
            errors = list(imports.read_errors(session, caller, import_id))
        assert [(e["row"], e["line"], e["path"], e["code"]) for e in errors] == [
            (2, 3, "messages[0].role", "bad_role"),
            (3, 4, "", "not_json"),
        ]
        assert errors[1]["message"].startswith("Row 3 (line 4): not JSON at column 2")

    def test_the_errors_of_a_file_of_which_no_row_is_good_can_be_read_as_well(
        self, caller: Caller, dataset_id: UUID, tmp_path: Path
    ) -> None:
        rows = [{"messages": [{"role": "user", "content": "hello"}]}] * 3
        import_id = data.read_import(caller, dataset_id, data.write_lines(tmp_path / "tickets.jsonl", rows))

        with reading() as session:
            codes = [error["code"] for error in imports.read_errors(session, caller, import_id)]

        assert codes == ["no_reply"] * 3


GOOD = json.dumps(chat("Which quay?", "Quay 4."))
TOOL = {"type": "function", "function": {"name": "quay", "parameters": {"type": "object", "required": ["ship"]}}}
CALL = {"id": "1", "type": "function", "function": {"name": "quay", "arguments": "{}"}}
CALLING = {
    "messages": [
        {"role": "user", "content": "Which quay is the Ada at?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "1", "content": "4"},
        {"role": "assistant", "content": "Quay\u200b 4, ask mara.lind@example.org"},
    ],
    "tools": [TOOL],
}
MESSY = {
    "lines": f'{GOOD}\n\n{{"messages": [}}\n{GOOD}\n{{"messages": [], "messages": []}}\n{json.dumps(CALLING)}\n'.encode(),
    "a first line that is none": f"Here are the rows:\n{GOOD}\n{json.dumps(chat('Which quay?', 'Quay 5.'))}\n".encode(),
    "cells": 'prompt;completion\nAn wen?;An <b>Mara</b>\n"zwei\nZeilen";\nnur eine\n'.encode("utf-8-sig"),
    "an array": f'[{GOOD}, {{"x": 1}}, {GOOD}, 7]'.encode(),
    "sixteen bits": f"{GOOD}\n{GOOD[:40]}\n".encode("utf-16"),
}


def in_words(found: tuple[Any, ...]) -> str:
    return " ".join(map(str, found))


@pytest.mark.parametrize("body", MESSY.values(), ids=MESSY)
def test_the_page_shows_what_the_command_reports(caller: Caller, dataset_id: UUID, tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "tickets.jsonl"
    path.write_bytes(body)
    report = check_file(path)
    assert report.refused is None
    assert report.rejected > 0 or report.warnings

    import_id = data.read_import(caller, dataset_id, path)

    view = data.show_import(caller, import_id)
    with reading() as session:
        kinds = [
            *row_errors.group_errors(session, caller, import_id),
            *row_errors.group_warnings(session, caller, import_id),
        ]
        pages = {kind.code: row_errors.rows_with(session, caller, import_id, kind.code)[0] for kind in kinds}
    assert (view.rows, view.accepted, view.rejected) == (report.rows, report.accepted, report.rejected)
    shown = [(code, one.row, one.line, one.path, one.message) for code, page in pages.items() for one in page]
    named = ("code", "row", "line", "path", "message")
    told = [tuple(one[name] for name in named) for one in (*report.errors, *report.warnings)]
    assert sorted(shown, key=in_words) == sorted(told, key=in_words)
