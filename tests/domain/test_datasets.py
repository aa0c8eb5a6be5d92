"""Reading chat files: every good row once, every fault with its place, and no crash on any bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorant_app.domain.copies import Duplicate, find_duplicates
from tensorant_app.domain.data_codes import RowCode
from tensorant_app.domain.datasets import FAULT_LIMIT, ROW_LIMIT, FileError, Record, Row, RowError, read_record
from tensorant_app.domain.json_lines import Tally, read_json_lines
from tensorant_app.domain.json_values import DEPTH_LIMIT
from tensorant_app.domain.layouts import ColumnMapping, Layout

GOOD = '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}'


def chat(*messages: object, **more: object) -> str:
    return json.dumps({"messages": list(messages), **more})


def said(role: str, content: object, **more: object) -> dict[str, object]:
    return {"role": role, "content": content, **more}


ASK, REPLY = said("user", "Hi"), said("assistant", "Hello")
CALL = {"id": "c1", "type": "function", "function": {"name": "wind", "arguments": '{"at": "pier"}'}}
TOOL = {"type": "function", "function": {"name": "wind"}}


def call(**function: object) -> dict[str, object]:
    return said("assistant", None, tool_calls=[{"id": "c1", "function": function}])


CHAT = ColumnMapping(Layout.CHAT)


def read(*lines: bytes | str) -> list[Row | RowError | FileError]:
    """Lines without ends get one."""
    raw = [line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line for line in lines]
    return read_text(*(line if line.endswith(b"\n") else line + b"\n" for line in raw))


def read_text(*chunks: bytes) -> list[Row | RowError | FileError]:
    found: list[Row | RowError | FileError] = []
    for record in read_json_lines(chunks, Tally()):
        if isinstance(record, FileError):
            found.append(record)
            continue
        row = read_record(record, CHAT)
        found += [row] if isinstance(row, Row) else row
    return found


def errors_of(line: bytes | str) -> list[tuple[str, RowCode]]:
    """Path and code of each fault of a line that comes after a good one."""
    return [(found.path, found.code) for found in read(GOOD, line) if isinstance(found, RowError)]


def test_rows_are_numbered_without_blank_lines_and_lines_with_them() -> None:
    found = read(GOOD.encode() + b"\r\n", b"\r\n", b"  \n", GOOD.encode())

    assert [(row.row, row.line) for row in found if isinstance(row, Row)] == [(1, 1), (2, 4)]
    assert len(found) == 2


def test_text_stays_as_it_was_written_even_with_unicode_line_separators() -> None:
    content = 'two\u2028lines\u0085and é, 👩🏽‍🍳 \\ " \t end '

    (row,) = read((chat(ASK, said("assistant", content)) + "\r\n").encode())

    assert isinstance(row, Row)
    assert json.loads(row.example)["messages"][1]["content"] == content


def test_unknown_keys_and_the_order_of_keys_are_kept() -> None:
    line = '{"source": {"z": 1, "a": [null, true]}, ' + GOOD[1:]

    (row,) = read(line)

    assert isinstance(row, Row)
    assert json.loads(row.example) == json.loads(line)
    assert '"source":{"z":1,"a":[null,true]}' in row.example


def test_rows_that_differ_only_in_writing_have_the_same_hash() -> None:
    same = '{"messages":[{"content":"\\u0048i","role":"user"},{"content":"Hello","role":"assistant"}]}'
    other = GOOD.replace("Hello", "hello")

    first, second, third = read(GOOD, same, other)

    assert isinstance(first, Row)
    assert isinstance(second, Row)
    assert isinstance(third, Row)
    assert first.sha256 == second.sha256 != third.sha256


BROKEN_LINES = {
    "half a UTF-8 character": (b'{"messages": "\xc3"}', "", RowCode.NOT_UTF8, "byte 15"),
    "a comma too many": (GOOD[:-1] + ",}", "", RowCode.NOT_JSON, "comma too many"),
    "an inner quotation mark": (GOOD.replace("Hi", 'a "b" c'), "", RowCode.NOT_JSON, "quotation mark inside"),
    "single quotation marks": ("{'messages': []}", "", RowCode.NOT_JSON, "column 2"),
    "a line cut off in a text": (GOOD[:40], "", RowCode.CUT_OFF, "cut off"),
    "a line cut off between texts": (GOOD[:-2], "", RowCode.CUT_OFF, "cut off"),
    "a number of 5,000 digits": ('{"n": ' + "1" * 5000 + "}", "", RowCode.NUMBER_TOO_LARGE, "digits"),
    "a number beyond 64 bits": ('{"n": 9223372036854775808, ' + GOOD[1:], "n", RowCode.NUMBER_TOO_LARGE, "64 bits"),
    "a closing bracket too many": (GOOD + "}", "", RowCode.NOT_JSON, "} closes nothing"),
    "a comment behind": (GOOD + " // checked", "", RowCode.NOT_JSON, "comment"),
    "a comment alone": ("# checked by Mara", "", RowCode.NOT_JSON, "comment"),
    "a no-break space behind": (GOOD + "\u00a0", "", RowCode.NOT_JSON, "U+00A0"),
    "Python's None": ('{"n": None, ' + GOOD[1:], "", RowCode.NOT_JSON, "Python writes None, and JSON null"),
    "a typographic quotation mark": ("{\u201cmessages\u201d: []}", "", RowCode.NOT_JSON, "typographic"),
    "a key without quotation marks": ("{messages: []}", "", RowCode.NOT_JSON, "key stands in double quotation marks"),
    "a path of Windows": (GOOD.replace("Hi", "C:\\data"), "", RowCode.NOT_JSON, "backslash"),
    "a tab in a text": (GOOD.replace("Hi", "a\tb"), "", RowCode.NOT_JSON, "U+0009"),
    "NUL in a text": (GOOD.replace("Hi", "a\0b"), "", RowCode.NOT_JSON, "NUL stands"),
    "a number that begins with 0": ('{"n": 007, ' + GOOD[1:], "", RowCode.NOT_JSON, "begins with no 0"),
    "a number that begins with a point": ('{"n": .5, ' + GOOD[1:], "", RowCode.NOT_JSON, "begins with a digit"),
    "a row without its beginning": (GOOD[1:], "", RowCode.NOT_JSON, "the row begins with"),
    "the end of a text over two lines": ('2"}]}', "", RowCode.NOT_JSON, 'begins with "2"'),
    "two objects on a line": (GOOD + " " + GOOD, "", RowCode.SEVERAL_VALUES, "line of its own"),
    "a text": ('"messages"', "", RowCode.NOT_OBJECT, "a text instead"),
    "NaN": ('{"score": NaN, ' + GOOD[1:], "score", RowCode.NOT_FINITE, "score"),
    "an infinite number": ('{"score": 1e999, ' + GOOD[1:], "score", RowCode.NOT_FINITE, "score"),
    "a repeated key": (
        GOOD.replace('"Hello"', '"a", "content": "b"'),
        "messages[1]",
        RowCode.REPEATED_KEY,
        '"content"',
    ),
    "half an emoji": (GOOD.replace("Hello", "\\ud83d"), "messages[1].content", RowCode.BAD_CHARACTER, "surrogate"),
    "NUL": (GOOD.replace("Hello", "\\u0000"), "messages[1].content", RowCode.BAD_CHARACTER, "NUL"),
    "half an emoji in a key": ('{"\\ud83d": 1, ' + GOOD[1:], "", RowCode.BAD_CHARACTER, "surrogate"),
    "too many levels": (
        '{"x": ' + "[" * DEPTH_LIMIT + "]" * DEPTH_LIMIT + ", " + GOOD[1:],
        None,
        RowCode.TOO_DEEP,
        "64",
    ),
    "very many levels": ('{"x": ' + "[" * 100_000, "", RowCode.TOO_DEEP, "64"),
}


@pytest.mark.parametrize("name", BROKEN_LINES)
def test_a_broken_line_is_named_by_row_line_place_and_reason(name: str) -> None:
    line, path, code, word = BROKEN_LINES[name]

    _, error = read(GOOD, line)

    assert isinstance(error, RowError)
    assert (error.row, error.line, error.code) == (2, 2, code)
    assert path is None or error.path == path
    assert error.message.startswith("Row 2 (line 2): ")
    assert word in error.message
    error.message.encode()


BAD_CHATS = {
    "no messages": ("{}", "messages", RowCode.NO_MESSAGES),
    "another layout": ('{"conversations": []}', "messages", RowCode.NO_MESSAGES),
    "an empty list": (chat(), "messages", RowCode.NO_MESSAGES),
    "messages as text": ('{"messages": "Hi"}', "messages", RowCode.NO_MESSAGES),
    "a message as text": (chat("Hi", REPLY), "messages[0]", RowCode.BAD_MESSAGE),
    "an unknown role": (chat(said("moderator", "x"), REPLY), "messages[0].role", RowCode.BAD_ROLE),
    "a role that is a list": (
        chat(said("user", "x") | {"role": ["user"]}, REPLY),
        "messages[0].role",
        RowCode.BAD_ROLE,
    ),
    "no content": (chat({"role": "user"}, REPLY), "messages[0].content", RowCode.BAD_CONTENT),
    "a part without its text": (
        chat(said("user", [{"type": "text"}]), REPLY),
        "messages[0].content[0]",
        RowCode.BAD_CONTENT,
    ),
    "an image": (
        chat(said("user", [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "x"}}]), REPLY),
        "messages[0].content[1]",
        RowCode.IMAGE_IN_TEXT,
    ),
    "a number as reply": (chat(ASK, said("assistant", 7)), "messages[1].content", RowCode.BAD_CONTENT),
    "an empty reply": (chat(ASK, said("assistant", "")), "messages[1].content", RowCode.EMPTY_REPLY),
    "a blank reply": (chat(ASK, said("assistant", " \n")), "messages[1].content", RowCode.EMPTY_REPLY),
    "a reply of null": (chat(ASK, said("assistant", None)), "messages[1].content", RowCode.EMPTY_REPLY),
    "a blank reply with an empty list of calls": (
        chat(ASK, said("assistant", "", tool_calls=[])),
        "messages[1].content",
        RowCode.EMPTY_REPLY,
    ),
    "no reply": (chat(ASK), "messages", RowCode.NO_REPLY),
    "a question at the end": (chat(ASK, REPLY, ASK), "messages[2]", RowCode.LAST_NOT_REPLY),
    "the assistant first": (chat(said("system", "x"), REPLY, ASK, REPLY), "messages[1].role", RowCode.BAD_ORDER),
    "half a weight": (chat(ASK, said("assistant", "x", weight=0.5)), "messages[1].weight", RowCode.BAD_WEIGHT),
    "a weight that is no number": (
        chat(ASK, said("assistant", "x", weight=True)),
        "messages[1].weight",
        RowCode.BAD_WEIGHT,
    ),
    "no reply with a weight": (chat(ASK, said("assistant", "x", weight=0)), "messages", RowCode.NO_TRAINED_REPLY),
    "calls as text": (
        chat(ASK, said("assistant", "x", tool_calls="wind")),
        "messages[1].tool_calls",
        RowCode.BAD_CALL,
    ),
    "a call without a name": (chat(ASK, call(arguments="{}")), "messages[1].tool_calls[0].function", RowCode.BAD_CALL),
    "arguments that are no JSON": (
        chat(ASK, call(name="wind", arguments="{at: pier}")),
        "messages[1].tool_calls[0].function.arguments",
        RowCode.BAD_CALL,
    ),
    "a call of no known tool": (
        chat(ASK, call(name="tide", arguments="{}"), tools=[TOOL]),
        "messages[1].tool_calls[0].function.name",
        RowCode.UNKNOWN_TOOL,
    ),
    "a result without its call": (chat(ASK, said("tool", "3"), REPLY), "messages[1].role", RowCode.BAD_ORDER),
    "a result that names no call": (
        chat(ASK, said("assistant", None, tool_calls=[CALL]), said("tool", "3"), REPLY),
        "messages[2].tool_call_id",
        RowCode.UNKNOWN_CALL,
    ),
    "a result that names another call": (
        chat(ASK, said("assistant", None, tool_calls=[CALL]), said("tool", "3", tool_call_id="c2"), REPLY),
        "messages[2].tool_call_id",
        RowCode.UNKNOWN_CALL,
    ),
    "two tools of one name": (chat(ASK, REPLY, tools=[TOOL, TOOL]), "tools", RowCode.BAD_TOOLS),
    "an old call that is no JSON": (
        chat(ASK, said("assistant", None, function_call={"name": "wind", "arguments": "{"})),
        "messages[1].function_call.arguments",
        RowCode.BAD_CALL,
    ),
    "a call without a letter in its name": (
        chat(ASK, call(name=" ", arguments="{}")),
        "messages[1].tool_calls[0].function",
        RowCode.BAD_CALL,
    ),
    "a call beside an empty list of tools": (
        chat(ASK, call(name="wind", arguments="{}"), tools=[]),
        "messages[1].tool_calls[0].function.name",
        RowCode.UNKNOWN_TOOL,
    ),
    "an answer of another function": (
        chat(ASK, said("assistant", None, function_call={"name": "wind"}), said("function", "3", name="tide"), REPLY),
        "messages[2].name",
        RowCode.UNKNOWN_CALL,
    ),
    "calls in both forms": (
        chat(ASK, said("assistant", None, function_call={"name": "tide"}, tool_calls=[CALL])),
        "messages[1].function_call",
        RowCode.BAD_CALL,
    ),
    "tools in both forms": (
        chat(ASK, REPLY, tools=[TOOL], functions=[{"name": "tide"}]),
        "functions",
        RowCode.BAD_TOOLS,
    ),
    "a question of no parts": (chat(said("user", []), REPLY), "messages[0].content", RowCode.BAD_CONTENT),
    "a list of images": (chat(said("user", "<image> Hi"), REPLY, images=["../a.png"]), "images", RowCode.IMAGE_IN_TEXT),
    "one image as text": (chat(ASK, REPLY, images="a.png"), "images", RowCode.IMAGE_IN_TEXT),
    "tools as text": (chat(ASK, REPLY, tools="wind"), "tools", RowCode.BAD_TOOLS),
}


@pytest.mark.parametrize("name", BAD_CHATS)
def test_a_chat_that_cannot_be_trained_is_named_by_field(name: str) -> None:
    line, path, code = BAD_CHATS[name]

    assert errors_of(line) == [(path, code)]


GOOD_CHATS = {
    "system and developer": chat(said("system", "Be brief."), said("developer", "Metric."), ASK, REPLY),
    "a tool call": chat(
        ASK, said("assistant", None, tool_calls=[CALL]), said("tool", "17", tool_call_id="c1"), REPLY, tools=[TOOL]
    ),
    "a call as the last reply": chat(ASK, {"role": "assistant", "tool_calls": [CALL]}),
    "arguments as an object": chat(ASK, call(name="wind", arguments={"at": "pier"})),
    "empty lists of tools": chat(ASK, said("assistant", "x", tool_calls=[]), tools=[]),
    "weights": chat(ASK, said("assistant", "x", weight=0), ASK, said("assistant", "y", weight=1)),
    "tool calls without ids": chat(
        ASK, said("assistant", "", tool_calls=[{"function": {"name": "wind"}}]), said("tool", "17"), REPLY
    ),
    "an empty question": chat(said("user", ""), REPLY),
}


@pytest.mark.parametrize("name", GOOD_CHATS)
def test_a_chat_that_can_be_trained_is_a_row(name: str) -> None:
    (row,) = read(GOOD_CHATS[name])

    assert isinstance(row, Row)
    written, stored = json.loads(GOOD_CHATS[name]), json.loads(row.example)
    for message in written["messages"]:
        message["role"] = message["role"].replace("developer", "system")
        message.setdefault("content", None)
    assert stored == written


def test_parts_developer_and_calls_of_the_old_form_become_what_training_reads() -> None:
    call = {"name": "wind", "arguments": "{}"}
    line = chat(
        said("developer", "Brief."),
        said("user", [{"type": "text", "text": "Wind "}, {"type": "text", "text": "now?"}]),
        said("assistant", None, function_call=call),
        said("function", "17", name="wind"),
        said("assistant", [{"type": "text", "text": "17 knots."}], name=None),
        functions=[{"name": "wind"}],
    )

    (row,) = read(line)

    assert isinstance(row, Row)
    assert json.loads(row.example) == {
        "messages": [
            {"role": "system", "content": "Brief."},
            {"role": "user", "content": "Wind now?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_2", "type": "function", "function": call}],
            },
            {"role": "tool", "content": "17", "name": "wind", "tool_call_id": "call_2"},
            {"role": "assistant", "content": "17 knots."},
        ],
        "tools": [{"name": "wind"}],
    }


PERSONAL = [
    "alice@example.com",
    "max@m\u00fcnchen.example",
    "+49 30 901820",
    "\uff0b49 30 901820",
    "4111 1111 1111 1111",
    "4111111111111111",
    "DE89370400440532013000",
    "GB29 NWBK 6016 1331 9268 19",
]


@pytest.mark.parametrize("private", PERSONAL)
def test_what_may_be_personal_is_hidden_wherever_a_value_or_a_name_is_shown(private: str) -> None:
    lines = [
        chat(ASK, REPLY | {"role": private}),
        chat(ASK, REPLY | {"role": {"of": [private]}}),
        chat(ASK, REPLY | {"weight": private}),
        chat(ASK, said("assistant", None, tool_calls=[CALL | {"function": {"name": private}}]), tools=[TOOL]),
        chat(ASK, said("assistant", None, tool_calls=[CALL]), said("tool", "3", tool_call_id=private), REPLY),
        json.dumps({"x": {private: float("nan")}, **json.loads(GOOD)}),
        json.dumps({private: "x"}),
        '{"a": {' + f'"{private}": 1, "{private}": 2' + "}, " + GOOD[1:],
    ]
    turns = {"conversations": [{"from": private, "value": "x"}, {"from": "gpt", "value": "y"}]}

    found = [*read(*lines), *read_record(Record(1, 1, json.dumps(turns)), ColumnMapping(Layout.SHAREGPT))]

    assert len(found) >= len(lines) + 1
    for one in found:
        assert isinstance(one, RowError)
        for text in (one.message, one.path):
            assert private not in text
            assert ascii(private)[1:-1] not in text
            assert sum(sign.isdigit() for sign in text) < 12


def test_every_fault_of_a_row_and_every_bad_row_is_named() -> None:
    two_faults = chat(said("moderator", 1), said("assistant", ""))

    found = read(GOOD, two_faults, "{", GOOD)

    named = [(item.row, item.path) for item in found if isinstance(item, RowError)]
    assert named == [(2, "messages[0].role"), (2, "messages[0].content"), (2, "messages[1].content"), (3, "")]
    assert [item.row for item in found if isinstance(item, Row)] == [1, 4]


def test_a_row_with_very_many_faults_lists_the_first_and_says_that_there_are_more() -> None:
    found = read(chat(*["x"] * 500))

    assert len(found) == FAULT_LIMIT + 1
    assert isinstance(found[-1], RowError)
    assert found[-1].message == "Row 1 (line 1): the row has more faults than are listed here."


def test_a_huge_line_among_good_ones_ends_the_reading_and_is_named() -> None:
    found = read(GOOD, b"x" * (ROW_LIMIT + 1), GOOD)

    assert [type(item) for item in found] == [Row, FileError]
    assert isinstance(found[1], FileError)
    assert "Line 2 is longer than 4 MiB" in found[1].message


def test_a_line_without_end_is_given_up_long_before_it_fills_the_memory() -> None:
    taken = 0

    def chunks() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * 1024 * 1024

    (last,) = read_json_lines(chunks(), Tally())

    assert isinstance(last, FileError)
    assert taken < 10


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_lines_may_end_in_any_way_and_be_cut_anywhere_while_read(end: bytes, size: int) -> None:
    text = end.join([GOOD.encode(), b"", b"  ", GOOD.encode(), b"{"]) + end
    tally = Tally()

    records = list(read_json_lines((text[n : n + size] for n in range(0, len(text), size)), tally))

    assert [(record.row, record.line) for record in records if not isinstance(record, FileError)] == [
        (1, 1),
        (2, 4),
        (3, 5),
    ]
    assert tally.blank_lines == 2


def test_a_carriage_return_between_the_parts_of_one_object_is_white_space() -> None:
    found = read(GOOD.replace(", ", ",\r"), GOOD)

    assert [(item.row, item.line) for item in found if isinstance(item, Row)] == [(1, 1), (2, 2)]


def test_rows_come_one_at_a_time() -> None:
    def chunks() -> Iterator[bytes]:
        yield GOOD.encode() + b"\n"
        raise AssertionError("read ahead")

    assert next(read_json_lines(chunks(), Tally())).row == 1  # type: ignore[union-attr]


def test_duplicates_are_named_with_the_first_row_of_that_content() -> None:
    rows = [(1, "a"), (2, "b"), (4, "a"), (7, "b"), (9, "a")]

    assert list(find_duplicates(rows)) == [Duplicate(4, 1), Duplicate(7, 2), Duplicate(9, 1)]


odd_texts = st.text(st.sampled_from('ab \n\0\ud83d\u200b"\\é'), max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | odd_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_texts, inner, max_size=3),
    max_leaves=6,
)
messages = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("role", "content", "tool_calls", "weight", "tool_call_id"), json_values)
)


def check_whole(found: list[Row | RowError | FileError]) -> None:
    for item in found:
        match item:
            case Row():
                item.example.encode()
                assert json.loads(item.example)["messages"]
            case RowError() | FileError():
                item.message.encode()


@given(st.lists(st.binary(max_size=80), max_size=30))
@settings(deadline=None)
def test_no_bytes_make_the_reader_crash(lines: list[bytes]) -> None:
    check_whole(read(*lines))


@given(st.lists(messages | json_values, max_size=4), json_values)
@settings(deadline=None, max_examples=200)
def test_no_json_makes_the_reader_crash_and_what_it_takes_can_be_stored(said: list[object], tools: object) -> None:
    check_whole(read(GOOD, chat(*said), chat(*said, REPLY, tools=tools)))


@given(st.integers(0, 2000), st.integers(0, 255))
@settings(deadline=None)
def test_a_damaged_byte_spoils_no_other_row(at: int, byte: int) -> None:
    damaged = bytearray(GOOD.encode())
    damaged[at % len(damaged)] = byte

    found = read(GOOD, bytes(damaged).replace(b"\n", b" "), GOOD)

    assert isinstance(found[0], Row)
    assert isinstance(found[-1], Row)
