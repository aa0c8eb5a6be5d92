"""Two versions of one file in a browser: compared, taken home, looked through for words, and what nothing uses deleted."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tensorant_app import routes
from tests.data import chat, write_lines
from tests.e2e.conftest import Stack, let_in
from tests.e2e.hands import LONG, arrive, main_text, press, seen
from tests.e2e.looks import look
from tests.e2e.projects import make_project
from tests.tiny_base import make_tiny_base

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROWS = 40
WORD = "halyard"
"""No other journey writes it: the list of words is the whole organization's."""


@pytest.fixture
def owner(page: Page, context: BrowserContext, stack: Stack) -> Page:
    let_in(context, stack, "owner")
    return page


def test_versions_are_compared_taken_home_looked_through_and_deleted(owner: Page, stack: Stack, tmp_path: Path) -> None:
    page = owner
    project = make_project(stack, make_tiny_base(stack.data_dir / "bases" / "tiny-versions"))
    rows = [chat(f"Who mends sail {n}?", f"The {WORD} crew" if n == 3 else "The loft") for n in range(ROWS)]
    page.goto(routes.data(project))
    page.get_by_label("Choose a file").set_input_files(write_lines(tmp_path / "sails.jsonl", rows))
    sent = arrive(page, "imports")
    press(page, "Start import")

    frozen = make_version(page)
    press(page, "Freeze")
    press(page, "Freeze version")
    seen(main_text(page, "Frozen"))
    page.goto(routes.import_(project, sent))
    other = make_version(page, seed="7")

    compare(page)
    take_home(page)
    refuse_a_word(page, project, frozen)
    delete_what_nothing_uses(page, project, sent, other)


def make_version(page: Page, *, seed: str = "42") -> str:
    """Checked, and open."""
    seen(page.get_by_role("button", name=f"Make a version of {ROWS} rows"))
    page.get_by_label("Seed", exact=True).fill(seed)
    press(page, f"Make a version of {ROWS} rows")
    version = arrive(page, "versions")
    press(page, "Check")
    seen(page.get_by_role("button", name="Freeze", exact=True))
    return version


def compare(page: Page) -> None:
    """Another seed moves rows, and changes none."""
    page.get_by_label("Compare with").select_option(label="v1")
    said = re.compile(f"^{ROWS} rows are the same, (\\d+) of them in another split; 0 added, 0 removed, 0 changed.$")
    moved = said.search(seen(page.get_by_text(said)).inner_text())
    assert moved is not None
    expect(page.get_by_role("table", name="Rows that differ").get_by_text("Moved")).to_have_count(int(moved[1]))
    look(page, "version-compared")


def take_home(page: Page) -> None:
    with page.expect_download() as download:
        press(page, "JSONL", "link")
    with zipfile.ZipFile(download.value.path()) as archive:
        about = json.loads(archive.read("version.json"))
        files = [name for name in archive.namelist() if name.endswith(".jsonl")]
        lines = [line for name in files for line in archive.read(name).decode().splitlines()]
    assert about["dataset"] == "tickets"
    assert len(files) == 3
    assert len({json.loads(line)["messages"][0]["content"] for line in lines}) == len(lines) == ROWS
    assert sum(WORD in line for line in lines) == 1


def refuse_a_word(page: Page, project: str, frozen: str) -> None:
    """A frozen version is looked through again by the new list, and its rows stay as they are."""
    page.goto(routes.project_settings(project))
    page.get_by_label("Classifier", exact=True).fill("http://10.0.0.7/words")
    page.get_by_label("Words that no row may hold").fill(WORD)
    press(page, "Save words")
    seen(main_text(page, "Saved"))
    look(page, "safety-settings")
    # What was typed beside it is still there.
    press(page, "Save classifier")
    seen(page.get_by_text(re.compile("begins with https")))
    page.goto(routes.version(project, frozen))
    press(page, "Look through it again")
    seen(page.get_by_text("A run on this data is refused until it is removed."))
    look(page, "version-with-word")


def delete_what_nothing_uses(page: Page, project: str, sent: str, other: str) -> None:
    page.goto(routes.version(project, other))
    press(page, "Delete")
    press(page, "Delete version")
    page.wait_for_url(re.compile("/data/?$"), timeout=LONG)
    page.goto(routes.import_(project, sent))
    press(page, "Delete")
    seen(page.get_by_text("It is in use, so it is kept."))
    seen(page.get_by_role("alertdialog").get_by_role("listitem"))
    look(page, "import-in-use")
    press(page, "Keep it")
    page.goto(routes.data(project))
    page.get_by_role("tab", name="Versions").click()
    seen(page.get_by_role("link", name="v1"))
    expect(page.get_by_role("link", name="v2")).to_have_count(0)
    press(page, "Delete dataset")
    seen(page.get_by_role("alertdialog").get_by_text("1 file and 1 version."))
    page.get_by_role("alertdialog").get_by_role("button", name="Delete dataset").click()
    seen(page.get_by_text("No data yet"))
