"""When answers count as a small closed set of labels."""

from __future__ import annotations

import json

import pytest

from tensorant_app.domain.labels import closed_set, single_answer

YES: dict[str, tuple[list[str | None], tuple[str, ...]]] = {
    "two labels": (["no", "yes", "no", "yes", "yes", "no"], ("no", "yes")),
    "blanks around them": ([" yes", "yes\n", "no", "yes", "no ", "no"], ("no", "yes")),
    "one of them seldom": (["a"] * 4 + ["b"] * 2, ("a", "b")),
    "twenty of three": ([str(n) for n in range(20)] * 3, tuple(sorted(str(n) for n in range(20)))),
    "forty characters": (["x" * 40, "y"] * 3, ("x" * 40, "y")),
}

NO: dict[str, list[str | None]] = {
    "no answers": [],
    "one label": ["yes"] * 50,
    "a label given once": ["a"] * 9 + ["b"] * 9 + ["c"],
    "two of each": ["a", "b", "c"] * 2,
    "twenty-one labels": [str(n) for n in range(21)] * 9,
    "forty-one characters": ["x" * 41, "y"] * 9,
    "two lines": ["a\nb", "c"] * 9,
    "an empty answer": ["a", "b"] * 9 + [" "],
    "a row of several turns": ["a", "b"] * 9 + [None],
}


@pytest.mark.parametrize("name", YES)
def test_answers_that_repeat_are_a_closed_set(name: str) -> None:
    answers, labels = YES[name]

    assert closed_set(answers) == labels


@pytest.mark.parametrize("name", NO)
def test_other_answers_are_none(name: str) -> None:
    assert closed_set(NO[name]) == ()


def test_the_order_of_answers_decides_nothing() -> None:
    answers = ["no", "yes", "maybe"] * 3

    assert closed_set(answers) == closed_set(answers[::-1]) == ("maybe", "no", "yes")


SYSTEM, ASK, REPLY = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "yes"},
)
SINGLE = {
    "one turn": ([SYSTEM, ASK, REPLY], "yes"),
    "two turns": ([ASK, REPLY, ASK, REPLY], None),
    "a tool call": ([ASK, {**REPLY, "tool_calls": [{"function": {"name": "wind"}}]}], None),
    "no text": ([ASK, {"role": "assistant", "tool_calls": [{}]}], None),
}


@pytest.mark.parametrize("name", SINGLE)
def test_a_single_answer_is_the_one_reply_of_a_row(name: str) -> None:
    messages, answer = SINGLE[name]

    assert single_answer(json.dumps({"messages": messages})) == answer
