"""Dividing rows: exact sizes, the same for the same seed, and copies never on both sides."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorant_app.domain.copies import copy_key
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.splits import Counts, Fractions, Shares, split_rows, warn_few_test_rows
from trainer.contract import Split

Rows = list[tuple[int, str]]


def different(count: int) -> Rows:
    return [(row, f"key {row}") for row in range(1, count + 1)]


def sizes(splits: dict[int, Split]) -> tuple[int, ...]:
    counts = Counter(splits.values())
    return tuple(counts[split] for split in Split)


def example(question: str, answer: str, system: str = "") -> str:
    roles = {"system": system, "user": question, "assistant": answer}
    return json.dumps({"messages": [{"role": role, "content": text} for role, text in roles.items() if text]})


SIZES: list[tuple[int, Shares, tuple[int, int, int]]] = [
    (1300, Fractions(), (1040, 130, 130)),
    (10, Fractions(), (8, 1, 1)),
    (19, Fractions(), (17, 1, 1)),
    (100, Fractions(0.42, 0.29, 0.29), (42, 29, 29)),
    (9, Fractions(1 / 3, 1 / 3, 1 / 3), (5, 2, 2)),
    (1300, Counts(validation=100, test=200), (1000, 100, 200)),
    (1300, Counts(validation=100, test=200, train=500), (500, 100, 200)),
    (3, Counts(validation=1, test=1), (1, 1, 1)),
]


@pytest.mark.parametrize(("rows", "shares", "expected"), SIZES)
def test_rows_that_all_differ_are_divided_exactly(rows: int, shares: Shares, expected: tuple[int, int, int]) -> None:
    assert sizes(split_rows(different(rows), shares, seed=42)) == expected


REFUSED: list[tuple[int, Shares, str, str]] = [
    (7, Fractions(), "rows", "7 rows are too few for these shares: at least 10 are needed"),
    (0, Fractions(), "rows", "0 rows are too few"),
    (6, Fractions(0.7, 0.15, 0.15), "rows", "at least 7 are needed"),
    (100, Fractions(0.8, 0.2, 0.2), "train", "add up to 1"),
    (100, Fractions(1.0, 0.0, 0.0), "train", "above 0"),
    (100, Fractions(float("nan"), 0.1, 0.1), "train", "above 0"),
    (100, Counts(validation=60, test=60, train=1), "train", "ask for 121 rows, but there are 100"),
    (100, Counts(validation=0, test=10), "validation", "Validation needs at least 1 row"),
    (100, Counts(validation=50, test=50), "train", "Train needs at least 1 row"),
]


@pytest.mark.parametrize(("rows", "shares", "field", "sentence"), REFUSED)
def test_shares_that_leave_a_split_empty_are_refused(rows: int, shares: Shares, field: str, sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        split_rows(different(rows), shares, seed=42)

    assert sentence in refused.value.fields[field]


def test_copies_of_one_row_cannot_fill_three_splits() -> None:
    with pytest.raises(Invalid, match="of 100 rows only 1 differ"):
        split_rows([(row, "same") for row in range(100)], Fractions(), seed=42)


def test_another_seed_divides_otherwise() -> None:
    rows = different(200)

    assert split_rows(rows, Fractions(), seed=1) != split_rows(rows, Fractions(), seed=2)


def test_test_rows_come_from_everywhere_in_the_file() -> None:
    splits = split_rows(different(1000), Fractions(), seed=42)

    in_first_half = sum(row <= 500 for row, split in splits.items() if split is Split.TEST)
    assert 30 <= in_first_half <= 70


SAME = [("Water basil?", "Every 2 days."), ("  water BASIL? ", "every  2\ndays. ")]
CAFE = [("caf\u00e9", "Stra\u00dfe"), ("cafe\u0301", "STRASSE")]


@pytest.mark.parametrize("group", [SAME, CAFE], ids=["case and space", "Unicode"])
def test_copies_are_found_through_case_white_space_and_unicode_forms(group: list[tuple[str, str]]) -> None:
    assert len({copy_key(example(*pair)) for pair in group}) == 1


def test_another_instruction_does_not_make_a_copy_another_row() -> None:
    assert copy_key(example("Hi", "Hello", system="Be brief.")) == copy_key(example("Hi", "Hello"))


OTHERS = [("Hi", "Hello."), ("Hi there", "Hello"), ("Hello", "Hi"), ("HiHello", "")]


@pytest.mark.parametrize("other", OTHERS)
def test_rows_that_say_something_else_are_no_copies(other: tuple[str, str]) -> None:
    assert copy_key(example(*other)) != copy_key(example("Hi", "Hello"))


def test_calls_of_other_tools_are_no_copies() -> None:
    def calls(name: str) -> str:
        call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": name}}]}
        return json.dumps({"messages": [{"role": "user", "content": "Now"}, call]})

    assert copy_key(calls("wind")) != copy_key(calls("tide"))


def test_a_large_group_of_copies_goes_to_training() -> None:
    rows = [*different(50), *[(row, "copied") for row in range(51, 101)]]

    splits = split_rows(rows, Fractions(), seed=42)

    assert {splits[row] for row in range(51, 101)} == {Split.TRAIN}
    assert sizes(splits) == (80, 10, 10)


def test_few_test_rows_are_said_to_decide_nothing() -> None:
    few = split_rows(different(490), Fractions(), seed=42)
    enough = split_rows(different(500), Fractions(), seed=42)

    assert warn_few_test_rows(few) == "There are too few test rows to decide the gate: 49, and 50 are needed."
    assert warn_few_test_rows(enough) is None


keys = st.lists(st.integers(0, 40).map(str), min_size=30, max_size=120)
shares_of_all = st.sampled_from([Fractions(), Fractions(0.5, 0.25, 0.25), Counts(5, 5), Counts(3, 4, train=12)])


@given(keys, shares_of_all, st.integers(0, 2**31), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_order_and_row_numbers_decide_nothing_and_copies_stay_together(
    keys: list[str], shares: Shares, seed: int, shuffle: Random
) -> None:
    rows = list(enumerate(keys, start=1))
    shuffled = shuffle.sample(rows, len(rows))
    try:
        splits = split_rows(rows, shares, seed)
    except Invalid:
        with pytest.raises(Invalid):
            split_rows(shuffled, shares, seed)
        return

    by_key = {key: {splits.get(row) for row, other in rows if other == key} for key in keys}

    assert split_rows(shuffled, shares, seed) == splits
    assert all(len(where) == 1 for where in by_key.values())
    assert set(splits.values()) == set(Split)
    if shares != Counts(3, 4, train=12):
        assert set(splits) == {row for row, _ in rows}
