"""The demo data: readable, balanced, without copies, and fit for the gate."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from importlib import resources

from tensorant_app.domain.copies import copy_key, find_duplicates
from tensorant_app.domain.datasets import Row
from tensorant_app.domain.labels import closed_set, single_answer
from tensorant_app.domain.notices import COMMON_TOKENS, notices_of
from tensorant_app.domain.safety import check_example
from tensorant_app.domain.splits import Counts, split_rows, warn_few_test_rows
from tensorant_app.services.data_check import finders_for
from tensorant_app.services.reading import Reading

DEMO = resources.files("tensorant_app") / "demo"
CATEGORIES = (
    *("act", "animal", "artifact", "body", "communication"),
    *("food", "location", "person", "plant", "substance"),
)


@cache
def demo_rows() -> list[Row]:
    with resources.as_file(DEMO / "glosses.jsonl") as path:
        found = list(Reading(path))
    rows = [item for item in found if isinstance(item, Row)]
    assert len(rows) == len(found), "a row has a fault"
    return rows


def test_every_row_can_be_trained_and_is_harmless() -> None:
    assert len(demo_rows()) == 1300
    assert not [
        row.row
        for row in demo_rows()
        if list(notices_of(row, finders_for(COMMON_TOKENS))) or check_example(row.example)
    ]


def test_every_category_has_as_many_rows() -> None:
    answers = Counter(single_answer(row.example) for row in demo_rows())

    assert answers == dict.fromkeys(CATEGORIES, 130)
    assert closed_set(answers.elements()) == CATEGORIES


def test_no_definition_stands_twice_even_under_another_category() -> None:
    keys = [(row.row, copy_key(row.example)) for row in demo_rows()]
    questions = {json.loads(row.example)["messages"][1]["content"].casefold() for row in demo_rows()}

    assert list(find_duplicates(keys)) == []
    assert len(questions) == 1300


def test_one_short_prompt_names_every_category_and_no_definition_names_its_own() -> None:
    chats = [json.loads(row.example)["messages"] for row in demo_rows()]

    (prompt,) = {messages[0]["content"] for messages in chats}
    assert all(category in prompt for category in CATEGORIES)
    assert len(prompt.split()) < 45
    assert not [said for _, said, label in chats if f" {label['content']} " in f" {said['content'].casefold()} "]


def test_it_splits_into_the_sizes_of_the_demo_with_a_test_split_that_decides() -> None:
    keys = [(row.row, copy_key(row.example)) for row in demo_rows()]

    splits = split_rows(keys, Counts(validation=100, test=200), seed=42)

    assert Counter(splits.values()) == {"train": 1000, "validation": 100, "test": 200}
    assert warn_few_test_rows(splits) is None


def test_the_licence_lies_beside_it() -> None:
    notice = (DEMO / "NOTICE-WordNet.txt").read_text()

    assert "WordNet 3.0 Copyright 2006 by Princeton University" in notice
    assert "Permission to use, copy, modify and distribute" in notice
