"""Rows that repeat others: which ones, in which way, and that none of them stands on two sides."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from tensorant_app.domain.leakage import Keep, Likeness
from tensorant_app.domain.members import Caller
from tensorant_app.domain.splits import Counts, Fractions
from tensorant_app.services import near_rows
from tensorant_app.services.connections import store
from tensorant_app.services.near_rows import NearRows
from tensorant_app.services.versions import Report
from tests import data
from tests.data import chat
from trainer.contract import Split

Rows = list[dict[str, Any]]
WORDS = ["".join(random.Random(n).choices("abcdefghijklmnopqrstuvwxyz", k=3 + n % 6)) for n in range(900)]


def say(seed: int, words: int = 40) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def talk(*turns: str) -> dict[str, Any]:
    roles = ("user", "assistant") * len(turns)
    return {"messages": [{"role": role, "content": text} for role, text in zip(roles, turns, strict=False)]}


@pytest.fixture
def check(caller: Caller, dataset_id: UUID, tmp_path: Path) -> Callable[..., Report]:
    def run(rows: Rows, **asked: Any) -> Report:
        view = data.check(caller, version(rows, **asked))
        assert view.problem is None
        assert view.report is not None
        return view.report

    def version(rows: Rows, files: dict[Split, Rows] | None = None, **asked: Any) -> UUID:
        others = {split: read(split.value, found) for split, found in (files or {}).items()}
        return data.draft(caller, read("main", rows), files=others, **asked)

    def read(name: str, rows: Rows) -> UUID:
        return data.read_import(caller, dataset_id, data.write_lines(tmp_path / f"{name}.jsonl", rows))

    return run


def splits_of(report: Report) -> dict[int, str]:
    """Row → split of the last checked draft."""
    (folder,) = store().fetch("versions/drafts").iterdir()
    return {
        row: split.value
        for split in Split
        for row in pq.read_table(folder / f"{split.value}.parquet").column("row").to_pylist()
    }


TRAIN_FILE = [chat(f"What does stall {n} sell?", f"Stall {n} sells {say(n, 4)}.") for n in range(30)]
"""Rows 1 to 30; rows 31 to 33 repeat 5, 9 and 9, row 34 answers the question of row 7 otherwise."""
TRAIN_FILE += [TRAIN_FILE[4], TRAIN_FILE[8], TRAIN_FILE[8], chat("What does stall 6 sell?", "Nothing at all.")]


def test_a_test_file_that_holds_training_rows_is_named_by_number_and_in_which_way(check: Callable[..., Report]) -> None:
    test_file = [
        TRAIN_FILE[11],
        chat("Is there a market on Monday?", "No, on Friday."),
        chat("  WHAT does stall 2 sell? ", f"Stall  2 sells {say(2, 4).upper()}."),
        TRAIN_FILE[33],
        chat("Where is the fountain?", "Behind the town hall."),
    ]

    report = check(TRAIN_FILE, shares=Counts(validation=4, test=0), files={Split.TEST: test_file}, keep=Keep.COPIES)

    counts = {(one.likeness, one.split, one.against): (one.rows, one.of) for one in report.repeats}
    known = [
        sum(rows for (likeness, split, against), (rows, _) in counts.items() if (likeness, split) == (kind, Split.TEST))
        for kind in (Likeness.EXACT, Likeness.COPY)
    ]
    assert report.rows == {"train": 30, "validation": 4, "test": 5}
    assert known == [2, 1]
    assert all(of == 5 for (_, split, _), (_, of) in counts.items() if split is Split.TEST)
    named = [
        pair
        for one in report.repeats
        if one.split is Split.TEST and one.likeness is Likeness.EXACT
        for pair in one.shown
    ]
    assert sorted(named) == [(1, 12), (4, 34)]


def test_exact_copies_inside_training_are_listed_with_the_row_that_they_repeat(check: Callable[..., Report]) -> None:
    report = check(TRAIN_FILE, shares=Counts(validation=4, test=4))

    inside = {pair for one in report.repeats if one.likeness is Likeness.EXACT for pair in one.shown}
    assert inside == {(31, 5), (32, 9), (33, 9)}
    assert not any(one.is_leak for one in report.repeats)


@pytest.mark.parametrize("seed", range(6))
def test_no_seed_puts_copies_or_unrolled_conversations_on_two_sides(check: Callable[..., Report], seed: int) -> None:
    rows = []
    for n in range(12):
        turns = [f"Question {n}-1", f"Answer {say(n, 3)}", f"Question {n}-2", f"Answer {say(n + 50, 3)}"]
        rows += [talk(*turns), talk(*turns[:2]), talk(turns[0].upper(), f" {turns[1]}")]

    report = check(rows, shares=Fractions(0.6, 0.2, 0.2), seed=seed)

    assert not any(one.is_leak for one in report.repeats)
    where = splits_of(report)
    assert all(len({where[3 * n + k] for k in (1, 2, 3)}) == 1 for n in range(12))
    assert sum(one.rows for one in report.repeats if one.likeness is Likeness.BEGINNING) == 12
    assert sum(one.rows for one in report.repeats if one.likeness is Likeness.COPY) == 12


def test_conversations_that_begin_alike_are_a_leak_where_only_copies_are_kept_together(
    check: Callable[..., Report],
) -> None:
    turns = ["Which bus?", "Bus 4.", "And back?", "Bus 9."]
    filler = [chat(f"Filler {n}", say(n)) for n in range(8)]

    report = check(
        [talk(*turns), *filler],
        shares=Counts(validation=2, test=0),
        keep=Keep.COPIES,
        files={Split.TEST: [talk(*turns[:2]), chat("Other", "row")]},
    )

    (leak,) = [one for one in report.repeats if one.is_leak]
    assert (leak.likeness, leak.rows, leak.of, list(leak.shown)) == (Likeness.BEGINNING, 1, 2, [(1, 1)])
    assert leak.sentence.startswith("1 of 2 test rows repeats ")
    assert leak.sentence.endswith("rows as the beginning of a conversation: 1 (of 1).")


def test_nearly_equal_rows_are_told_and_kept_together_where_asked(check: Callable[..., Report]) -> None:
    rows = [chat(f"Tell me about {n}", say(n)) for n in range(20)]
    rows += [chat(f"Tell me about {n}", f"{say(n)} indeed") for n in range(20)]

    report = check(rows, shares=Fractions(0.5, 0.25, 0.25), keep=Keep.NEAR)

    where = splits_of(report)
    assert all(where[n] == where[n + 20] for n in range(1, 21))
    assert sum(one.rows for one in report.repeats if one.likeness is Likeness.NEAR) == 20
    assert not any(one.is_leak for one in report.repeats)


def test_rows_of_one_customer_stay_together(check: Callable[..., Report]) -> None:
    rows = [{**chat(f"Order {n}", say(n)), "customer": n % 9} for n in range(45)]

    report = check(rows, shares=Fractions(0.6, 0.2, 0.2), group_by="customer")

    where = splits_of(report)
    assert all(len({where[row] for row in range(1, 46) if (row - 1) % 9 == one}) == 1 for one in range(9))
    assert report.rows == {"train": 25, "validation": 10, "test": 10}


def test_every_label_has_its_share_of_the_test_rows(check: Callable[..., Report]) -> None:
    rows = [chat(f"Ticket {say(n)}", "rare" if n % 10 == 0 else "usual") for n in range(200)]

    report = check(rows, shares=Fractions(0.8, 0.1, 0.1), stratify_by="reply")

    where = splits_of(report)
    rare = [where[n + 1] for n in range(0, 200, 10)]
    assert report.rows == {"train": 160, "validation": 20, "test": 20}
    assert [rare.count(split.value) for split in Split] == [16, 2, 2]


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"group_by": "client"}, "No row has the field “client”. Name one that the rows have."),
        ({"stratify_by": "topic"}, "“topic” has no value in any row. Name a field with few values."),
        ({"stratify_by": "id"}, "“id” has 201 different values, and 200 at most can be divided alike."),
    ],
)
def test_a_field_that_cannot_decide_is_a_problem_in_a_sentence(
    caller: Caller, dataset_id: UUID, tmp_path: Path, asked: dict[str, str], problem: str
) -> None:
    rows = [{**chat(f"Ticket {n}", say(n, 5)), "id": str(n)} for n in range(201)]
    import_id = data.read_import(caller, dataset_id, data.write_lines(tmp_path / "a.jsonl", rows))

    view = data.check(caller, data.draft(caller, import_id, **asked))

    assert view.problem is not None
    assert view.problem.startswith(problem)


def test_a_value_without_test_rows_is_said(check: Callable[..., Report]) -> None:
    rows = [{**chat(f"Ticket {n}", say(n, 5)), "topic": "odd" if n == 3 else "even"} for n in range(40)]

    report = check(rows, shares=Fractions(), stratify_by="topic")

    assert "1 of 2 values have too few rows to stand in the test rows: “odd”." in report.warnings


class TestSketches:
    @staticmethod
    def likeness(one: str, other: str) -> float:
        left, right = ({text[n : n + 5] for n in range(len(text) - 4)} for text in (one, other))
        return len(left & right) / len(left | right)

    def find(self, tmp_path: Path, texts: list[str]) -> set[tuple[int, int]]:
        with NearRows(tmp_path / "sketches") as near:
            for start in range(0, len(texts), 7):
                near.add(texts[start : start + 7])
            return set(near.pairs(lambda _: 0, lambda _: None))

    def test_pairs_clearly_above_the_threshold_are_found_and_none_clearly_below(self, tmp_path: Path) -> None:
        chance = random.Random(3)
        texts = []
        for n in range(200):
            words = say(n).split()
            other = list(words)
            for _ in range(n % 12):
                other[chance.randrange(len(other))] = chance.choice(WORDS)
            texts += ["".join(words), "".join(other)]

        found = self.find(tmp_path, texts)

        truth = {(n + 1, n): self.likeness(texts[n], texts[n + 1]) for n in range(0, 400, 2)}
        assert all(pair in found for pair, likeness in truth.items() if likeness >= 0.93)
        assert all(self.likeness(texts[one], texts[other]) > 0.65 for one, other in found)
        assert sum(pair in found for pair in truth) > 50

    def test_a_thousand_rows_of_one_pattern_cost_no_million_comparisons(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        compared: list[tuple[int, int]] = []
        real = near_rows._likeness
        monkeypatch.setattr(
            near_rows, "_likeness", lambda file, one, other: (compared.append((one, other)), real(file, one, other))[1]
        )
        pattern = say(1, 200).replace(" ", "")

        found = self.find(tmp_path, [f"{pattern}{n}" for n in range(1000)])

        assert {row for row, _ in found} == set(range(1, 1000))
        assert len(compared) <= 21 * 2 * 1000

    def test_letters_of_any_script_and_empty_rows_are_taken(self, tmp_path: Path) -> None:
        text = "東京の市場は金曜日に開きます。魚と野菜と花があります。朝は早いです。"

        assert self.find(tmp_path, ["", "a", text + "よ", text, "b"]) == {(3, 2)}
