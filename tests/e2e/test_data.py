"""From a messy file to a frozen version in a browser: mapped, read, looked through, mended, frozen."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tensorant_app import routes
from tests.data import chat, write_lines
from tests.e2e.conftest import Stack, let_in
from tests.e2e.hands import LONG, arrive, main_text, press, seen
from tests.e2e.looks import look
from tests.e2e.projects import make_project
from tests.pictures import pack, picture
from tests.tiny_base import make_tiny_base
from tests.tiny_vision import make_tiny_vision

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def project(stack: Stack) -> str:
    """With an empty dataset."""
    return make_project(stack, make_tiny_base(stack.data_dir / "bases" / "tiny-data"))


@pytest.fixture(scope="module")
def vision(stack: Stack) -> str:
    """The same of a base model that reads images."""
    return make_project(stack, make_tiny_vision(stack.data_dir / "bases" / "tiny-eyes"))


@pytest.fixture
def member(page: Page, context: BrowserContext, stack: Stack) -> Page:
    let_in(context, stack, "member")
    return page


def write_messy(path: Path) -> Path:
    """40 good rows under unknown names, one without a reply (row 11), one with a cell too many (row 21)."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["frage", "antwort", "abteilung"])
        for n in range(1, 43):
            row = [f"Where is my container {n}?", f"At quay {n % 7}, write to dock{n}@port.example", "tracking"]
            table.writerow({11: [*row[:1], "", "tracking"], 21: [*row, "one more"]}.get(n, row))
    return path


def test_a_messy_table_is_mapped_read_mended_and_frozen(member: Page, project: str, tmp_path: Path) -> None:
    page = member
    page.goto(routes.data(project))
    page.get_by_label("Choose a file").set_input_files(write_messy(tmp_path / "tickets.csv"))
    arrive(page, "imports")

    map_columns(page)
    see_errors(page)
    mend_rows(page)
    find_rows(page)
    freeze(page)


def map_columns(page: Page) -> None:
    seen(page.get_by_text("which is no layout that is known"))
    page.get_by_label("Layout").select_option("prompt_completion")
    seen(page.get_by_text("Choose the column that holds the prompt."))
    page.get_by_label("Prompt (the question)").select_option("frage")
    page.get_by_label("Completion (the reply)").select_option("antwort")
    seen(page.locator(".bubble.user").get_by_text("Where is my container 1?"))
    look(page, "import-mapping")
    press(page, "Start import")


def see_errors(page: Page) -> None:
    seen(page.get_by_text("Errors by kind"))
    page.get_by_role("link", name=re.compile("More or fewer cells than columns")).click()
    seen(page.get_by_text("it has 4 cells, and the header has 3 columns"))
    page.get_by_role("link", name=re.compile("An e-mail address")).click()
    seen(page.get_by_role("table", name="Rows of this kind").get_by_text("holds an e-mail address").first)
    with page.expect_download() as download:
        press(page, "Download the bad rows", "link")
    rows = [json.loads(line) for line in Path(download.value.path()).read_text(encoding="utf-8").splitlines()]
    assert [row["row"] for row in rows] == [11, 21]
    assert rows[1]["raw"].endswith(",tracking,one more")
    look(page, "import-errors")


def mend_rows(page: Page) -> None:
    """Row 11 gets its reply; row 5 is left out, taken back, and left out again."""
    page.get_by_role("link", name=re.compile("^With errors")).click()
    seen(page.get_by_role("heading", name="Row 11"))
    look(page, "import-rejected-row")
    press(page, "Edit")
    mended = {"frage": "Where is my container 11?", "antwort": ""}
    page.get_by_label("The row as JSON").fill(json.dumps(mended))
    press(page, "Save row")
    seen(page.get_by_role("alert").get_by_text("antwort is empty"))
    page.get_by_label("The row as JSON").fill(json.dumps(mended | {"antwort": "At quay 4."}))
    look(page, "import-editing")
    press(page, "Save row")
    seen(page.get_by_text("Row 11 changed", exact=True))
    seen(page.locator(".bubble").get_by_text("At quay 4."))

    page.get_by_role("link", name=re.compile("^Ready")).click()
    page.get_by_role("button", name="5 Where is my container 5?").click()
    seen(page.get_by_role("heading", name="Row 5"))
    press(page, "Leave out")
    seen(page.get_by_text("Row 5 left out", exact=True))
    press(page, "Undo")
    expect(page.get_by_text("Row 5 left out", exact=True)).to_have_count(0, timeout=LONG)
    press(page, "Leave out")
    seen(page.get_by_text("Row 5 left out", exact=True))
    look(page, "import-edited")


def find_rows(page: Page) -> None:
    page.keyboard.press("Escape")
    page.get_by_label("Search these rows").fill("CONTAINER 4")
    page.keyboard.press("Enter")
    expect(page.locator(".row-pick")).to_have_count(4, timeout=LONG)
    press(page, "Leave out all of these …")
    press(page, "Leave out 4 rows")
    seen(page.get_by_text("4 rows left out", exact=True))
    press(page, "Undo")
    expect(page.get_by_text("4 rows left out", exact=True)).to_have_count(0, timeout=LONG)
    page.get_by_label("Search these rows").fill("")
    page.keyboard.press("Enter")
    expect(page.locator(".row-pick")).to_have_count(41, timeout=LONG)


def freeze(page: Page) -> None:
    """40 rows: 40 read well, one was mended, one is left out, and one with errors stays out."""
    page.get_by_label(re.compile("Leave out the 1 row with errors")).check()
    press(page, "Make a version of 40 rows")
    arrive(page, "versions")
    press(page, "Check")
    seen(page.get_by_role("button", name="Freeze", exact=True))
    press(page, "Freeze")
    seen(page.get_by_role("alertdialog"))
    press(page, "Freeze version")
    seen(main_text(page, "Frozen"))
    page.get_by_label("Search these rows").fill("quay 4")
    page.keyboard.press("Enter")
    seen(page.get_by_role("button", name=re.compile("^11 Where is my container 11")))


def pictured_rows() -> list[dict[str, Any]]:
    """12 good ones, and one each with an image that is missing, broken and outside."""
    good = [{**chat(f"<image>What stands at quay {n}?", "A crane."), "images": [f"photos/{n}.jpg"]} for n in range(12)]
    bad = [{**chat("<image>And here?"), "images": [name]} for name in ("photos/gone.jpg", "cut.png", "../secret.png")]
    return [*good, *bad]


def pictures() -> dict[str, bytes]:
    good = {f"photos/{n}.jpg": picture("JPEG", (320 + 8 * n, 200), colour="teal") for n in range(12)}
    return {**good, "cut.png": picture()[:60]}


def test_rows_with_images_come_in_a_zip_are_looked_at_edited_and_frozen(
    member: Page, vision: str, tmp_path: Path
) -> None:
    page = member
    send_without_images(page, vision, write_lines(tmp_path / "quays.jsonl", pictured_rows()))
    page.goto(routes.data(vision))
    page.get_by_label("Choose a file").set_input_files(pack(tmp_path / "quays.zip", pictured_rows(), pictures()))
    arrive(page, "imports")
    seen(page.locator(".bubble.user").get_by_text("What stands at quay 0?"))
    look(page, "vision-mapping")
    press(page, "Start import")

    see_image_errors(page)
    edit_pictured_row(page)
    freeze_pictured(page)


def send_without_images(page: Page, project: str, rows: Path) -> None:
    """Refused before anybody maps a column, with what to pack; the page has said so before."""
    page.goto(routes.data(project))
    seen(page.get_by_text("Pack the file of rows and its images into one zip:"))
    look(page, "vision-data")
    page.get_by_label("Choose a file").set_input_files(rows)
    arrive(page, "imports")
    seen(page.get_by_text("Pack the file of rows and the folder of images into one zip"))
    look(page, "vision-refused")


def see_image_errors(page: Page) -> None:
    seen(page.get_by_text("Errors by kind"))
    for kind in (
        "An image that is not there",
        "An image that cannot be decoded",
        "A path outside the folder of images",
    ):
        seen(page.get_by_role("link", name=re.compile(kind)))
    page.get_by_role("link", name=re.compile("An image that is not there")).click()
    seen(page.get_by_text("photos/gone.jpg"))
    look(page, "vision-errors")


def shown_picture(page: Page) -> None:
    """A thumbnail that the browser has decoded."""
    picture = seen(page.locator(".shot"))
    assert picture.evaluate("async image => { await image.decode(); return image.naturalWidth }") > 100


def edit_pictured_row(page: Page) -> None:
    """Another question about the same image."""
    page.get_by_role("button", name=re.compile("^2 What stands at quay 1")).click()
    seen(page.get_by_role("heading", name="Row 2"))
    shown_picture(page)
    look(page, "vision-row")
    press(page, "Edit")
    shown_picture(page)
    look(page, "vision-editing")
    text = page.get_by_label("The row as JSON")
    text.fill(text.input_value().replace("What stands at quay 1?", "Which machine is that?"))
    press(page, "Save row")
    seen(page.get_by_text("Row 2 changed", exact=True))
    shown_picture(page)


def freeze_pictured(page: Page) -> None:
    page.get_by_label(re.compile("Leave out the 3 rows")).check()
    press(page, "Make a version of 12 rows")
    arrive(page, "versions")
    press(page, "Check")
    seen(page.get_by_role("button", name="Freeze", exact=True))
    press(page, "Freeze")
    press(page, "Freeze version")
    seen(main_text(page, "Frozen"))
    page.get_by_role("tab", name="As chat").click()
    shown_picture(page)
    look(page, "vision-frozen")
