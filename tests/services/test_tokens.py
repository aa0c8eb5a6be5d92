"""The tokens of a version's rows, counted from its mask: right numbers for rows of several lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Conflict, Invalid, NotFound
from tensorant_app.domain.members import Caller
from tensorant_app.domain.tokens import Bar
from tensorant_app.domain.versions import VersionState
from tensorant_app.services import tokens
from tensorant_app.services.tokens import count_tokens
from tests import factories
from trainer.contract import MASK, LongRow


def write_mask(folder: Path, rows: list[tuple[str, int, int, int, int]]) -> Path:
    """(split, row, tokens, trained tokens, longest)"""
    names = ("split", "row", "tokens", "trained_tokens", "longest")
    pq.write_table(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]), folder / MASK)
    return folder / MASK


ROWS = [
    ("train", 1, 40, 4, 40),
    ("train", 2, 300, 90, 160),  # two sequences
    ("train", 3, 41, 5, 41),
    ("validation", 4, 170, 9, 170),
    ("test", 5, 0, 0, 0),  # refused by the template
    ("test", 6, 45, 6, 45),
]


def test_an_epoch_reads_the_training_rows_and_learns_their_replies(tmp_path: Path) -> None:
    found = count_tokens(write_mask(tmp_path, ROWS), 2_048)

    assert (found.per_epoch, found.trained_per_epoch) == (381, 99)
    assert (found.rows, found.unrendered) == (5, 1)
    assert (found.tokens.middle, found.tokens.most) == (45, 300)
    assert found.too_long == 0


def test_rows_beyond_the_context_length_go_by_their_longest_sequence(tmp_path: Path) -> None:
    found = count_tokens(write_mask(tmp_path, ROWS), 165)

    assert (found.too_long, found.too_long_rows) == (1, (LongRow("validation", 4, 170),))


def test_every_row_stands_in_one_bar_and_the_longest_of_many_share_the_last(tmp_path: Path) -> None:
    rows = [("train", n, 100 + n % 50, 10, 100 + n % 50) for n in range(1_000)]
    rows += [("train", 1_000, 90_000, 10, 90_000)]

    found = count_tokens(write_mask(tmp_path, rows), 2_048)

    assert sum(bar.rows for bar in found.tokens.bars) == 1_001
    assert found.tokens.bars[:2] == (Bar(100, 110, 200), Bar(110, 120, 200))
    assert found.tokens.bars[-1] == Bar(290, None, 1)
    assert found.trained.bars == (Bar(10, 11, 1_001),)
    assert found.too_long_rows == (LongRow("train", 1_000, 90_000),)


def test_a_mask_of_an_older_trainer_is_counted_too(tmp_path: Path) -> None:
    path = write_mask(tmp_path, ROWS)
    pq.write_table(pq.read_table(path).drop_columns(["longest"]), path)

    assert count_tokens(path, 165).too_long == 2


def test_a_version_whose_rows_are_all_refused_has_no_bars(tmp_path: Path) -> None:
    found = count_tokens(write_mask(tmp_path, [("train", 1, 0, 0, 0)]), 128)

    assert (found.rows, found.unrendered, found.tokens.bars, found.per_epoch) == (0, 1, (), 0)


@pytest.mark.parametrize("length", [-1, 127, 131_073])
def test_a_context_length_out_of_its_range_is_refused(caller: Caller, length: int) -> None:
    with pytest.raises(Invalid) as refused:
        show(caller, _version(caller), context_length=length)
    assert refused.value.fields == {"context_length": "Context length must be between 128 and 131,072."}


def test_files_that_are_being_replaced_are_asked_for_again(caller: Caller) -> None:
    with pytest.raises(Conflict, match="being checked anew"):
        show(caller, _version(caller))


def test_another_organization_sees_nothing(caller: Caller) -> None:
    with pytest.raises(NotFound):
        show(factories.make_caller(name="Other"), _version(caller))


def show(caller: Caller, version_id: UUID, **more: Any) -> object:
    with reading() as session:
        return tokens.show_tokens(session, caller, version_id, **more)


def _version(caller: Caller) -> UUID:
    assert caller.organization_id is not None
    with unit_of_work() as session:
        project = factories.make_project(session, caller.organization_id)
        return factories.make_version(session, project, state=VersionState.DRAFT).id
