"""`tensorant data check`: one report of everything, in the form that is documented."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tensorant_app.cli import app
from tensorant_app.domain.data_codes import CODES, FileCode, NoticeCode, RowCode
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.file_kinds import IMAGE_BYTES
from tensorant_app.services import bases, data_check
from tests.pictures import as_url, huge_png, pack, picture

ROOT = Path(__file__).resolve().parents[2]


def chat(question: str, answer: str, **more: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}], **more}


def write(folder: Path, *rows: object) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def test_a_messy_file_is_reported_whole(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        chat("Soup?", "Lentil."),
        "",
        "{'messages': []}",
        chat("Soup? ", "Tomato."),
        chat("soup?", "lentil."),
        chat("Whom do I ask?", "Write to mara.lind@example.org."),
        chat("Soup?", "Lentil."),
        {"messages": [{"role": "robot", "content": 1}]},
    )

    shown = CliRunner().invoke(app, ["data", "check", str(path), "--json"])

    report = json.loads(shown.stdout)
    assert shown.exit_code == 1
    assert list(report) == [
        *(
            "file",
            "format",
            "refused",
            "rows",
            "accepted",
            "rejected",
            "accepted_rows",
            "blank_lines",
            "errors",
            "warnings",
        )
    ]
    assert {name: report[name] for name in list(report)[:8]} == {
        "file": "rows.jsonl",
        "format": "chat:jsonl",
        "refused": None,
        "rows": 7,
        "accepted": 5,
        "rejected": 2,
        "accepted_rows": [1, 3, 4, 5, 6],
        "blank_lines": 1,
    }
    assert [(e["row"], e["line"], e["path"], e["code"]) for e in report["errors"]] == [
        (2, 3, "", "not_json"),
        (7, 8, "messages[0].role", "bad_role"),
        (7, 8, "messages[0].content", "bad_content"),
        (7, 8, "messages", "no_reply"),
    ]
    assert [(w["row"], w["line"], w["path"], w["code"]) for w in report["warnings"]] == [
        (3, 4, "", "contradiction"),
        (4, 5, "", "copy"),
        (5, 6, "messages[1].content", "email"),
        (6, 7, "", "duplicate"),
    ]
    assert "mara.lind" not in shown.stdout
    assert all(
        set(item) == {"row", "line", "path", "code", "message"} for item in report["errors"] + report["warnings"]
    )


def test_a_clean_file_ends_with_0_and_a_refused_one_with_1(tmp_path: Path) -> None:
    clean = CliRunner().invoke(app, ["data", "check", str(write(tmp_path, chat("Soup?", "Lentil.")))])
    (tmp_path / "rows.pdf").write_bytes(b"%PDF-1.7")
    refused = CliRunner().invoke(app, ["data", "check", str(tmp_path / "rows.pdf"), "--json"])

    assert clean.exit_code == 0
    assert clean.stdout.splitlines() == [
        "rows.jsonl: Chat (OpenAI messages), in JSON Lines.",
        "1 row: 1 can be trained, 0 cannot.",
    ]
    report = json.loads(refused.stdout)
    assert refused.exit_code == 1
    assert report["refused"]["code"] == "other_format"
    assert (report["rows"], report["accepted"], report["errors"]) == (0, 0, [])


def test_what_is_asked_wrongly_is_said_in_a_sentence(tmp_path: Path) -> None:
    path = write(tmp_path, chat("Soup?", "Lentil."))

    with pytest.raises(Invalid, match=r"There is no file .*gone\.jsonl"):
        data_check.check_file(tmp_path / "gone.jsonl")
    with pytest.raises(Invalid, match="There is no folder"):
        data_check.check_file(path, images=tmp_path / "gone")
    with pytest.raises(Invalid, match=r"There is no format csvv\. Use auto, chat"):
        data_check.layout_named("csvv")
    with pytest.raises(Invalid, match=r"holds no tokenizer\.json"):
        bases.tokens_of(tmp_path)


def test_control_tokens_are_those_of_the_tokenizer_that_is_named(tmp_path: Path) -> None:
    tokens = [{"content": "<turn>", "special": True}, {"content": "yes", "special": False}]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": tokens}))
    path = write(tmp_path, chat("Say <turn>", "yes"), chat("Say <|im_end|>", "no"))

    own = data_check.check_file(path, tokens=bases.tokens_of(tmp_path))
    common = data_check.check_file(path)

    assert [(w["row"], w["code"]) for w in own.warnings] == [(1, "control_token")]
    assert [(w["row"], w["code"]) for w in common.warnings] == [(2, "control_token")]


def test_a_long_list_is_cut_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_check, "LISTED", 3)

    report = data_check.check_file(write(tmp_path, chat("a", "b"), *["{"] * 5))

    assert (report.rejected, len(report.errors)) == (5, 3)
    assert "Only the first 3 errors and 0 warnings are listed." in list(data_check.sentences_of(report))


def test_a_list_of_long_findings_ends_with_its_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_check, "LETTERS", 100)
    deep: object = "\0"
    for _ in range(20):
        deep = {"a_key_that_makes_a_path_long": deep}

    report = data_check.check_file(write(tmp_path, *[chat("a", "b", more=deep)] * 5))

    assert (report.rejected, len(report.errors)) == (5, 1)
    assert "Only the first 1 errors and 0 warnings are listed." in list(data_check.sentences_of(report))
    assert "letters" not in report.as_json()


_PEAK = """
import resource, sys
from pathlib import Path
from tensorant_app.services import data_check
data_check.LISTED = 1_000
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
report = data_check.check_file(Path(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, report.rows, len(report.errors), len(report.warnings))
"""


def test_a_check_takes_no_more_memory_than_its_lists_and_a_few_bytes_for_each_row(tmp_path: Path) -> None:
    """As docs/data.md says it, with lists of a hundredth and far fewer rows."""
    rows = 40_000
    usual = [chat("To whom?", "To mara.lind@example.org, and to nobody else."), chat("To whom?", "")]
    path = write(tmp_path, *(json.dumps(one) for one in usual * (rows // 2)))

    said = subprocess.run([sys.executable, "-c", _PEAK, str(path)], capture_output=True, text=True, check=True).stdout

    before, after, *counts = map(int, said.split())
    assert counts == [rows, 1_000, 1_000]
    assert after - before <= 45 * 1024 + rows * 150 / 1024, "in KiB; what is loaded with the first row takes 40 MiB"


def test_every_code_has_one_row_in_the_table() -> None:
    assert list(CODES) == [*FileCode, *RowCode, *NoticeCode]
    assert len({about.meaning for about in CODES.values()}) == len(CODES)


def test_the_page_lists_every_format_code_and_limit_as_the_code_has_them() -> None:
    spec = importlib.util.spec_from_file_location("data_docs", ROOT / "packaging" / "data_docs.py")
    assert spec is not None
    assert spec.loader is not None
    docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docs)

    page = docs.PAGE.read_text()

    assert docs.render(page) == page, "run: python packaging/data_docs.py"
    assert all(f"`{code}`" in page for code in CODES)


GOOD = picture(size=(30, 20))
IMAGE_FAULTS: dict[str, tuple[object, str, str]] = {
    "good": (["good.png"], "", ""),
    "one path as text": ("good.png", "", ""),
    "two for two marks": (["good.png", "good.png"], "", ""),
    "two marks, one image": (["good.png"], "images", "image_count"),
    "no mark": (["good.png"], "images", "image_count"),
    "no image": ([], "images", "image_count"),
    "missing": (["gone.png"], "images[0]", "image_missing"),
    "in another case": (["GOOD.png"], "images[0]", "image_missing"),
    "a folder": (["sub"], "images[0]", "image_missing"),
    "an empty path": ([""], "images[0]", "image_broken"),
    "a number": ([7], "images[0]", "image_broken"),
    "outside": (["../secret.png"], "images[0]", "image_outside"),
    "from the root": (["/etc/hostname"], "images[0]", "image_outside"),
    "through a link": (["link.png"], "images[0]", "image_outside"),
    "an address": (["https://images.example.org/a.png"], "images[0]", "image_elsewhere"),
    "a file address": (["file:///etc/hostname"], "images[0]", "image_elsewhere"),
    "cut off": (["cut.png"], "images[0]", "image_broken"),
    "no image at all": (["text.png"], "images[0]", "image_broken"),
    "of another kind": (["map.bmp"], "images[0]", "image_broken"),
    "too many bytes": (["heavy.png"], "images[0]", "image_broken"),
    "a bomb of pixels": (["bomb.png"], "images[0]", "image_broken"),
    "broken base64": ([as_url(GOOD)[:-9] + "@@"], "images[0]", "image_broken"),
    "not in base64": (["data:image/svg+xml,<svg/>"], "images[0]", "image_broken"),
    "base64": ([as_url(GOOD)], "", ""),
    "accents apart": (["Gro\u0308\u00dfe.png"], "", ""),
}
"""What a row's images are → where the fault is, and its code."""
MARKS = {"two for two marks": 2, "two marks, one image": 2, "no mark": 0}


def write_images(folder: Path) -> None:
    (folder / "sub").mkdir(parents=True)
    (folder / "../secret.png").write_bytes(GOOD)
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    files = {"good.png": GOOD, "Größe.png": GOOD, "cut.png": GOOD[:60], "text.png": b"hello", "map.bmp": picture("BMP")}
    files |= {"heavy.png": GOOD + bytes(IMAGE_BYTES), "bomb.png": huge_png(60_000, 60_000)}
    for name, body in files.items():
        (folder / name).write_bytes(body)


def test_every_fault_of_an_image_has_its_row_place_and_code(tmp_path: Path) -> None:
    write_images(tmp_path / "images")
    rows = [
        {**chat("<image>" * MARKS.get(name, 1) + "What?", "A pier."), "images": images}
        for name, (images, _, _) in IMAGE_FAULTS.items()
    ]
    path = write(tmp_path, *rows)

    shown = CliRunner().invoke(app, ["data", "check", str(path), "--images", str(tmp_path / "images"), "--json"])

    report = json.loads(shown.stdout)
    expected = [(row, row, place, code) for row, (_, place, code) in enumerate(IMAGE_FAULTS.values(), start=1) if code]
    assert [(e["row"], e["line"], e["path"], e["code"]) for e in report["errors"]] == expected
    assert (report["rows"], report["rejected"]) == (len(IMAGE_FAULTS), len(expected))
    assert report["accepted_rows"] == [n for n, (_, _, code) in enumerate(IMAGE_FAULTS.values(), start=1) if not code]
    assert shown.exit_code == 1


def test_the_same_faults_are_found_in_a_zip_where_no_link_can_lie(tmp_path: Path) -> None:
    write_images(tmp_path / "images")
    faults = {name: fault for name, fault in IMAGE_FAULTS.items() if name not in ("a folder", "through a link")}
    rows = [
        {**chat("<image>" * MARKS.get(name, 1) + "What?", "A pier."), "images": images}
        for name, (images, _, _) in faults.items()
    ]
    files = {file.name: file.read_bytes() for file in (tmp_path / "images").iterdir() if file.is_file()}
    del files["link.png"]

    report = data_check.check_file(pack(tmp_path / "rows.zip", rows, files), is_vision=True)

    expected = [(row, place, code) for row, (_, place, code) in enumerate(faults.values(), start=1) if code]
    assert [(e["row"], e["path"], e["code"]) for e in report.errors] == expected


def test_an_image_part_that_holds_no_image_is_named_where_it_stands(tmp_path: Path) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": as_url(GOOD).partition(",")[2]}
    parts = [{"type": "text", "text": "What?"}, {"type": "image", "source": source}]
    rows = [chat(parts, "A pier."), {**chat(parts, "A pier."), "images": ["good.png"]}]  # type: ignore[arg-type]

    report = data_check.check_file(pack(tmp_path / "rows.zip", rows, {"good.png": GOOD}), is_vision=True)

    assert report.accepted_rows == [2]
    assert [(e["row"], e["path"], e["code"]) for e in report.errors] == [(1, "messages[0].content[1]", "image_count")]


def test_rows_that_ask_the_same_of_other_images_repeat_nothing(tmp_path: Path) -> None:
    files = {f"{colour}.png": picture(colour=colour) for colour in ("red", "blue")}
    rows = [
        {**chat("<image>What is it?", "A pier."), "images": ["red.png"]},
        {**chat("<image>What is it?", "A pier."), "images": ["blue.png"]},
        {**chat("<image>What is it?", "A boat."), "images": ["blue.png"]},
        {**chat("<image>What  is it?", "A pier."), "images": "red.png"},
        chat([{"type": "image", "image": "red.png"}, {"type": "text", "text": "What is it?"}], "A pier."),  # type: ignore[arg-type]
    ]

    report = data_check.check_file(pack(tmp_path / "rows.zip", rows, files), is_vision=True)

    assert report.accepted == 5
    assert [(w["row"], w["code"]) for w in report.warnings] == [(3, "contradiction"), (4, "copy"), (5, "duplicate")]


def test_a_warning_beside_an_image_stands_where_the_file_has_the_text(tmp_path: Path) -> None:
    row = {**chat("<image>Ask mara.lind@example.org", "A pier <b>here</b>."), "images": ["red.png"]}

    report = data_check.check_file(
        pack(tmp_path / "rows.zip", [row], {"red.png": picture(colour="red")}), is_vision=True
    )

    assert [(w["path"], w["code"]) for w in report.warnings] == [
        ("messages[0].content", "email"),
        ("messages[1].content", "html"),
    ]


def test_a_path_of_another_system_and_a_folder_are_told(tmp_path: Path) -> None:
    write_images(tmp_path / "images")
    rows = [{**chat("<image>?", "a"), "images": [name]} for name in ("sub\\good.png", "sub", "gone.png")]

    report = data_check.check_file(write(tmp_path, *rows), images=tmp_path / "images")

    assert [e["message"].partition(", ")[2] for e in report.errors] == [
        "and the folder of images has no such file; folders are divided by / and not by a backslash.",
        "which is a folder and no image.",
        "and the folder of images has no such file.",
    ]


def test_a_path_that_is_long_is_told_by_its_end(tmp_path: Path) -> None:
    path = write(tmp_path, {**chat("<image>?", "a"), "images": ["photos/" * 30 + "0001.png"]})
    (tmp_path / "images").mkdir()

    (error,) = data_check.check_file(path, images=tmp_path / "images").errors

    assert 'photos/0001.png", and the folder of images has no such file.' in error["message"]
    assert len(error["message"]) < 200
