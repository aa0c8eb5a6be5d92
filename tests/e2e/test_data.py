"""From a messy file to a frozen version in a browser: mapped, read, looked through, mended, frozen."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tensorant_app import routes
from tests.e2e.conftest import Stack, let_in
from tests.e2e.hands import LONG, arrive, main_text, press, seen
from tests.e2e.looks import look
from tests.tiny_base import make_tiny_base

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_PROJECT = """
import sys
from pathlib import Path
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.services import bases, imports, organizations, projects
from trainer.contract import Base
with reading() as session:
    caller = organizations.caller_of(session, sys.argv[1])
facts = bases.inspect_base(Base(sys.argv[2], sys.argv[3], sys.argv[4]))
with unit_of_work() as session:
    project = projects.create_project(session, caller, "Support triage", facts)
    imports.create_dataset(session, caller, project, "tickets")
print(project)
"""


@pytest.fixture(scope="module")
def project(stack: Stack) -> str:
    """With an empty dataset."""
    base = make_tiny_base(stack.data_dir / "bases" / "tiny-data")
    argv = [sys.executable, "-c", _PROJECT, stack.email("member"), base.repo_id, base.revision, base.folder]
    return subprocess.run(argv, env=stack.env, capture_output=True, text=True, check=True).stdout.split()[-1]


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
