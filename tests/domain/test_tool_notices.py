"""Calls against the tools of their row: what plainly contradicts them is named by place, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tensorant_app.domain.data_codes import NoticeCode, RowCode
from tensorant_app.domain.datasets import Record, Row, RowError, read_record
from tensorant_app.domain.layouts import ColumnMapping, Layout
from tensorant_app.domain.notices import notices_of

PARAMETERS = {
    "type": "object",
    "properties": {
        "pier": {"type": "string", "enum": ["north", "south"]},
        "knots": {"type": ["integer", "null"]},
        "boats": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    },
    "required": ["pier"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "moor", "parameters": PARAMETERS}}]


def call(arguments: object, name: str = "moor", id_: str | None = "c1") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def row(calls: list[dict[str, Any]], answers: list[str | None], **more: object) -> dict[str, Any]:
    said = [{"role": "tool", "content": "ok", **({"tool_call_id": one} if one else {})} for one in answers]
    return {
        "messages": [
            {"role": "user", "content": "Moor the boat."},
            {"role": "assistant", "content": None, "tool_calls": calls},
            *said,
            {"role": "assistant", "content": "It is moored."},
        ],
        **more,
    }


def read(value: dict[str, Any]) -> Row | tuple[RowError, ...]:
    return read_record(Record(1, 1, json.dumps(value)), ColumnMapping(Layout.CHAT))


def noticed(value: dict[str, Any]) -> list[tuple[str, NoticeCode]]:
    found = read(value)
    assert isinstance(found, Row)
    return [(one.path, one.code) for one in notices_of(found, [])]


ARGUMENTS = "messages[1].tool_calls[0].function.arguments"
MISFITS: dict[str, tuple[object, str]] = {
    "a value of another type": ('{"pier": 7}', ".pier"),
    "true for a number": ('{"pier": "north", "knots": true}', ".knots"),
    "a fraction for a whole number": ('{"pier": "north", "knots": 2.5}', ".knots"),
    "a required one missing": ("{}", ""),
    "arguments left out": ("", ""),
    "one that no tool declares": ({"pier": "north", "sail": 1}, ".sail"),
    "a value outside the choice": ('{"pier": "west"}', ".pier"),
    "a fault deep inside": ({"pier": "north", "boats": [{"name": "a"}, {}]}, ".boats[1]"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_arguments_that_contradict_the_declared_parameters_are_named_by_place(name: str) -> None:
    arguments, place = MISFITS[name]

    assert noticed(row([call(arguments)], ["c1"], tools=TOOLS)) == [(ARGUMENTS + place, NoticeCode.CALL_MISMATCH)]


@pytest.mark.parametrize(
    "arguments",
    ['{"pier": "north"}', {"pier": "south", "knots": None}, {"pier": "south", "knots": 3.0, "boats": [{"name": 1}]}],
)
def test_arguments_that_fit_are_left_alone(arguments: object) -> None:
    assert noticed(row([call(arguments)], ["c1"], tools=TOOLS)) == []


@pytest.mark.parametrize(
    "parameters",
    [None, {}, {"pier": {"type": "str"}}, {"type": "object", "properties": {"pier": {"$ref": "#/x"}}}],
)
def test_what_a_schema_does_not_plainly_say_contradicts_nothing(parameters: object) -> None:
    tools = [{"name": "moor", "parameters": parameters}]

    assert noticed(row([call('{"pier": 7, "sail": []}')], ["c1"], tools=tools)) == []


def test_parameters_that_are_no_schema_are_named() -> None:
    tools = [{"type": "function", "function": {"name": "moor", "parameters": "pier"}}]

    assert noticed(row([call("{}")], ["c1"], tools=tools)) == [("tools[0].function.parameters", NoticeCode.ODD_TOOL)]


def test_a_call_in_a_row_without_tools_is_named_and_one_beside_an_empty_list_is_undeclared() -> None:
    silent, empty = row([call("{}")], ["c1"]), read(row([call("{}")], ["c1"], tools=[]))

    assert noticed(silent) == [("messages[1].tool_calls[0].function.name", NoticeCode.UNDECLARED_CALL)]
    assert not isinstance(empty, Row)
    assert [(one.path, one.code) for one in empty] == [
        ("messages[1].tool_calls[0].function.name", RowCode.UNKNOWN_TOOL)
    ]


GOOD = '{"pier": "north"}'
ANSWERS: dict[str, tuple[list[str | None], list[str | None], list[str]]] = {
    "all answered in any order": (["a", "b"], ["b", "a"], []),
    "the second one left": (["a", "b"], ["a"], ["messages[1].tool_calls[1]"]),
    "the first one left": (["a", "b"], ["b"], ["messages[1].tool_calls[0]"]),
    "one without an id left": ([None, None], [None], ["messages[1].tool_calls[1]"]),
    "none answered": (["a", "b"], [], ["messages[1]"]),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_call_without_an_answer_is_named_beside_answered_ones(name: str) -> None:
    ids, answers, unanswered = ANSWERS[name]

    found = noticed(row([call(GOOD, id_=one) for one in ids], answers, tools=TOOLS))

    assert [path for path, code in found if code is NoticeCode.UNANSWERED_CALL] == unanswered


def test_two_calls_of_one_id_are_named() -> None:
    found = noticed(row([call(GOOD), call(GOOD)], ["c1", "c1"], tools=TOOLS))

    assert found == [("messages[1].tool_calls[1].id", NoticeCode.REPEATED_CALL_ID)]


def test_a_weight_that_nothing_learns_is_named() -> None:
    value = row([call(GOOD)], ["c1"], tools=TOOLS)
    value["messages"][0]["weight"] = 1

    assert noticed(value) == [("messages[0].weight", NoticeCode.IDLE_WEIGHT)]
