"""Any file people really have: the same rows out of every kind, every fault in its place, every trap refused."""

from __future__ import annotations

import csv
import gzip
import io
import json
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorant_app.domain.data_codes import FileCode, NoticeCode, RowCode
from tensorant_app.domain.datasets import FileError, Notice, Row, RowError
from tensorant_app.domain.layouts import ColumnMapping, Layout
from tensorant_app.services import containers
from tensorant_app.services.reading import Found, Reading

PAIRS = [("How do I prune a pear?", "In winter, to an outward bud."), ("Größe?", "Zwei Meter – höchstens 🍐.")]


def chat(question: str, answer: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


CHATS = [chat(*pair) for pair in PAIRS]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in CHATS)


def read(path: Path, **options: Any) -> tuple[list[Found], Reading]:
    reading = Reading(path, **options)
    return list(reading), reading


def write(folder: Path, name: str, body: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(body.encode() if isinstance(body, str) else body)
    return path


def said(found: list[Found]) -> list[tuple[str, str]]:
    """Question and reply of each row."""
    rows = [json.loads(one.example)["messages"] for one in found if isinstance(one, Row)]
    return [(messages[-2]["content"], messages[-1]["content"]) for messages in rows]


def faults(found: list[Found]) -> list[tuple[int, int | None, str, RowCode]]:
    return [(one.row, one.line, one.path, one.code) for one in found if isinstance(one, RowError)]


def refusal(path: Path, **options: Any) -> FileError:
    found, _ = read(path, **options)
    assert isinstance(found[-1], FileError)
    return found[-1]


def table(separator: str, end: str = "\r\n") -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator=end)
    writer.writerows([("prompt", "completion"), *PAIRS])
    return text.getvalue().encode()


def zipped(*members: tuple[str, bytes]) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return body.getvalue()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    body = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), body)
    return body.getvalue()


def workbook(*rows: tuple[object, ...]) -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    for row in rows:
        book.active.append(row)
    body = io.BytesIO()
    book.save(body)
    return body.getvalue()


def sharegpt(question: str, answer: str) -> dict[str, Any]:
    return {"conversations": [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]}


FILES: dict[str, tuple[bytes | str, str]] = {
    "lines": (LINES, "chat:jsonl"),
    "lines with a byte order mark": (b"\xef\xbb\xbf" + LINES.encode(), "chat:jsonl"),
    "lines with CRLF": (LINES.replace("\n", "\r\n"), "chat:jsonl"),
    "lines with CR": (LINES.replace("\n", "\r"), "chat:jsonl"),
    "UTF-16": (LINES.encode("utf-16"), "chat:jsonl"),
    "UTF-16, big end first": (b"\xfe\xff" + LINES.encode("utf-16-be"), "chat:jsonl"),
    "UTF-16 without a mark": (LINES.encode("utf-16-le"), "chat:jsonl"),
    "an array": (json.dumps(CHATS), "chat:json-array"),
    "an array over lines": (json.dumps(CHATS, indent=2), "chat:json-array"),
    "lists as columns": (json.dumps({"messages": [row["messages"] for row in CHATS]}), "chat:json-columns"),
    "columns of texts": (
        json.dumps({"prompt": [q for q, _ in PAIRS], "completion": [a for _, a in PAIRS]}, indent=1),
        "prompt_completion:json-columns",
    ),
    "columns with keys": (
        json.dumps(
            {
                "instruction": {"0": PAIRS[0][0], "1": PAIRS[1][0]},
                "output": {"0": PAIRS[0][1], "1": PAIRS[1][1]},
            }
        ),
        "alpaca:json-columns",
    ),
    "rows under names": (json.dumps({"7f": CHATS[0], "a0": CHATS[1]}), "chat:json-columns"),
    "ShareGPT": (json.dumps([sharegpt(*pair) for pair in PAIRS]), "sharegpt:json-array"),
    "Alpaca": (
        "".join(json.dumps({"instruction": q, "input": "", "output": a}) + "\n" for q, a in PAIRS),
        "alpaca:jsonl",
    ),
    "question and answer": (
        "".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in PAIRS),
        "prompt_completion:jsonl",
    ),
    "prompts of messages": (
        "".join(
            json.dumps({"prompt": chat(*p)["messages"][:1], "completion": chat(*p)["messages"][1:]}) + "\n"
            for p in PAIRS
        ),
        "prompt_completion:jsonl",
    ),
    "CSV": (table(","), "prompt_completion:csv"),
    "CSV in UTF-16": (table(",").decode().encode("utf-16"), "prompt_completion:csv"),
    "CSV with CR": (table(",", "\r"), "prompt_completion:csv"),
    "TSV": (table("\t", "\n"), "prompt_completion:tsv"),
    "semicolons": (table(";"), "prompt_completion:semicolons"),
    "CSV with JSON in a cell": (
        'messages\n"' + '"\n"'.join(json.dumps(row["messages"]).replace('"', '""') for row in CHATS) + '"\n',
        "chat:csv",
    ),
    "gzip": (gzip.compress(LINES.encode()), "chat:jsonl+gzip"),
    "gzip of two members": (
        b"".join(gzip.compress(line.encode() + b"\n") for line in LINES.splitlines()),
        "chat:jsonl+gzip",
    ),
    "zip": (zipped(("train.jsonl", LINES.encode())), "chat:jsonl+zip"),
    "zip with what systems add": (
        zipped(
            ("data/", b""),
            ("data/train.csv", table(",")),
            ("__MACOSX/data/._train.csv", b"\0"),
            ("data/.DS_Store", b"\0"),
            ("Thumbs.db", b"\0"),
            ("data\\", b""),
            (".Spotlight-V100/Store-V2/index", b"\0"),
        ),
        "prompt_completion:csv+zip",
    ),
    "Parquet": (parquet(CHATS), "chat:parquet"),
    "Parquet of texts": (parquet([{"prompt": q, "completion": a} for q, a in PAIRS]), "prompt_completion:parquet"),
    "Parquet in a zip": (zipped(("a.parquet", parquet(CHATS))), "chat:parquet+zip"),
    "a workbook": (workbook(("prompt", "completion"), *PAIRS), "prompt_completion:xlsx"),
}


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_gives_the_same_conversations(name: str, tmp_path: Path) -> None:
    body, form = FILES[name]

    found, reading = read(write(tmp_path, "file", body))

    assert said(found) == PAIRS
    assert faults(found) == []
    assert reading.format == form


def test_one_row_over_several_lines_or_on_one_is_a_row_and_no_columns(tmp_path: Path) -> None:
    for body in (json.dumps(CHATS[0], indent=1), json.dumps(CHATS[0]), json.dumps(sharegpt(*PAIRS[0]), indent=1)):
        found, _ = read(write(tmp_path, "file.json", body))

        assert said(found) == PAIRS[:1]


def test_a_message_in_place_of_messages_is_one_bad_row(tmp_path: Path) -> None:
    found, _ = read(write(tmp_path, "file.json", json.dumps({"messages": CHATS[0]["messages"][0]})))

    assert faults(found) == [(1, 1, "messages", RowCode.NO_MESSAGES)]


def test_unicode_line_ends_inside_a_text_end_no_row(tmp_path: Path) -> None:
    texts = ["a\u2028b", "a\u0085b", "a\u2029b", "a\x0cb"]
    lines = "".join(json.dumps(chat("x", text), ensure_ascii=False) + "\r\n" for text in texts).replace("\x0c", "\\f")

    found, _ = read(write(tmp_path, "file.jsonl", lines))

    assert [answer for _, answer in said(found)] == texts


def test_a_table_counts_rows_and_not_lines(tmp_path: Path) -> None:
    body = b'\xef\xbb\xbfinstruction,output\r\n\r\n"Two\nlines, ""quoted""",yes\r\nshort\r\nx,"a\r\nb"\r\n'

    found, reading = read(write(tmp_path, "file.csv", body))

    assert said(found) == [('Two\nlines, "quoted"', "yes"), ("x", "a\r\nb")]
    assert faults(found) == [(2, 5, "", RowCode.BAD_CELLS)]
    assert [row.line for row in found if isinstance(row, Row)] == [3, 6]
    assert reading.tally.blank_lines == 1


HEADERS: dict[str, tuple[bytes | str, str]] = {
    "an index without a name": (",question,answer\n0,a,b\n1,c,d\n", "csv"),
    "an index without a name, in quotation marks": ('"";"question";"answer"\n"1";"a";"b"\n"2";"c";"d"\n', "semicolons"),
    "blank columns at the end": ("question,answer,,\na,b,,\nc,d\n", "csv"),
    "a line for spreadsheet programs": ("sep=;\r\nquestion;answer\r\na;b\r\nc;d\r\n", "semicolons"),
    "capital letters": ("Question\tAnswer\na\tb\nc\td\n", "tsv"),
    "an empty column before the first": (
        workbook((None, "question", "answer"), (None, "a", "b"), (None, "c", "d")),
        "xlsx",
    ),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_as_programs_write_it_names_the_columns(name: str, tmp_path: Path) -> None:
    body, kind = HEADERS[name]

    found, reading = read(write(tmp_path, "file", body))

    assert said(found) == [("a", "b"), ("c", "d")]
    assert faults(found) == []
    assert reading.format == f"prompt_completion:{kind}"


def test_a_cell_under_no_name_is_named_and_not_left_out(tmp_path: Path) -> None:
    found, _ = read(write(tmp_path, "file.csv", ",prompt,completion,\n7,a,b,\n8,c,d,not sure\n"))

    assert said(found) == [("a", "b")]
    assert faults(found) == [(2, 3, "", RowCode.BAD_CELLS)]
    assert isinstance(found[0], Row)
    assert json.loads(found[0].example)["column 1"] == "7"


def test_a_blank_before_a_quotation_mark_makes_no_quoted_text_unnoticed(tmp_path: Path) -> None:
    rows = ['"Who?", "Anna"', '"Who?", "Anna, Ben"', '"Who?"," ""Anna"" said, he"', 'Who?, Anna "the builder"']

    found, _ = read(write(tmp_path, "file.csv", "question,answer\n" + "\n".join(rows)))

    assert [(row, code) for row, _, _, code in faults(found)] == [(1, RowCode.BAD_CELLS), (2, RowCode.BAD_CELLS)]
    assert [answer for _, answer in said(found)] == [' "Anna" said, he', ' Anna "the builder"']
    assert all("blank stands before" in one.message for one in found if isinstance(one, RowError))


def test_a_table_in_which_no_row_fits_is_still_told_by_its_header(tmp_path: Path) -> None:
    found, reading = read(write(tmp_path, "file.tsv", 'prompt\tcompletion\n"a" is\tb\n"c" is\td\n'))

    assert reading.format == "prompt_completion:tsv"
    assert [code for *_, code in faults(found)] == [RowCode.BAD_CELLS] * 2
    titled = refusal(write(tmp_path, "titled.xlsx", workbook(("Export of May",), ("prompt", "completion"), ("a", "b"))))
    assert titled.code is FileCode.UNKNOWN_LAYOUT
    assert '"Export of May"' in titled.message


def test_escapes_of_a_workbook_are_the_signs_that_they_stand_for(tmp_path: Path) -> None:
    rows = (("a_x000D_\nb", "my_x_y"), ("_x005F_x000D_", "_x000a_"), ("c", "a_x0007_b"))

    found, _ = read(write(tmp_path, "file.xlsx", workbook(("prompt", "completion"), *rows)))

    assert said(found) == [("a\r\nb", "my_x_y"), ("c", "a\ab")]
    assert faults(found) == [(2, 3, "completion", RowCode.EMPTY_REPLY)]


INSIDE: dict[str, object] = {
    "a list under a name": {"data": CHATS},
    "a list beside other things": {"version": 1, "train": CHATS},
    "rows in rows": [{"row_idx": n, "row": row} for n, row in enumerate(CHATS)],
}


@pytest.mark.parametrize("name", INSIDE)
def test_rows_inside_of_something_else_are_refused_with_their_place(name: str, tmp_path: Path) -> None:
    error = refusal(write(tmp_path, "file.json", json.dumps(INSIDE[name])))

    assert error.code is FileCode.UNKNOWN_LAYOUT
    assert "Rows of a known layout lie inside" in error.message


def test_bytes_that_are_not_utf_8_are_named_where_they_stand(tmp_path: Path) -> None:
    line = json.dumps(chat("x", "caf#"))
    bad = line.replace("#", "é").encode("latin-1")

    lines, _ = read(write(tmp_path, "file.jsonl", line.encode() + b"\n" + bad))
    array, _ = read(write(tmp_path, "file.json", b"[" + line.encode() + b",\n" + bad + b"]"))
    cells, _ = read(write(tmp_path, "file.csv", "prompt,completion\nx,y\nx,é\n".encode("latin-1")))

    assert faults(lines) == [(2, 2, "", RowCode.NOT_UTF8)]
    assert faults(array) == [(2, 2, "", RowCode.NOT_UTF8)]
    assert faults(cells) == [(2, 3, "completion", RowCode.NOT_UTF8)]


def test_a_broken_element_of_an_array_spoils_no_other(tmp_path: Path) -> None:
    good = json.dumps(CHATS[0], indent=1)
    bad = [good.replace('"user"', '"user",'), '{"messages": NaN}', good.replace("How", 'a "b" c'), '"text"']
    body = "[" + ",\n".join([good, *bad, good]) + ",\n]"

    found, _ = read(write(tmp_path, "file.json", body))

    assert [row.row for row in found if isinstance(row, Row)] == [1, 6]
    assert [(row, code) for row, _, _, code in faults(found)] == [
        (2, RowCode.NOT_JSON),
        (3, RowCode.NOT_FINITE),
        (3, RowCode.NO_MESSAGES),
        (4, RowCode.NOT_JSON),
        (5, RowCode.NOT_OBJECT),
        (7, RowCode.NOT_JSON),
    ]
    assert (
        found[-1].message
        == f"Row 7 (line {body.count(chr(10)) + 1}): a comma too many before ] at the end of the array."
    )


def in_lines(*elements: str) -> str:
    return "[\n  " + ",\n  ".join(elements) + "\n]\n"


A, B, C = (json.dumps(chat(*pair)) for pair in (*PAIRS, ("Who?", "Anna.")))
BROKEN_ARRAYS: dict[str, tuple[str, list[int], list[tuple[int, int, RowCode]]]] = {
    "a comma too few": (f"[{A}\n{B},\n{C}]", [1, 3], [(2, 2, RowCode.NOT_JSON)]),
    "a comma too many": (f"[{A},,\n{B}]", [1, 3], [(2, 1, RowCode.NOT_JSON)]),
    "a comma first": (f"[,{A},{B}]", [2, 3], [(1, 1, RowCode.NOT_JSON)]),
    "a brace too many": (in_lines(A, B + "}", C), [1, 3], [(2, 3, RowCode.NOT_JSON)]),
    "a brace too few": (in_lines(A, B[:-1], C), [1, 3], [(2, 3, RowCode.CUT_OFF)]),
    "a bracket too few": (in_lines(A, B[:-2] + "}", C), [1, 3], [(2, 3, RowCode.NOT_JSON)]),
    "a comment": (f"[{A},\n// checked by Mara, twice\n{B}\n# {{\n]", [1, 3], [(2, 2, RowCode.NOT_JSON), (4, 4, RowCode.NOT_JSON)]),
    "a text over two lines": (in_lines(A, B.replace("Zwei", "Zwei\n"), C), [1, 3], [(2, 3, RowCode.NOT_JSON)]),
    "a text without its end": (in_lines(A, B.replace('"}]', "}]"), C), [1, 3], [(2, 3, RowCode.CUT_OFF)]),
    "a text without its end over lines": (
        json.dumps([*map(json.loads, (A, B, C))], indent=1).replace('"Gr\\u00f6\\u00dfe?"', '"Gr\\u00f6\\u00dfe?'),
        [1, 3],
        [(2, 14, RowCode.NOT_JSON)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN_ARRAYS)
def test_an_array_that_is_broken_in_one_place_loses_no_other_row(name: str, tmp_path: Path) -> None:
    body, good, bad = BROKEN_ARRAYS[name]

    found, _ = read(write(tmp_path, "file.json", body))

    assert [row.row for row in found if isinstance(row, Row)] == good
    assert [(row, line, code) for row, line, _, code in faults(found)] == bad


def test_an_array_in_which_nothing_tells_where_the_next_row_begins_is_refused(tmp_path: Path) -> None:
    for body in (f"[{A}, {B.replace('Zwei', chr(10))}, {C}]", f"[{A}; {B}]", f'[{A} "x", {B}]'):
        error = refusal(write(tmp_path, "file.json", body))

        assert error.code is FileCode.BROKEN_ARRAY
        assert "Line 1" in error.message


def test_an_array_that_was_cut_off_says_so(tmp_path: Path) -> None:
    whole = json.dumps(CHATS)

    for cut, rows in ((len(whole) - 1, 2), (len(whole) - 20, 1), (len(json.dumps(CHATS[0])) + 1, 1)):
        found, _ = read(write(tmp_path, "file.json", whole[:cut]))

        assert len(said(found)) == rows
        assert faults(found)[-1][3] is RowCode.CUT_OFF


SHAREGPT_FAULTS = {
    "an unknown role": ([("visitor", "x"), ("gpt", "y")], "conversations[0].from", RowCode.BAD_ROLE),
    "the bot first": ([("gpt", "x"), ("human", "y"), ("gpt", "z")], "conversations[0].from", RowCode.BAD_ORDER),
    "a reply without text": ([("human", "x"), ("gpt", None)], "conversations[1].value", RowCode.EMPTY_REPLY),
    "a question at the end": (
        [("human", "x"), ("gpt", "y"), ("human", "z")],
        "conversations[2]",
        RowCode.LAST_NOT_REPLY,
    ),
    "a call that is no JSON": (
        [("human", "x"), ("function_call", "wind()"), ("gpt", "y")],
        "conversations[1].value",
        RowCode.BAD_CALL,
    ),
    "an undeclared tool": (
        [("human", "x"), ("function_call", '{"name": "tide", "arguments": {}}'), ("observation", "3"), ("gpt", "y")],
        "conversations[1].value",
        RowCode.UNKNOWN_TOOL,
    ),
}


@pytest.mark.parametrize("name", SHAREGPT_FAULTS)
def test_a_fault_is_named_as_the_author_of_the_file_knows_the_place(name: str, tmp_path: Path) -> None:
    turns, path, code = SHAREGPT_FAULTS[name]
    bad = {
        "system": "Be brief.",
        "tools": json.dumps([{"name": "wind"}]),
        "conversations": [{"from": role, "value": value} for role, value in turns],
    }

    found, _ = read(write(tmp_path, "file.jsonl", json.dumps(sharegpt("a", "b")) + "\n" + json.dumps(bad)))

    assert [(fault[2], fault[3]) for fault in faults(found)] == [(path, code)]


def test_a_sharegpt_call_keeps_its_arguments_and_finds_its_answer(tmp_path: Path) -> None:
    row = {
        "conversations": [
            {"from": "human", "value": "How many?"},
            {"from": "function_call", "value": '{"name": "count", "arguments": {"floor": "all"}}'},
            {"from": "observation", "value": '{"count": 37}'},
            {"from": "gpt", "value": "37."},
        ],
        "system": "Use the counter.",
        "tools": json.dumps([{"name": "count"}]),
    }

    (found,), _ = read(write(tmp_path, "file.json", json.dumps([row])))

    assert isinstance(found, Row)
    example = json.loads(found.example)
    assert [message["role"] for message in example["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert example["messages"][2]["tool_calls"][0]["function"]["arguments"] == {"floor": "all"}
    assert example["messages"][3]["content"] == '{"count": 37}'
    assert example["messages"][3]["tool_call_id"] == example["messages"][2]["tool_calls"][0]["id"]
    assert example["tools"] == [{"name": "count"}]


CALLS_IN_TEXT = [
    '<tool_call>\n{"name": "count", "arguments": {}}\n</tool_call>',
    "[Count Heads(floor='all')]",
    '[TOOL_CALLS] [{"name": "count", "arguments": {}}]',
]


def test_an_answer_may_follow_a_call_that_is_written_as_text(tmp_path: Path) -> None:
    def row(call: str) -> dict[str, Any]:
        turns = [("human", "How many?"), ("gpt", call), ("tool", "37"), ("gpt", "37.")]
        return {"conversations": [{"from": role, "value": value} for role, value in turns]}

    found, _ = read(write(tmp_path, "file.json", json.dumps([row(call) for call in [*CALLS_IN_TEXT, "I'll count."]])))

    assert [one.row for one in found if isinstance(one, Row)] == [1, 2, 3]
    assert faults(found) == [(4, 1, "conversations[2].from", RowCode.BAD_ORDER)]


def test_alpaca_joins_instruction_and_input_and_keeps_history(tmp_path: Path) -> None:
    row = {"instruction": "Translate", "input": "pear", "output": "Birne", "system": "German", "history": [["a", "b"]]}
    bad = {"instruction": " ", "input": 7, "output": ""}

    found, _ = read(write(tmp_path, "file.jsonl", json.dumps(row) + "\n" + json.dumps(bad)))

    assert isinstance(found[0], Row)
    messages = json.loads(found[0].example)["messages"]
    assert [message["content"] for message in messages] == ["German", "a", "b", "Translate\n\npear", "Birne"]
    assert {(fault[2], fault[3]) for fault in faults(found)} == {
        ("instruction", RowCode.MISSING_FIELD),
        ("input", RowCode.BAD_CONTENT),
        ("output", RowCode.EMPTY_REPLY),
    }


WELL_KNOWN: dict[str, tuple[dict[str, object], list[str]]] = {
    "a system text beside messages": (
        {"system": "Be brief.", "messages": CHATS[0]["messages"]},
        ["Be brief.", *PAIRS[0]],
    ),
    "a system text in parts": (
        {"system": [{"type": "text", "text": "Be brief."}], "messages": CHATS[0]["messages"]},
        ["Be brief.", *PAIRS[0]],
    ),
    "the same system text twice": (
        {"system": "S", "messages": [{"role": "system", "content": "S"}, *CHATS[0]["messages"]]},
        ["S", *PAIRS[0]],
    ),
    "an instruction with its context": (
        {"instruction": "Who built it?", "context": "Anna built the pier.", "response": "Anna.", "category": "qa"},
        ["Who built it?\n\nAnna built the pier.", "Anna."],
    ),
    "a question with its context": (
        {"answer": "SELECT n FROM t", "question": "How many?", "context": "CREATE TABLE t (n INT)"},
        ["How many?\n\nCREATE TABLE t (n INT)", "SELECT n FROM t"],
    ),
    "a query with its history": (
        {"query": "And then?", "response": "Nothing.", "history": [["Why?", "So."]], "system": "S"},
        ["S", "Why?", "So.", "And then?", "Nothing."],
    ),
    "a system prompt": (
        {"id": "a.1", "system_prompt": "Be brief.", "question": "Why?", "response": "So."},
        ["Be brief.", "Why?", "So."],
    ),
    "capital letters": ({"Instruction": "Sum up", "Input": "Long.", "Output": "Short."}, ["Sum up\n\nLong.", "Short."]),
}


@pytest.mark.parametrize("name", WELL_KNOWN)
def test_nothing_that_a_well_known_layout_asks_with_is_left_out(name: str, tmp_path: Path) -> None:
    row, texts = WELL_KNOWN[name]

    (found,), _ = read(write(tmp_path, "file.jsonl", json.dumps(row)))

    assert isinstance(found, Row)
    example = json.loads(found.example)
    assert [message["content"] for message in example["messages"]] == texts
    assert "system" not in example


def test_a_fault_beside_a_system_text_keeps_its_place(tmp_path: Path) -> None:
    bad = {"system": 7, "messages": [*CHATS[0]["messages"], {"role": "user", "content": None}]}

    found, _ = read(write(tmp_path, "file.json", json.dumps([CHATS[0], bad])))

    assert [(path, code) for _, _, path, code in faults(found)] == [
        ("system", RowCode.BAD_CONTENT),
        ("messages[2].content", RowCode.BAD_CONTENT),
        ("messages[2]", RowCode.LAST_NOT_REPLY),
    ]


@pytest.mark.parametrize("row", [CHATS[0], sharegpt(*PAIRS[0]), {"instruction": "a", "output": "b"}])
@pytest.mark.parametrize("verdict", ["label", "kto_tag"])
def test_a_reply_that_was_judged_bad_is_never_learned(row: dict[str, Any], verdict: str, tmp_path: Path) -> None:
    judged = [{**row, verdict: True}, {**row, verdict: False}]

    assert refusal(write(tmp_path, "file.json", json.dumps(judged))).code is FileCode.PREFERENCES
    assert faults(read(write(tmp_path, "more.json", json.dumps([row, *judged])))[0]) == [
        (2, 1, "", RowCode.PREFERENCE),
        (3, 1, "", RowCode.PREFERENCE),
    ]
    assert faults(read(write(tmp_path, "classes.json", json.dumps([{**row, verdict: "roof"}])))[0]) == []


NO_JSON_INSIDE = {
    "messages as Python writes them": ({"messages": "[{'role': 'user'}]"}, "messages", "column 3"),
    "turns that were cut off": ({"conversations": '[{"from": "human"'}, "conversations", "cut off"),
    "arguments with a key twice": (
        {"messages": [CHATS[0]["messages"][0], {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1, "a": 2}'}}]}]},
        "messages[1].tool_calls[0].function.arguments",
        'the key "a" twice',
    ),
    "tools with a number that is none": ({**CHATS[0], "tools": '[{"name": "f", "x": NaN}]'}, "tools", "NaN"),
    "a tool as text": ({**CHATS[0], "tools": ["wind"]}, "tools[0]", "no object"),
    "a tool without a name": (
        {**CHATS[0], "tools": [{"name": "f"}, {"type": "function", "function": {}}]},
        "tools[1].function.name",
        "name of its own",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_JSON_INSIDE)
def test_a_text_that_is_no_json_inside_a_row_says_why(name: str, tmp_path: Path) -> None:
    row, path, word = NO_JSON_INSIDE[name]

    found, _ = read(write(tmp_path, "file.jsonl", json.dumps(row)))

    assert [one.path for one in found if isinstance(one, RowError)] == [path]
    assert isinstance(found[0], RowError)
    assert word in found[0].message


@pytest.mark.parametrize("history", ["an old question", {"a": 1}, 7])
def test_a_history_that_is_no_list_is_an_error_and_never_left_out(history: object, tmp_path: Path) -> None:
    row = {"instruction": "a", "output": "b", "history": history}

    found, _ = read(write(tmp_path, "file.json", json.dumps([row])))

    assert [(path, code) for _, _, path, code in faults(found)] == [("history", RowCode.BAD_MESSAGE)]


def test_a_mapping_says_which_columns_hold_what(tmp_path: Path) -> None:
    path = write(tmp_path, "file.csv", "ticket text,team\nThe light is out,electric\nNo water,\n")
    mapping = ColumnMapping(Layout.PROMPT, {"prompt": "ticket text", "completion": "team"})

    found, _ = read(path, mapping=mapping)

    assert refusal(path).code is FileCode.UNKNOWN_LAYOUT
    assert said(found) == [("The light is out", "electric")]
    assert faults(found) == [(2, 3, "team", RowCode.EMPTY_REPLY)]


def test_parquet_nulls_count_as_left_out_and_other_columns_are_named(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {**CHATS[0], "raw": b"x"},
        {"messages": None, "raw": b""},
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}], "raw": b""},
    ]

    found, _ = read(write(tmp_path, "file.parquet", parquet(rows)))

    assert faults(found) == [
        (2, None, "messages", RowCode.NO_MESSAGES),
        (3, None, "messages[1].content", RowCode.EMPTY_REPLY),
    ]
    assert [(one.path, one.code) for one in found if isinstance(one, Notice)] == [("raw", NoticeCode.COLUMN_LEFT_OUT)]


def test_columns_that_are_not_read_are_named_where_nothing_else_tells_a_layout(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pairs = pa.array([[("prompt", "a")]], pa.map_(pa.string(), pa.string()))
    pq.write_table(pa.table({"roof": pairs, "reply": pa.array(["b"])}), tmp_path / "file")

    error = refusal(tmp_path / "file")

    assert error.code is FileCode.UNKNOWN_LAYOUT
    assert error.message.endswith('Not read, because JSON has no such values: "roof".')


def test_numbers_in_a_workbook_are_not_guessed_at(tmp_path: Path) -> None:
    found, reading = read(
        write(tmp_path, "f.xlsx", workbook(("question", "answer"), ("a", "b"), (None, None), ("c", 7), ("d",)))
    )

    assert said(found) == [("a", "b")]
    assert faults(found) == [(2, 4, "answer", RowCode.BAD_CONTENT), (3, 5, "answer", RowCode.EMPTY_REPLY)]
    assert reading.tally.blank_lines == 1


def linked() -> bytes:
    info = zipfile.ZipInfo("train.jsonl")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    return body.getvalue()


def spoofed_index() -> bytes:
    """The end of the zip says that its index takes 100 MB."""
    body = bytearray(zipped(("a.jsonl", b"{}")))
    struct.pack_into("<L", body, len(body) - 22 + 12, 100_000_000)
    return bytes(body)


def packed_with_lzma() -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.jsonl", "{}")
    return body.getvalue()


REFUSED: dict[str, tuple[bytes | str, FileCode, str]] = {
    "nothing": (b"", FileCode.EMPTY, "empty"),
    "blanks": (b"\xef\xbb\xbf \r\n\n", FileCode.EMPTY, "empty"),
    "an empty array": ("[]", FileCode.EMPTY, "empty"),
    "a header alone": ("prompt,completion\n", FileCode.EMPTY, "a header and no row"),
    "a text": ("hello\nworld", FileCode.NOT_JSONL, "of line 1"),
    "objects over lines": (
        json.dumps(CHATS[0], indent=1) + "\n" + json.dumps(CHATS[1], indent=1),
        FileCode.NOT_JSONL,
        "Put each on one line",
    ),
    "another layout": ('{"colour": 1}', FileCode.UNKNOWN_LAYOUT, '"colour"'),
    "preferences": (json.dumps({"prompt": "a", "chosen": "b", "rejected": "c"}), FileCode.PREFERENCES, "later"),
    "chosen conversations": (
        json.dumps([{"chosen": CHATS[0]["messages"], "rejected": CHATS[1]["messages"]}]),
        FileCode.PREFERENCES,
        "later",
    ),
    "preferred outputs": (
        json.dumps({"input": {}, "preferred_output": [], "non_preferred_output": []}),
        FileCode.PREFERENCES,
        "later",
    ),
    "a rejected response beside messages": (
        json.dumps({**CHATS[0], "rejected_response": "In summer."}),
        FileCode.PREFERENCES,
        "later",
    ),
    "a chosen row and a rejected one": (
        json.dumps({"chosen": CHATS[0], "rejected": CHATS[1]}),
        FileCode.PREFERENCES,
        "later",
    ),
    "judged completions": (
        json.dumps({"prompt": "a", "completion": "b", "label": False}),
        FileCode.PREFERENCES,
        "later",
    ),
    "columns of unequal length": (
        json.dumps({"prompt": ["a", "b"], "completion": ["c"]}),
        FileCode.BROKEN_TABLE,
        '"prompt" 2, "completion" 1',
    ),
    "a column twice": ("prompt,prompt\na,b\n", FileCode.BROKEN_TABLE, 'called "prompt"'),
    "a column without a name": ("prompt,,completion\na,b,c\n", FileCode.BROKEN_TABLE, "Column 2"),
    "a column's name in Latin-1": ("größe,y\na,b\n".encode("latin-1"), FileCode.BROKEN_TABLE, "column 1"),
    "Latin-1": ('{"messages": "é"}\n'.encode("latin-1") * 3, FileCode.OTHER_ENCODING, "in line 1, byte 15"),
    "UTF-32": (LINES.encode("utf-32"), FileCode.OTHER_ENCODING, "UTF-32"),
    "UTF-16 of kana without a mark": (
        "質問,答え\nはい,いいえ\n".encode("utf-16-le"),
        FileCode.OTHER_ENCODING,
        "no UTF-8 at byte",
    ),
    "half of UTF-16": (LINES.encode("utf-16")[:-1], FileCode.OTHER_ENCODING, "UTF-16"),
    "PDF": (b"%PDF-1.7", FileCode.OTHER_FORMAT, "PDF document"),
    "bzip2": (b"BZh91AY", FileCode.OTHER_FORMAT, "bzip2"),
    "JSON behind a name": (f"data = {json.dumps(CHATS)};", FileCode.NOT_JSONL, 'begins with "d"'),
    "a sequence of JSON texts": ("".join(f"\x1e{json.dumps(row)}\n" for row in CHATS), FileCode.NOT_JSONL, "u001e"),
    "a pointer in place of the data": (
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n",
        FileCode.OTHER_FORMAT,
        "a Git LFS pointer",
    ),
    "a web page": ("<!DOCTYPE html><html>Not found</html>", FileCode.OTHER_FORMAT, "web page"),
    "an Arrow file": (b"ARROW1\0\0", FileCode.OTHER_FORMAT, "an Arrow file"),
    "an OpenDocument sheet": (
        zipped(("mimetype", b"application/vnd.oasis.opendocument.spreadsheet"), ("content.xml", b"<a/>")),
        FileCode.OTHER_FORMAT,
        "OpenDocument",
    ),
    "a document": (
        zipped(("[Content_Types].xml", b""), ("word/document.xml", b"")),
        FileCode.OTHER_FORMAT,
        "no workbook",
    ),
    "half a gzip": (gzip.compress(LINES.encode())[:-9], FileCode.BROKEN_ARCHIVE, "cut off"),
    "half a zip": (zipped(("a.jsonl", LINES.encode()))[:-30], FileCode.BROKEN_ARCHIVE, "damaged"),
    "a gzip in a gzip": (gzip.compress(gzip.compress(b"x")), FileCode.ARCHIVE_IN_ARCHIVE, "unpack it first"),
    "a zip in a zip": (zipped(("a.jsonl", zipped(("b", b"x")))), FileCode.ARCHIVE_IN_ARCHIVE, "unpack it first"),
    "a gzip in a zip": (zipped(("a.jsonl.gz", gzip.compress(b"x"))), FileCode.ARCHIVE_IN_ARCHIVE, "a.jsonl.gz"),
    "Parquet in gzip": (gzip.compress(parquet(CHATS)), FileCode.OTHER_FORMAT, "parquet"),
    "a broken Parquet file in a zip": (zipped(("a.parquet", b"PAR1 and no more")), FileCode.BROKEN_PARQUET, "Parquet"),
    "two files in a zip": (zipped(("a.jsonl", b"{}"), ("b.jsonl", b"{}")), FileCode.ARCHIVE_HOLDS_SEVERAL, "a.jsonl"),
    "an empty zip": (zipped(), FileCode.ARCHIVE_HOLDS_NONE, "no data file"),
    "a zip that climbs": (zipped(("../a.jsonl", b"{}")), FileCode.ARCHIVE_LEAVES_FOLDER, "../a.jsonl"),
    "a zip with an absolute path": (zipped(("/etc/a.jsonl", b"{}")), FileCode.ARCHIVE_LEAVES_FOLDER, "/etc"),
    "a zip with a drive": (zipped(("C:\\a.jsonl", b"{}")), FileCode.ARCHIVE_LEAVES_FOLDER, "C:"),
    "a zip with a link": (linked(), FileCode.ARCHIVE_LEAVES_FOLDER, "is a link"),
    "a zip by another method": (packed_with_lzma(), FileCode.BROKEN_ARCHIVE, "deflate"),
    "a huge index": (spoofed_index(), FileCode.TOO_LARGE, "list of members"),
    "half a Parquet": (parquet(CHATS)[:-40], FileCode.BROKEN_PARQUET, "cannot be read"),
    "a workbook of two sheets": (workbook(), FileCode.BROKEN_WORKBOOK, "no filled sheet"),
    "a workbook without names": (workbook(("a", None, "b")), FileCode.BROKEN_TABLE, "Column 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    body, code, word = REFUSED[name]

    error = refusal(write(tmp_path, "file", body))

    assert error.code is code
    assert word in error.message


def test_a_layout_that_does_not_fit_is_refused_with_what_the_file_holds(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, "file.jsonl", LINES), layout=Layout.ALPACA)

    assert error.code is FileCode.WRONG_LAYOUT
    assert '"messages"' in error.message


@pytest.mark.parametrize("wrap", [gzip.compress, lambda body: zipped(("a.jsonl", body))], ids=["gzip", "zip"])
def test_a_bomb_is_given_up_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrap: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(containers, "UNPACKED_FLOOR", 1024 * 1024)
    path = write(tmp_path, "bomb", wrap(json.dumps(CHATS[0]).encode() + b"\n" * 30_000_000))

    tracemalloc.start()
    error = refusal(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert error.code is FileCode.UNPACKED_TOO_LARGE
    assert "the unpacked-size limit" in error.message
    assert peak < 30_000_000
    assert [one.name for one in tmp_path.iterdir()] == ["bomb"]


def test_a_zip_that_lies_about_its_size_is_stopped_by_what_comes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "UNPACKED_FLOOR", 1024 * 1024)
    body = bytearray(zipped(("a.jsonl", b"\n" * 30_000_000)))
    for mark, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        struct.pack_into("<L", body, body.find(mark) + offset, 100)

    error = refusal(write(tmp_path, "bomb.zip", bytes(body)))

    assert error.code in (FileCode.UNPACKED_TOO_LARGE, FileCode.BROKEN_ARCHIVE)


def picture(size: int = 4) -> bytes:
    from PIL import Image

    body = io.BytesIO()
    Image.new("RGB", (size, size), "blue").save(body, "PNG")
    return body.getvalue()


def test_images_are_decoded_inside_their_folder_and_never_fetched(tmp_path: Path) -> None:
    import base64

    folder = tmp_path / "images"
    (folder / "flags").mkdir(parents=True)
    write(folder / "flags", "blue.png", picture())
    write(folder, "broken.png", picture()[:40])
    write(tmp_path, "secret.png", picture())
    inline = "data:image/png;base64," + base64.b64encode(picture()).decode()

    def row(images: object, text: str = "<image>?") -> dict[str, Any]:
        return {**chat(text, "Blue."), "images": images}

    def part(url: str) -> dict[str, Any]:
        return chat([{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "?"}], "Blue.")  # type: ignore[arg-type]

    rows = [
        row("flags/blue.png"),
        row(["flags/blue.png", "flags/blue.png"], "<image><image>"),
        part(inline),
        row(["flags/blue.png"], "<image><image>"),
        part(inline[:-30] + "@@"),
        row(["../secret.png"]),
        row(["gone.png"]),
        row(["broken.png"]),
        part("https://images.example.org/a.png"),
    ]

    found, _ = read(write(tmp_path, "file.jsonl", "\n".join(map(json.dumps, rows))), images=folder)

    assert [one.row for one in found if isinstance(one, Row)] == [1, 2, 3]
    assert [(row, path, code) for row, _, path, code in faults(found)] == [
        (4, "images", RowCode.IMAGE_COUNT),
        (5, "messages[0].content[0]", RowCode.IMAGE_BROKEN),
        (6, "images[0]", RowCode.IMAGE_OUTSIDE),
        (7, "images[0]", RowCode.IMAGE_MISSING),
        (8, "images[0]", RowCode.IMAGE_BROKEN),
        (9, "messages[0].content[0]", RowCode.IMAGE_ELSEWHERE),
    ]
