"""Rows are left out, changed, put back and added before a freeze; nothing of the file is lost and all of it is audited."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from sqlmodel import Session, col, select

from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.datasets import Dataset
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Invalid, NotFound, Refused
from tensorant_app.domain.members import Caller
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import datasets, deletions, edits, import_rows, versions
from tensorant_app.services.connections import store
from tensorant_app.services.edits import EditsView
from tensorant_app.services.import_rows import FoundRows, Show, Which
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
        edit(edits.leave_out, caller, import_id, [4])
        with pytest.raises(Conflict, match="left out already"):
            edit(edits.leave_out, caller, import_id, [4])


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
        with pytest.raises(NotFound, match=r"Row 11 is row 2 of more\.jsonl, which has errors and was not added\."):
            edit(edits.leave_out, caller, import_id, [10, 11])
        with pytest.raises(Conflict, match="added already"):
            edit(edits.append_file, caller, import_id, other)
        with pytest.raises(Invalid, match="another file"):
            edit(edits.append_file, caller, import_id, import_id)

    def test_one_that_was_deleted_or_is_not_ready_any_more_is_refused_with_a_sentence(
        self, caller: Caller, dataset_id: UUID, import_id: UUID, tmp_path: Path
    ) -> None:
        """The page still offered it."""
        more = data.write_lines(tmp_path / "more.jsonl", [chat("more 1")])
        other, late = data.read_import(caller, dataset_id, more), data.receive(caller, dataset_id, more)
        with unit_of_work() as session:
            deletions.delete_import(session, caller, other)

        with pytest.raises(NotFound, match=r"is not there any more\. Choose another one\."):
            edit(edits.append_file, caller, import_id, other)
        with pytest.raises(Conflict, match=r"more\.jsonl is checking; wait until it is ready\."):
            edit(edits.append_file, caller, import_id, late)

        assert show(caller, import_id).lines == []


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
            page = import_rows.list_rows(session, caller, import_id, Which(show, word), start=start)
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


class TestManyRows:
    """One step takes all rows of a search or of a kind of finding, and says before how many they are."""

    @pytest.fixture
    def messy(self, caller: Caller, dataset_id: UUID, tmp_path: Path) -> UUID:
        """Rows 1 to 10: 3 and 7 have no reply, 4 is no JSON, 5, 6 and 9 hold HTML, 9 and 10 the word crane."""
        rows = [chat(f"question {n}", f"answer {n}") for n in range(1, 11)]
        rows[2] = rows[6] = BAD
        for n in (5, 6, 9):
            rows[n - 1] = chat(f"question {n}", f"<b>answer {n}</b><br>")
        rows[8]["messages"][0]["content"] = "Which Crane?"
        rows[9]["messages"][1]["content"] = "The crane at quay 4"
        lines = [*map(json.dumps, rows[:3]), "{nonsense", *map(json.dumps, rows[4:])]
        return data.read_import(caller, dataset_id, data.write_lines(tmp_path / "messy.jsonl", lines))

    @staticmethod
    def find(caller: Caller, import_id: UUID, **which: Any) -> FoundRows:
        with reading() as session:
            return import_rows.find_rows(session, caller, import_id, Which(**which))

    @staticmethod
    def listed(caller: Caller, import_id: UUID, **which: Any) -> list[int]:
        with reading() as session:
            return [one.number for one in import_rows.list_rows(session, caller, import_id, Which(**which)).rows]

    def test_rows_of_a_kind_of_warning_are_listed_left_out_in_one_step_and_taken_back(
        self, caller: Caller, messy: UUID
    ) -> None:
        found = self.find(caller, messy, kind="html")
        assert (found.numbers, self.listed(caller, messy, kind="html")) == ([5, 6, 9], [5, 6, 9])

        with unit_of_work() as session:
            assert edits.leave_out(session, caller, messy, found.numbers, because="html", seen=found.seen) == 3

        view = show(caller, messy)
        assert (view.ready, view.left_out, view.still_rejected, len(view.lines)) == (4, 3, 3, 1)
        with pytest.raises(Conflict, match="left out already"):
            self.find(caller, messy, kind="html")
        edit(edits.undo, caller, messy)
        assert (show(caller, messy).ready, self.find(caller, messy, kind="html").numbers) == (7, [5, 6, 9])
        with reading() as session:
            (step, _) = session.exec(select(AuditEntry).where(AuditEntry.action.startswith("rows."))).all()  # type: ignore[attr-defined]
            assert (step.facts["rows"], step.facts["because"]) == (3, "html")

    def test_rows_of_a_kind_of_error_are_left_out_knowingly_and_no_version_asks_again(
        self, caller: Caller, messy: UUID
    ) -> None:
        found = self.find(caller, messy, show=Show.REJECTED, kind="no_reply")
        assert found.numbers == [3, 7]

        edit(edits.leave_out, caller, messy, found.numbers)

        view = show(caller, messy)
        assert (view.ready, view.left_out, view.still_rejected) == (7, 2, 1)
        assert self.listed(caller, messy, show=Show.REJECTED) == [4]
        with reading() as session:
            row = import_rows.show_row(session, caller, messy, 3)
            assert (row.state, json.loads(row.text), len(row.faults)) == (Show.LEFT_OUT, BAD, 1)
        with pytest.raises(Invalid, match="1 of 10 rows have errors"):
            data.draft(caller, messy)
        edit(edits.leave_out, caller, messy, self.find(caller, messy, show=Show.REJECTED).numbers)
        assert list(frozen_rows(caller, messy)) == [1, 2, 5, 6, 8, 9, 10]

    def test_rows_that_hold_a_word_are_found_wherever_they_stand(self, caller: Caller, messy: UUID) -> None:
        edit(edits.change_row, caller, messy, 7, json.dumps(chat("A crane was missing", "yes")))

        assert self.find(caller, messy, word="crane").numbers == [7, 9, 10]
        assert self.find(caller, messy, word="crane", kind="html").numbers == [9]

        edit(edits.leave_out, caller, messy, [9, 3])
        assert self.find(caller, messy, word="crane").numbers == [7, 10]
        assert self.find(caller, messy, show=Show.LEFT_OUT, word="crane").numbers == [9]
        assert self.listed(caller, messy, show=Show.LEFT_OUT, word="hello") == [3]
        assert self.listed(caller, messy, show=Show.REJECTED, word="nonsense") == [4]
        edit(edits.put_back, caller, messy, self.find(caller, messy, show=Show.LEFT_OUT).numbers)
        assert show(caller, messy).left_out == 0

    def test_a_row_that_was_changed_counts_as_of_no_kind(self, caller: Caller, messy: UUID) -> None:
        edit(edits.change_row, caller, messy, 5, json.dumps(chat("question 5", "plain")))

        assert self.find(caller, messy, kind="html").numbers == [6, 9]

    def test_rows_of_another_file_are_of_its_kinds(
        self, caller: Caller, dataset_id: UUID, messy: UUID, tmp_path: Path
    ) -> None:
        more = data.write_lines(tmp_path / "more.jsonl", [chat("more"), chat("more", "<i>yes</i><p>")])
        edit(edits.append_file, caller, messy, data.read_import(caller, dataset_id, more))

        assert self.find(caller, messy, kind="html").numbers == [5, 6, 9, 12]

    def test_nothing_happens_where_somebody_edited_meanwhile(self, caller: Caller, messy: UUID) -> None:
        found = self.find(caller, messy, kind="html")
        edit(edits.change_row, caller, messy, 5, json.dumps(chat("question 5", "plain")))

        with pytest.raises(Conflict, match="edited the rows of this file meanwhile"), unit_of_work() as session:
            edits.leave_out(session, caller, messy, found.numbers, seen=found.seen)

        assert show(caller, messy).left_out == 0

    def test_without_a_word_or_a_kind_nothing_is_chosen(self, caller: Caller, messy: UUID) -> None:
        with pytest.raises(Invalid, match="Search a word or choose a kind"):
            self.find(caller, messy)

    def test_lists_of_files_tell_the_numbers_after_all_edits(
        self, caller: Caller, dataset_id: UUID, messy: UUID
    ) -> None:
        edit(edits.leave_out, caller, messy, [3, 5])

        with reading() as session:
            project_id = session.get_one(Dataset, dataset_id).project_id
            (line,) = datasets.show_data(session, caller, project_id).imports
        assert (line.ready, line.with_errors, line.rejected) == (6, 2, 3)
