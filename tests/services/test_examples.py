"""Pages of a checked version's rows: in order, with their tokens, and only for those whose version it is."""

from __future__ import annotations

import json
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Invalid, NotFound
from tensorant_app.domain.members import Caller
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import examples
from tensorant_app.services.connections import store
from tensorant_app.services.examples import PAGE_ROWS, ExampleView
from tensorant_app.services.versions import draft_key, frozen_key
from tests import data, factories
from trainer.contract import MASK, Split


@pytest.fixture
def version_id(caller: Caller) -> UUID:
    """130 training rows and 6 test rows, frozen; the file's numbers begin at 1 and have gaps."""
    assert caller.organization_id is not None
    with unit_of_work() as session:
        version = factories.make_version(session, factories.make_project(session, caller.organization_id))
    folder = store().fetch(frozen_key(str(version.content_sha256)))
    folder.mkdir(parents=True)
    rows = {Split.TRAIN: range(1, 391, 3), Split.VALIDATION: range(2, 5), Split.TEST: range(3, 21, 3)}
    for split, numbers in rows.items():
        table = [{"row": row, "example": json.dumps(data.chat(f"number {row}"))} for row in numbers]
        pq.write_table(pa.Table.from_pylist(table), folder / f"{split}.parquet", row_group_size=20)
    masks = [
        {"split": split.value, "row": row, "tokens": 10 * row, "trained_tokens": row}
        for split, numbers in rows.items()
        for row in numbers
    ]
    pq.write_table(pa.Table.from_pylist(masks), folder / MASK, row_group_size=7)
    return version.id


def page(caller: Caller, version_id: UUID, split: Split = Split.TRAIN, start: int = 0) -> list[ExampleView]:
    with reading() as session:
        return examples.read_page(session, caller, version_id, split, start=start)


def test_pages_follow_each_other_without_gap_or_repetition(caller: Caller, version_id: UUID) -> None:
    pages = [page(caller, version_id, start=start) for start in (0, 50, 100)]

    rows = [example.row for one in pages for example in one]
    assert [len(one) for one in pages] == [PAGE_ROWS, PAGE_ROWS, 30]
    assert rows == sorted(set(rows))
    assert len(rows) == 130


def test_each_row_has_its_own_messages_and_tokens(caller: Caller, version_id: UUID) -> None:
    for example in page(caller, version_id, start=37):
        assert example.messages[0]["content"] == f"number {example.row}"
        assert (example.tokens, example.trained_tokens) == (10 * example.row, example.row)


def test_a_page_may_begin_anywhere(caller: Caller, version_id: UUID) -> None:
    whole = page(caller, version_id, start=40)

    assert page(caller, version_id, start=47)[:10] == whole[7:17]


def test_rows_that_hold_a_word_come_by_page_with_their_tokens(caller: Caller, version_id: UUID) -> None:
    with reading() as session:
        first, more = examples.search_page(session, caller, version_id, Split.TRAIN, "NUMBER 1")
        rest, no_more = examples.search_page(session, caller, version_id, Split.TRAIN, "number 1", start=len(first))
        total = examples.count_matches(session, caller, version_id, Split.TRAIN, "number 1")

    rows = [one.row for one in (*first, *rest)]
    assert rows == [row for row in range(1, 391, 3) if str(row).startswith("1")]
    assert (more, no_more, total) == (len(rows) > PAGE_ROWS, False, len(rows))
    assert [one.tokens for one in first] == [10 * one.row for one in first]


@pytest.mark.parametrize("start", [6, 7, 10_000])
def test_beyond_the_end_there_is_nothing(caller: Caller, version_id: UUID, start: int) -> None:
    assert len(page(caller, version_id, Split.TEST)) == 6
    assert page(caller, version_id, Split.TEST, start=start) == []


def test_before_the_beginning_is_refused(caller: Caller, version_id: UUID) -> None:
    with pytest.raises(Invalid, match="row 0 or later"):
        page(caller, version_id, start=-1)


def test_a_draft_has_pages_once_it_was_checked(caller: Caller, version_id: UUID) -> None:
    frozen = page(caller, version_id)
    with unit_of_work() as session:
        version = session.get_one(DatasetVersion, version_id)
        target = store().fetch(draft_key(version_id))
        target.parent.mkdir(parents=True)
        store().fetch(frozen_key(str(version.content_sha256))).rename(target)
        version.state, version.content_sha256 = VersionState.DRAFT, None

    assert page(caller, version_id) == frozen


@pytest.mark.parametrize(
    ("is_checked", "sentence"), [(False, "has not been checked yet"), (True, "is being checked anew")]
)
def test_a_draft_without_files_says_why_it_has_no_pages(caller: Caller, is_checked: bool, sentence: str) -> None:
    assert caller.organization_id is not None
    with unit_of_work() as session:
        project = factories.make_project(session, caller.organization_id)
        draft = factories.make_version(session, project, state=VersionState.DRAFT)
        draft.report = draft.report if is_checked else None

    with pytest.raises(Conflict, match=sentence):
        page(caller, draft.id)


def test_another_organization_does_not_see_it(version_id: UUID) -> None:
    stranger = factories.make_caller(name="Other")

    with pytest.raises(NotFound, match="There is no version"):
        page(stranger, version_id)
