"""Bars of a histogram are round and complete, and rows beyond a context length are named."""

from __future__ import annotations

import pytest

from tensorant_app.domain.tokens import BARS, Bar, bars, too_long, width_of
from trainer.contract import LongRow


@pytest.mark.parametrize(
    ("usual", "width"), [(0, 1), (28, 1), (29, 2), (57, 2), (58, 5), (145, 10), (2_000, 100), (50_000, 2_000)]
)
def test_the_width_is_round_and_the_usual_rows_fit(usual: int, width: int) -> None:
    assert width_of(usual) == width
    assert usual // width < BARS - 1


def test_bars_without_rows_stand_and_the_last_one_has_no_end() -> None:
    assert bars({2: 5, 4: 1}, 10) == [Bar(20, 30, 5), Bar(30, 40, 0), Bar(40, 50, 1)]
    assert bars({BARS - 1: 3}, 10) == [Bar(10 * (BARS - 1), None, 3)]
    assert bars({}, 10) == []


def test_rows_beyond_the_context_length_are_named_with_their_tokens() -> None:
    rows = [LongRow("train", 5, 203), LongRow("test", 1_200, 90), LongRow("train", 2, 64)]

    assert too_long(rows, 64) == (
        "2 rows are longer than the context length of 64 tokens: 5 (train, 203), 1,200 (test, 90)."
    )
    assert too_long(rows, 90) == "1 row is longer than the context length of 90 tokens: 5 (train, 203)."
    assert too_long(rows, 203) is None


def test_where_only_the_longest_are_known_the_count_says_so() -> None:
    rows = [LongRow("train", n, 9_000 - n) for n in range(LongRow.LISTED)]

    said = too_long(rows, 64) or ""

    assert said.startswith("At least 100 rows are longer")
    assert said.endswith("19 (train, 8,981) ….")
