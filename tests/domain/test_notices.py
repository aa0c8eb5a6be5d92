"""What is odd in a row is named by its field, once, and blocks nothing."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tensorant_app.domain.data_codes import NoticeCode
from tensorant_app.domain.datasets import Record, Row, read_record
from tensorant_app.domain.layouts import ColumnMapping, Layout
from tensorant_app.domain.notices import COMMON_TOKENS, find_characters, notices_of, token_finder

CALL = {"id": "c1", "function": {"name": "wind", "arguments": '{"at": "a\\u200bb"}'}}


def said(role: str, content: object, **more: object) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def read(*messages: dict[str, Any], layout: Layout = Layout.CHAT, **more: object) -> Row:
    body = json.dumps({"messages": messages, **more} if messages else more)
    row = read_record(Record(3, 5, body), ColumnMapping(layout))
    assert isinstance(row, Row)
    return row


def noticed(row: Row) -> list[tuple[str, NoticeCode]]:
    found = list(notices_of(row, [find_characters, token_finder(COMMON_TOKENS)]))
    assert all(one.message.startswith(f"Row 3 (line 5): {one.path} ") for one in found)
    return [(one.path, one.code) for one in found]


ODD = {
    "a\u200bb": NoticeCode.INVISIBLE,
    "a\u202eb": NoticeCode.INVISIBLE,
    "a\x07b": NoticeCode.CONTROL_CHARACTER,
    "a\x92b": NoticeCode.CONTROL_CHARACTER,
    "caf\ufffd": NoticeCode.CONTROL_CHARACTER,
    "a<br/>b": NoticeCode.HTML,
    '<a href="x">b</a>': NoticeCode.HTML,
    "a&nbsp;b": NoticeCode.HTML,
    **dict.fromkeys(
        (
            "<!-- note -->",
            "<!DOCTYPE html>",
            "<blockquote>x",
            "x<sup>2</sup>",
            '<meta charset="utf-8">',
            "<link rel=x href='a.css'>",
            "<details open>",
            "<svg width=1 />",
            "<input disabled>",
            "a<br>b",
            "caf&eacute;",
            "&copy; roofers",
            "it&apos;s",
            "it&#x27;s",
            "slate &mdash; or tile&hellip;",
        ),
        NoticeCode.HTML,
    ),
    **dict.fromkeys(
        (
            "la\u200ctin",
            "la\u200dtin",
            "a\u061cb",
            "a\u180eb",
            "a\u3164b",
            "a\u034fb",
            "a\u2800b",
            "\u200dمن",
            "👩\u200d",
            "a\U000e0067\U000e0062b",
        ),
        NoticeCode.INVISIBLE,
    ),
    "stop<|im_end|>": NoticeCode.CONTROL_TOKEN,
    "[INST] go": NoticeCode.CONTROL_TOKEN,
    "...": NoticeCode.PLACEHOLDER,
    "TODO": NoticeCode.PLACEHOLDER,
    "N/A.": NoticeCode.PLACEHOLDER,
}


@pytest.mark.parametrize("text", ODD)
def test_an_odd_reply_is_named(text: str) -> None:
    assert noticed(read(said("user", "Go on?"), said("assistant", text))) == [("messages[1].content", ODD[text])]


@pytest.mark.parametrize(
    "text",
    [
        "None.",
        "42",
        "Yes.",
        "👩🏽‍🍳",
        "می‌خواهم",
        "a < b and c > d",
        "if x<y: print(a&b)",
        "tab\tand\nline",
        "x\u2028y",
        "R&D",
        "a<b && c>d",
        "if a <b and c> d",
        "List<a>, Map<i, p> and Option<link>",
        "y = &sum; z = &times;",
        "<my-tag> and <T>",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "🏳️\u200d🌈 👨\u200d👩\u200d👧",
        "क्\u200dष",
    ],
)
def test_an_ordinary_reply_is_left_alone(text: str) -> None:
    assert noticed(read(said("user", "Go on?"), said("assistant", text))) == []


@pytest.mark.parametrize("piece", ["<a ", '<a x="', "<", "&a", "<a x=y ", "&#1", "a\u200c", "<!-"])
def test_no_text_takes_long(piece: str) -> None:
    started = time.process_time()

    list(find_characters(piece * (200_000 // len(piece))))

    assert time.process_time() - started < 5


def test_calls_and_tools_are_looked_at_as_well() -> None:
    row = read(
        said("user", ""),
        said("assistant", None, tool_calls=[CALL]),
        said("user", "x"),
        said("user", "y"),
        said("system", "z"),
        said("assistant", "w"),
        tools=[{"name": "wind", "description": "<b>wind</b>"}],
    )

    assert set(noticed(row)) == {
        ("messages[0].content", NoticeCode.EMPTY_QUESTION),
        ("messages[1]", NoticeCode.UNANSWERED_CALL),
        ("messages[3]", NoticeCode.SAME_ROLE_AGAIN),
        ("messages[4]", NoticeCode.LATE_SYSTEM),
        ("tools[0].description", NoticeCode.HTML),
    }


def test_a_reply_in_another_script_than_its_question_is_named() -> None:
    question = "Please tell me when the shop opens today."
    russian, chinese = "Магазин открывается в девять часов утра.", "商店上午九点开门营业。"

    mixed = "messages[1].content", NoticeCode.MIXED_SCRIPTS
    assert noticed(read(said("user", question), said("assistant", russian))) == [mixed]
    assert noticed(read(said("user", question), said("assistant", chinese))) == [mixed]
    assert noticed(read(said("user", "When? " + russian), said("assistant", russian))) == []
    assert noticed(read(said("user", question), said("assistant", "Да."))) == []
    assert noticed(read(said("user", f"Translate into Russian: {question}"), said("assistant", russian))) == []
    assert noticed(read(said("system", "Answer in Russian."), said("user", question), said("assistant", russian))) == []
    assert noticed(read(said("user", f"Ответь по-английски: {russian}"), said("assistant", question))) == []
    assert noticed(read(said("user", f"In a Russian shop. {question}"), said("assistant", russian))) == [mixed]
    code = "```python\nprint('the shop opens at nine')\n```"
    assert noticed(read(said("user", russian), said("assistant", code))) == []


def test_a_place_is_named_as_it_stands_in_the_file() -> None:
    row = read(
        layout=Layout.SHAREGPT,
        system="a\u200bb",
        conversations=[{"from": "human", "value": "x<br>"}, {"from": "gpt", "value": "..."}],
    )

    assert set(noticed(row)) == {
        ("system", NoticeCode.INVISIBLE),
        ("conversations[0].value", NoticeCode.HTML),
        ("conversations[1].value", NoticeCode.PLACEHOLDER),
    }


def test_a_call_is_named_where_the_file_has_it_whatever_stands_before() -> None:
    wind = {"name": "wind", "parameters": {"type": "object", "properties": {"at": {"type": "number"}}}}
    wrong = {"name": "wind", "arguments": '{"at": "pier"}'}
    asked = said("user", "x")
    rows = [
        read(asked, said("assistant", None, tool_calls=[{"function": wrong}]), system="S", tools=[wind]),
        read(asked, said("assistant", None, function_call=wrong), tools=[wind]),
        read(
            layout=Layout.PROMPT,
            prompt=[asked],
            completion=[said("assistant", "\u200bx", tool_calls=[{"function": wrong}])],
            tools=[wind],
        ),
        read(
            layout=Layout.SHAREGPT,
            conversations=[
                {"from": "human", "value": "x"},
                {"from": "function_call", "value": json.dumps(wrong)},
            ],
            tools=[wind],
        ),
    ]

    assert [noticed(row) for row in rows] == [
        [("messages[1].tool_calls[0].function.arguments.at", NoticeCode.CALL_MISMATCH)],
        [("messages[1].function_call.arguments.at", NoticeCode.CALL_MISMATCH)],
        [
            ("completion[0].tool_calls[0].function.arguments.at", NoticeCode.CALL_MISMATCH),
            ("completion[0].content", NoticeCode.INVISIBLE),
        ],
        [("conversations[1].value", NoticeCode.CALL_MISMATCH)],
    ]
