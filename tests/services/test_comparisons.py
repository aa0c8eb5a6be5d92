"""What changed from one version to the next, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tensorant_app.db.session import reading
from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.members import Caller
from tensorant_app.domain.splits import Counts
from tensorant_app.services.comparisons import Comparison, compare_versions
from tests import data
from tests.data import chat


@pytest.fixture
def make(caller: Caller, dataset_id: UUID, tmp_path: Path) -> Any:
    def run(name: str, rows: list[dict[str, Any]], **asked: Any) -> UUID:
        path = data.write_lines(tmp_path / f"{name}.jsonl", rows)
        version_id = data.draft(caller, data.read_import(caller, dataset_id, path), **asked)
        assert data.check(caller, version_id).problem is None
        return version_id

    return run


def compare(caller: Caller, older: UUID, newer: UUID) -> Comparison:
    with reading() as session:
        return compare_versions(session, caller, older, newer)


def counts(found: Comparison) -> tuple[int, ...]:
    return found.same, found.added, found.removed, found.changed


ROWS = [chat(f"Where is stand {n}?", f"In hall {n}.") for n in range(20)]


def test_rows_that_came_went_and_were_answered_otherwise(caller: Caller, make: Any) -> None:
    newer = [*ROWS[2:17], chat("Where is stand 17?", "It has moved."), chat("Is there parking?", "Yes.")]

    found = compare(caller, make("older", ROWS), make("newer", newer))

    assert counts(found) == (15, 1, 4, 1)
    assert [place.text for place in found.first_added] == ["Is there parking?"]
    assert sorted(place.row for place in found.first_removed) == [1, 2, 19, 20]
    ((before, after),) = found.first_changed
    assert (before.row, after.row, after.text) == (18, 16, "Where is stand 17?")


def test_the_same_rows_divided_otherwise_have_only_moved(caller: Caller, make: Any) -> None:
    found = compare(caller, make("older", ROWS), make("newer", ROWS, seed=7, shares=Counts(validation=5, test=5)))

    assert counts(found) == (20, 0, 0, 0)
    assert found.moved >= 5
    assert all(before.split != after.split and before.row == after.row for before, after in found.first_moved)


def test_copies_are_paired_one_by_one(caller: Caller, make: Any) -> None:
    found = compare(caller, make("older", [*ROWS, ROWS[0], ROWS[0]]), make("newer", [*ROWS, ROWS[0]]))

    assert counts(found) == (21, 0, 1, 0)


def test_a_version_is_compared_with_another_checked_one_of_its_dataset(
    caller: Caller, make: Any, tmp_path: Path
) -> None:
    checked = make("older", ROWS)
    draft = data.draft(caller, data.read_import(caller, _dataset_of(caller, checked), tmp_path / "older.jsonl"))

    with pytest.raises(Invalid, match="another version"):
        compare(caller, checked, checked)
    with pytest.raises(Conflict, match="has not been checked yet"):
        compare(caller, checked, draft)


def _dataset_of(caller: Caller, version_id: UUID) -> UUID:
    from tensorant_app.services import datasets

    with reading() as session:
        return datasets.origin_of(session, caller, version_id).dataset.id
