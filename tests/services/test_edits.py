"""Rows are left out, changed, put back and added before a freeze; nothing of the file is lost and all of it is audited."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from sqlmodel import Session, col, select

from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Invalid, NotFound, Refused
from tensorant_app.domain.members import Caller
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import edits, import_rows, versions
from tensorant_app.services.connections import store
from tensorant_app.services.edits import EditsView
from tensorant_app.services.import_rows import Show
from tests import data
from tests.data import chat
from trainer.contract import Split

BAD = {"messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture(autouse=True)
def _inside(monkeypatch: pytest.MonkeyPatch) -> None:
    data.work_inside(monkeypatch)


@pytest.fixture
def import_id(caller: Caller, dataset_id: UUID, tmp_path: Path) -> UUID:
    """Rows 1 to 9; the third one has no reply."""
    rows = [*data.chats(2), BAD, *(chat(f"question {n}") for n in range(4, 10))]
    return data.read_import(caller, dataset_id, data.write_lines(tmp_path / "tickets.jsonl", rows))


def edit(act: Callable[..., None], caller: Caller, import_id: UUID, *more: object) -> None:
    with unit_of_work() as session:
        act(session, caller, import_id, *more)


def show(caller: Caller, import_id: UUID) -> EditsView:
    with reading() as session:
        return edits.show_edits(session, caller, import_id)


def frozen_rows(caller: Caller, import_id: UUID, *, leave_out_rejected: bool = False) -> dict[int, str]:
    """Number → question, of all splits of a version made of it."""
    version_id = data.draft(caller, import_id, leave_out_rejected=leave_out_rejected)
    view = data.check(caller, version_id)
    assert view.problem is None
    view = data.freeze(caller, version_id)
    assert view.state is VersionState.FROZEN
    folder = store().fetch(versions.frozen_key(str(view.content_sha256)))
    rows = [row for split in Split for row in pq.read_table(folder / f"{split}.parquet").to_pylist()]
    return {row["row"]: json.loads(row["example"])["messages"][0]["content"] for row in sorted(rows, key=_number)}


def _number(row: dict[str, int]) -> int:
    return row["row"]


class TestSteps:
    def test_a_version_is_made_of_what_the_steps_come_to(self, caller: Caller, import_id: UUID) -> None:
        edit(edits.leave_out, caller, import_id, [2, 5])
        edit(edits.change_row, caller, import_id, 3, json.dumps(chat("hello", "Hello!")))
        edit(edits.change_row, caller, import_id, 4, json.dumps(chat("changed", "yes")))
        edit(edits.put_back, caller, import_id, [5])

        view = show(caller, import_id)
        assert (view.ready, view.left_out, view.changed, view.mended, view.still_rejected) == (8, 1, 2, 1, 0)
        rows = frozen_rows(caller, import_id)
        assert list(rows) == [1, 3, 4, 5, 6, 7, 8, 9]
        assert (rows[3], rows[4], rows[5]) == ("hello", "changed", "question 5")

    def test_undo_takes_back_the_newest_step_until_there_is_none(self, caller: Caller, import_id: UUID) -> None:
        edit(edits.leave_out, caller, import_id, [1])
        edit(edits.change_row, caller, import_id, 1, json.dumps(chat("changed", "yes")))

        edit(edits.undo, caller, import_id)
        assert (show(caller, import_id).left_out, show(caller, import_id).changed) == (1, 0)
        edit(edits.undo, caller, import_id)
        assert (show(caller, import_id).ready, show(caller, import_id).lines) == (8, [])

        with pytest.raises(Conflict, match="nothing to undo"):
            edit(edits.undo, caller, import_id)

    def test_every_step_is_written_down_for_good(self, caller: Caller, import_id: UUID) -> None:
        edit(edits.leave_out, caller, import_id, [1, 2])
        edit(edits.undo, caller, import_id)

        with reading() as session:
            assert audited(session, import_id) == [("rows.leave_out", 2), ("rows.undo", 0)]

    def test_a_changed_row_is_read_as_strictly_as_the_file(self, caller: Caller, import_id: UUID) -> None:
        for text in ("{nonsense", json.dumps(BAD), '{"messages": [], "messages": []}', json.dumps({"colour": "red"})):
            with pytest.raises(Refused):
                edit(edits.change_row, caller, import_id, 4, text)

        assert show(caller, import_id).changed == 0

    def test_rows_that_are_not_there_are_named(self, caller: Caller, import_id: UUID) -> None:
        with pytest.raises(NotFound, match=r"There is no row 10; the rows are numbered from 1 to 9\."):
            edit(edits.leave_out, caller, import_id, [1, 10])
        with pytest.raises(Invalid, match="Choose between 1"):
            edit(edits.leave_out, caller, import_id, [])
        with pytest.raises(Conflict, match="left out already"):
            edit(edits.leave_out, caller, import_id, [3])


class TestAnotherFile:
    def test_its_rows_stand_behind_and_can_be_edited_like_the_others(
        self, caller: Caller, dataset_id: UUID, import_id: UUID, tmp_path: Path
    ) -> None:
        more = data.write_lines(tmp_path / "more.jsonl", [chat("more 1"), BAD, chat("more 3")])
        other = data.read_import(caller, dataset_id, more)

        edit(edits.append_file, caller, import_id, other)
        edit(edits.leave_out, caller, import_id, [3 + 9])

        assert (show(caller, import_id).ready, show(caller, import_id).appended) == (9, 2)
        rows = frozen_rows(caller, import_id, leave_out_rejected=True)
        assert list(rows) == [1, 2, 4, 5, 6, 7, 8, 9, 10]
        assert rows[10] == "more 1"
        with pytest.raises(Conflict, match="added already"):
            edit(edits.append_file, caller, import_id, other)
        with pytest.raises(Invalid, match="another file"):
            edit(edits.append_file, caller, import_id, import_id)


def test_rows_edited_after_the_check_ask_for_another_one(caller: Caller, import_id: UUID) -> None:
    version_id = data.draft(caller, import_id, leave_out_rejected=True)
    data.check(caller, version_id)
    edit(edits.leave_out, caller, import_id, [1])

    with pytest.raises(Conflict, match="edited after this version was checked"), unit_of_work() as session:
        versions.freeze_version(session, caller, version_id)

    data.check(caller, version_id)
    assert data.freeze(caller, version_id).state is VersionState.FROZEN


def audited(session: Session, import_id: UUID) -> list[tuple[str, int]]:
    found = select(AuditEntry).where(AuditEntry.subject_id == import_id).order_by(col(AuditEntry.at))
    return [(one.action, one.facts["rows"]) for one in session.exec(found) if one.action.startswith("rows.")]


class TestLooking:
    """Rows by page, by word, and by what was done to them."""

    @staticmethod
    def numbers(caller: Caller, import_id: UUID, show: Show = Show.READY, word: str = "", start: int = 0) -> list[int]:
        with reading() as session:
            page = import_rows.list_rows(session, caller, import_id, show, word, start=start)
        return [row.number for row in page.rows]

    def test_each_list_holds_its_rows(self, caller: Caller, import_id: UUID) -> None:
        assert self.numbers(caller, import_id) == [1, 2, 4, 5, 6, 7, 8, 9]
        assert self.numbers(caller, import_id, Show.REJECTED) == [3]

        edit(edits.change_row, caller, import_id, 3, json.dumps(chat("mended", "yes")))
        edit(edits.leave_out, caller, import_id, [9])

        assert self.numbers(caller, import_id) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
        assert self.numbers(caller, import_id, start=2) == [3, 4, 5, 6, 7, 8, 9]
        assert self.numbers(caller, import_id, Show.REJECTED) == []
        assert self.numbers(caller, import_id, Show.CHANGED) == [3]
        assert self.numbers(caller, import_id, Show.LEFT_OUT) == [9]

    def test_a_word_is_found_in_changed_rows_as_they_are_now(self, caller: Caller, import_id: UUID) -> None:
        edit(edits.change_row, caller, import_id, 5, json.dumps(chat("Zebrafish", "yes")))

        assert self.numbers(caller, import_id, word="zebrafish") == [5]
        assert self.numbers(caller, import_id, word="question 5") == []
        assert self.numbers(caller, import_id, word="question") == [1, 2, 4, 6, 7, 8, 9]

    def test_a_rejected_row_is_shown_as_the_file_has_it_with_its_reasons(self, caller: Caller, import_id: UUID) -> None:
        with reading() as session:
            row = import_rows.show_row(session, caller, import_id, 3)

        assert (row.state, json.loads(row.text)) == (Show.REJECTED, BAD)
        assert "no message of the assistant" in row.faults[0]

    def test_rows_of_another_file_name_it_and_their_number_there(
        self, caller: Caller, dataset_id: UUID, import_id: UUID, tmp_path: Path
    ) -> None:
        more = data.write_lines(tmp_path / "more.jsonl", [BAD, *data.chats(60)])
        edit(edits.append_file, caller, import_id, data.read_import(caller, dataset_id, more))

        assert self.numbers(caller, import_id, start=5) == [*range(7, 10), *range(11, 58)]
        assert self.numbers(caller, import_id, start=50) == list(range(53, 71))
        with reading() as session:
            row = import_rows.show_row(session, caller, import_id, 11)
        assert (row.file_name, row.source_number) == ("more.jsonl", 2)
