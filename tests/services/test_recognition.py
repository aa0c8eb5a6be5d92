"""What a file is, told by the rows that can be trained: bad rows are named one by one, wherever they stand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorant_app.domain.data_codes import FileCode, RowCode
from tensorant_app.services.data_check import Report, check_file
from tensorant_app.services.reading import Beginning, read_beginning


def chat(question: str, answer: str = "Slate.") -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


GOOD = [json.dumps(chat(f"Roof {n}?")) for n in range(5)]


def check(folder: Path, *lines: str, name: str = "file") -> Report:
    path = folder / name
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    return check_file(path)


def named(report: Report) -> list[tuple[int, int, str]]:
    return [(one["row"], one["line"], one["code"]) for one in report.errors]


BROKEN = {
    "a comma too many": (GOOD[0][:-1] + ",}", RowCode.NOT_JSON, f"column {len(GOOD[0]) + 1}"),
    "two objects": (GOOD[0] + GOOD[1], RowCode.SEVERAL_VALUES, f"column {len(GOOD[0]) + 1}"),
    "a row cut off": (GOOD[0][:50], RowCode.CUT_OFF, "cut off"),
    "very many levels": ('{"a":' * 2000 + "1" + "}" * 2000, RowCode.TOO_DEEP, "64"),
    "a printed dictionary": (str(chat("Roof?")), RowCode.NOT_JSON, "column 2"),
    "an array without its brackets": (GOOD[0] + ",", RowCode.NOT_JSON, "a comma follows the object"),
}


@pytest.mark.parametrize("count", [1, 2, 25])
@pytest.mark.parametrize("name", BROKEN)
def test_a_file_of_broken_rows_names_each_with_its_reason(name: str, count: int, tmp_path: Path) -> None:
    line, code, word = BROKEN[name]

    report = check(tmp_path, *[line] * count)

    assert report.refused is None
    assert (report.rows, report.rejected) == (count, count)
    assert named(report) == [(n, n, code) for n in range(1, count + 1)]
    assert word in report.errors[0]["message"]


@pytest.mark.parametrize("name", BROKEN)
def test_good_rows_behind_many_broken_ones_are_read(name: str, tmp_path: Path) -> None:
    report = check(tmp_path, *[BROKEN[name][0]] * 25, *GOOD)

    assert report.accepted_rows == [26, 27, 28, 29, 30]
    assert report.rejected == 25


FIRST_LINES = {
    "a sentence with commas": "Here are your roofs, as you wished:",
    "a comment": "// exported on Friday, 7 August",
    "a row without its beginning": GOOD[0][20:],
    "half a row's end": GOOD[0][-30:],
    "a table's header": "question,reply",
    "semicolons": "a;b;c",
    "a JSON list": '[{"role": "user", "content": "x"}]',
    "half a JSON list": "[1, 2",
    "an open bracket": "[",
    "a no-break space": "\u00a0" + GOOD[0],
    "a zero-width space": "\u200b" + GOOD[0],
    "a second byte order mark": "\ufeff\ufeff" + GOOD[0],
    "a brace": "{",
    "a brace and a word": "{roof",
    "another layout's bad row": '{"prompt": "", "completion": ""}',
    "an unknown layout": '{"roof": 1}',
    "a preference": '{"prompt": "a", "chosen": "b", "rejected": "c"}',
}


@pytest.mark.parametrize("count", [1, 3, 30])
@pytest.mark.parametrize("name", FIRST_LINES)
def test_bad_first_lines_are_bad_rows_of_a_good_file(name: str, count: int, tmp_path: Path) -> None:
    report = check(tmp_path, *[FIRST_LINES[name]] * count, *GOOD)

    assert report.refused is None
    assert report.format == "chat:jsonl"
    assert report.accepted_rows == [count + n for n in range(1, 6)]
    assert report.rejected == count


def test_a_bad_first_line_and_another_one_cost_no_good_row(tmp_path: Path) -> None:
    report = check(tmp_path, '{"messages": [{"role"', "and so on", *GOOD)

    assert report.accepted_rows == [3, 4, 5, 6, 7]
    assert named(report) == [(1, 1, "cut_off"), (2, 2, "not_json")]


@pytest.mark.parametrize("sign", ["\u00a0", "\u200b", "\ufeff", "\u2060"])
def test_an_invisible_character_before_a_row_is_named(sign: str, tmp_path: Path) -> None:
    report = check(tmp_path, f"\ufeff{sign}{GOOD[0]}")

    assert named(report) == [(1, 1, "not_json")]
    assert f"the invisible character U+{ord(sign):04X}" in report.errors[0]["message"]


def test_what_is_no_json_at_all_is_refused_with_the_first_line_s_reason(tmp_path: Path) -> None:
    report = check(tmp_path, "roof: slate", "floor: oak")

    assert report.refused is not None
    assert report.refused["code"] == FileCode.NOT_JSONL
    assert "line 1" in report.refused["message"]
    assert 'begins with "r"' in report.refused["message"]


COLUMNS = json.dumps({"prompt": ["a", "b"], "completion": ["c", "d"]}, indent=1)


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        (COLUMNS[:-2] + ",\n}", RowCode.NOT_JSON, "comma too many"),
        (COLUMNS[:-12], RowCode.CUT_OFF, "cut off"),
        (json.dumps(chat("Roof?"), indent=2)[:-9], RowCode.CUT_OFF, "cut off"),
    ],
)
def test_one_broken_object_over_several_lines_is_one_row_with_its_reason(
    body: str, code: RowCode, word: str, tmp_path: Path
) -> None:
    report = check(tmp_path, body)

    assert named(report) == [(1, 1, code)]
    assert "of the row, column" in report.errors[0]["message"]
    assert word in report.errors[0]["message"]


def test_a_table_with_a_line_of_json_stays_a_table(tmp_path: Path) -> None:
    report = check(tmp_path, "prompt,completion", "a,b", GOOD[0], "c,d", '"e\n{}\n",f')

    assert report.format == "prompt_completion:csv"
    assert report.accepted_rows == [1, 3, 4]


def test_a_table_whose_first_rows_are_all_bad_is_read_with_its_header(tmp_path: Path) -> None:
    report = check(tmp_path, "prompt,completion", *["x"] * 30, "a,b")

    assert report.format == "prompt_completion:csv"
    assert report.accepted_rows == [31]


def test_a_header_alone_is_not_called_an_empty_file(tmp_path: Path) -> None:
    report = check(tmp_path, "prompt,completion")

    assert report.refused == {
        "code": "empty",
        "message": "The file has a header and no row; put at least one example into it.",
    }


def test_preferences_among_good_rows_are_rejected_and_never_trained(tmp_path: Path) -> None:
    judged = '{"prompt": "a", "completion": "bad", "label": false}'

    report = check(tmp_path, judged, '{"prompt": "c", "completion": "d"}')
    lists = check(tmp_path, json.dumps([{"instruction": "a", "output": ["good", "bad"]}]))

    assert named(report) == [(1, 1, "preference")]
    assert report.accepted_rows == [2]
    assert lists.refused is not None
    assert lists.refused["code"] == FileCode.PREFERENCES


def test_a_preview_finds_the_layout_that_the_import_finds(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("\n".join(["{'a': 1}"] * 25 + ['{"instruction": "a", "output": "b"}']))

    found = read_beginning(tmp_path / "file")

    assert isinstance(found, Beginning)
    assert found.error is None
    assert found.mapping is not None
    assert found.mapping.layout == "alpaca"
    assert len(found.records) == 20


def workbook(folder: Path, *rows: tuple[object, ...], texts: tuple[str, ...] = ()) -> Report:
    from openpyxl import Workbook

    book = Workbook()
    for row in rows:
        book.active.append(row)
    for place in texts:
        book.active[place].data_type = "s"
    book.save(folder / "rows.xlsx")
    return check_file(folder / "rows.xlsx")


def test_a_formula_without_a_saved_value_is_an_error_and_no_empty_cell(tmp_path: Path) -> None:
    report = workbook(
        tmp_path,
        ("instruction", "input", "output"),
        ("a", None, "b"),
        ("c", '=UPPER("d")', "e"),
        ("f", None, "=A1"),
    )

    assert report.accepted_rows == [1]
    assert [(one["row"], one["line"], one["path"], one["code"]) for one in report.errors] == [
        (2, 3, "input", "no_value"),
        (3, 4, "output", "no_value"),
    ]
    assert "without a saved value" in report.errors[0]["message"]


def test_an_error_that_a_formula_ended_with_is_no_text_to_learn(tmp_path: Path) -> None:
    report = workbook(
        tmp_path, ("prompt", "completion"), ("a", "#REF!"), ("#DIV/0!", "b"), ("c", "#REF!"), texts=("B4",)
    )

    assert report.accepted_rows == [3]
    assert [(one["row"], one["path"], one["code"]) for one in report.errors] == [
        (1, "completion", "no_value"),
        (2, "prompt", "no_value"),
    ]
    assert "#REF!" in report.errors[0]["message"]


def test_blank_rows_above_a_header_are_passed_over(tmp_path: Path) -> None:
    table = check(tmp_path, ",", " , ", "prompt,completion", "a,b")
    book = workbook(tmp_path, (None, None), ("prompt", "completion"), ("a", "b"))

    assert (table.accepted_rows, table.blank_lines, table.errors) == ([1], 2, [])
    assert (book.accepted_rows, book.blank_lines, book.errors) == ([1], 1, [])


def test_a_cell_that_no_quotation_mark_opens_is_too_long_and_no_unclosed_one(tmp_path: Path) -> None:
    report = check(tmp_path, "prompt,completion", "a," + "b" * 5_000_000, "c,d")

    assert report.refused is not None
    assert report.refused["code"] == "row_too_long"
    assert "line 2" in report.refused["message"]


def test_a_quotation_mark_too_many_names_every_line_that_it_took(tmp_path: Path) -> None:
    report = check(tmp_path, "prompt,completion", 'a,"open', "b,c", "d,e", 'f,"g"', "h,i")

    assert named(report) == [(1, 2, "bad_cells")]
    assert "It reaches to line 5" in report.errors[0]["message"]
    assert report.accepted_rows == [2]


@pytest.mark.parametrize(("value", "word"), [("null", "it is null"), ("[]", "an empty list"), ("7", "it is a number")])
def test_what_stands_instead_of_messages_is_said(value: str, word: str, tmp_path: Path) -> None:
    report = check(tmp_path, GOOD[0], f'{{"messages": {value}}}')

    assert named(report) == [(2, 2, "no_messages")]
    assert word in report.errors[0]["message"]


bad_lines = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1, max_size=30),
    st.sampled_from([*FIRST_LINES.values(), *(line for line, _, _ in BROKEN.values())]),
    st.builds(lambda cut: GOOD[0][cut:], st.integers(1, 60)),
    st.builds(lambda cut: GOOD[0][:-cut], st.integers(1, 60)),
    st.dictionaries(st.sampled_from(["prompt", "label", "roof", "messages"]), st.text(max_size=4)).map(json.dumps),
).filter(lambda line: line.strip(" \t") != "")


@given(st.lists(st.one_of(st.none(), bad_lines), min_size=1, max_size=40), st.integers(0, 40))
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_good_row_beside_any_bad_rows_survives_with_its_number(
    tmp_path: Path, lines: list[str | None], at: int
) -> None:
    at = min(at, len(lines))
    whole = [*lines[:at], None, *lines[at:]]
    goods = [n for n, line in enumerate(whole, start=1) if line is None]

    report = check(tmp_path, *[GOOD[n % 5] if line is None else line for n, line in enumerate(whole)])

    assert report.refused is None
    assert report.rows == len(whole)
    assert set(goods) <= set(report.accepted_rows)


bad_cells = st.lists(st.text(st.sampled_from("ab {}[]:'.é\u200b"), max_size=5), min_size=1, max_size=5).map(",".join)


@given(st.lists(st.one_of(st.none(), bad_cells.filter(str.strip)), min_size=1, max_size=40), st.integers(0, 40))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_good_row_of_a_table_beside_any_bad_ones_survives_with_its_number(
    tmp_path: Path, lines: list[str | None], at: int
) -> None:
    whole = [*lines[:at], None, *lines[at:]]
    goods = {n for n, line in enumerate(whole, start=1) if line is None}

    report = check(tmp_path, "prompt,completion", *["Roof?,Slate" if line is None else line for line in whole])

    assert report.refused is None
    assert report.rows == len(whole)
    assert goods <= set(report.accepted_rows)
