"""Whole journeys in a browser: from a file to a scorecard with real training, and a viewer's tour of what came of it.

`TENSORANT_PICTURES=1` writes the README's pictures anew. Every page's look is held by `test_looks.py`.
"""

from __future__ import annotations

import json
import os
import random
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tensorant_app import routes
from tests.e2e.conftest import PASSWORD, Stack, note_error
from tests.e2e.hands import LONG, arrive, main_text, press, seen, step_of, wait_for_step
from tests.e2e.looks import look
from tests.tiny_base import make_tiny_base

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TAKES_PICTURES = os.environ.get("TENSORANT_PICTURES") == "1"
EPOCHS = 30 if TAKES_PICTURES else 12
GOES_ON = re.compile("▶|Packaging|Evaluating|Completed|No gain")
"""Titles of a run that nothing has stopped; on a fast computer it may be past its training when the web is back."""
PINNED = "Invoice 4711 was charged twice"
OWNER, VIEWER = "ada@northwind.example", "vera@northwind.example"
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
TICKETS = {
    "account": ("Login {} is locked", "Login {} asks for a code that never comes", "Login {} has a new address"),
    "product": ("Error {} when I export", "Error {} after the update", "Error {} on my phone"),
    "billing": ("Invoice {} was charged twice", "Invoice {} shows the wrong amount", "Invoice {} has no VAT number"),
    "parcel": ("Parcel {} has not arrived", "Parcel {} came open", "Parcel {} went to my old address"),
}
SWITCHED_OFF = {
    "projects": ("New project", "Viewers cannot make projects"),
    "baseline": ("Start a baseline", "Viewers cannot start evaluations"),
    "runs": ("Configure a run", "Viewers only look"),
    "configure": ("Save training run", "Viewers only look"),
    "run-draft": ("Start on this computer", "Viewers only look"),
    "run-trial": ("Create full training draft", "Viewers only look"),
    "run-cancelled": ("Create retry draft", "Viewers only look"),
}
"""Place → the button that costs or changes something, and why a viewer may not press it."""
UNCLEAR = ("Ticket {} again, please", "About {} from last week")


@dataclass(frozen=True)
class Walked:
    """What the whole path leaves behind."""

    project: str
    version: str
    import_: str
    run: str
    cancelled: str
    draft: str
    scorecard: str
    baseline: str
    trial: str


def write_tickets(path: Path) -> None:
    """366 lines, two of them useless: one is cut off, one has no reply."""
    chooser = random.Random(3)
    numbers = chooser.sample(range(1000, 9999), 364)
    lines = []
    for number in numbers:
        team = chooser.choice(list(TICKETS))
        words = chooser.choice(UNCLEAR if chooser.random() < 0.15 else TICKETS[team]).format(number)
        said = {"system": "Name the team.", "user": words, "assistant": team}
        lines.append(json.dumps({"messages": [{"role": role, "content": text} for role, text in said.items()]}))
    lines.insert(40, lines[40][:57])
    lines.insert(90, json.dumps({"messages": [{"role": "user", "content": "Is anybody there?"}]}))
    path.write_text("\n".join(lines) + "\n")


def take_picture(page: Page, name: str, height: int) -> None:
    if not TAKES_PICTURES:
        return
    PICTURES.mkdir(exist_ok=True)
    page.set_viewport_size({"width": 1280, "height": height})
    page.evaluate("scrollTo(0, 0)")
    page.mouse.move(0, 0)
    page.screenshot(path=PICTURES / name)
    page.set_viewport_size({"width": 1280, "height": 900})


@contextmanager
def clean_context(browser: Browser, stack: Stack) -> Iterator[BrowserContext]:
    """Whatever a page says in its console as an error fails the test."""
    context = browser.new_context(base_url=stack.url, viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.set_default_timeout(LONG)
    errors: list[str] = []
    context.on("weberror", lambda error: errors.append(str(error.error)))
    context.on("console", lambda message: note_error(errors, message))
    yield context
    context.close()
    assert not errors


def link_of(stack: Stack, *command: str) -> str:
    found = re.search(r"http\S+", stack.run("admin", *command))
    assert found is not None
    return found[0]


def enter(page: Page, stack: Stack, email: str) -> None:
    """By a link that signs in once."""
    page.goto(link_of(stack, "sign-in-link", email))


def sign_in_first(page: Page, stack: Stack) -> None:
    """The owner of a new organization chooses a password, leaves, and signs in with it."""
    page.goto(link_of(stack, "create-owner", OWNER, "--organization", "Northwind"))
    stack.run("admin", "add-member", VIEWER, "--organization", "Northwind", "--role", "viewer")
    page.get_by_label("New password").fill(PASSWORD)
    press(page, "Set the password")
    page.wait_for_url(lambda url: "password" not in url)
    page.context.clear_cookies()
    page.goto("/sign-in")
    page.get_by_label("E-mail address").fill(OWNER)
    page.get_by_label("Password").fill(PASSWORD)
    press(page, "Sign in")
    page.wait_for_url(lambda url: "/sign-in" not in url)


def make_project(page: Page) -> str:
    page.goto(routes.PROJECTS)
    press(page, "New project", "link")
    page.get_by_label("Name").fill("Support triage")
    seen(page.get_by_label("Base model"))
    press(page, "Create project")
    page.wait_for_url(re.compile("/projects/[0-9a-f-]{36}/data"), timeout=LONG)
    return page.url.split("/projects/")[1].split("/")[0]


def import_tickets(page: Page, file: Path) -> str:
    """The two rows that cannot be used are shown with what is wrong."""
    seen(page.get_by_text("No data yet"))  # the page before has a name to fill in too
    page.get_by_label("Name").fill("tickets")
    press(page, "Make a dataset")
    page.get_by_label("Choose a file").set_input_files(file)
    made = arrive(page, "imports")
    seen(page.get_by_text("The first rows, as they would be read"))
    press(page, "Start import")
    seen(main_text(page, "The row ends in the middle"))
    seen(main_text(page, "No assistant reply").or_(main_text(page, "The last message is no reply")))
    with page.expect_download() as download:
        press(page, "Every fault", "link")
    assert len(Path(download.value.path()).read_text().splitlines()) == 2
    return made


def freeze_tickets(page: Page) -> str:
    page.get_by_label("Divide by").select_option("counts")
    for name, rows in (("Training", "240"), ("Validation", "24"), ("Test", "100"), ("Seed", "42")):
        page.get_by_label(name, exact=True).fill(rows)
    press(page, "Make a version of 364 rows")
    seen(page.get_by_role("main").get_by_role("alert"))
    page.get_by_label(re.compile("Leave out the 2 rows")).check()
    press(page, "Make a version of 364 rows")
    made = arrive(page, "versions")
    press(page, "Check")
    seen(page.get_by_role("button", name="Freeze", exact=True))
    press(page, "Freeze")
    seen(page.get_by_role("alertdialog"))
    press(page, "Freeze version")
    seen(main_text(page, "Frozen"))
    seen(page.get_by_role("table", name="Rows").or_(page.get_by_role("main").get_by_text("Invoice", exact=False)))
    look(page, "version-frozen")
    return made


def score_the_base(page: Page) -> None:
    press(page, "Baseline", "link")
    press(page, "Start a baseline")
    seen(page.get_by_role("alertdialog"))
    press(page, "Start baseline · $0")
    seen(main_text(page, "Completed"))


def pin_prompts(page: Page, project: str) -> None:
    """In the project's settings; every run answers them at its checkpoints."""
    page.goto(routes.project_settings(project))
    page.get_by_label("One prompt a line").fill(f"{PINNED}\nWhere is my parcel?")
    press(page, "Pin prompts")
    seen(page.get_by_text("Pinned", exact=True))
    look(page, "project-settings")


def try_first(page: Page, project: str) -> str:
    """A small trial measures what the full run would take, and leaves its draft."""
    page.goto(routes.configure(project))
    page.get_by_role("radio", name="Small training trial").click()
    for label, value in (("Trial training rows", "48"), ("Trial steps", "12"), ("Trial time limit", "10")):
        page.get_by_label(label, exact=True).fill(value)
        page.keyboard.press("Tab")
    seen(page.get_by_text("The settings below are those of the full run"))
    look(page, "configure-trial")
    trial = configure(page, project, "Triage, trial", EPOCHS, anew=False)
    seen(page.get_by_role("main").get_by_text("Trial", exact=True))
    start(page)
    seen(page.get_by_role("alertdialog").get_by_text("What the full run would take is what it measures."))
    look(page, "launch-trial")
    press(page, "Start on this computer · free")
    expect(page).to_have_title(re.compile("Completed"), timeout=LONG)
    seen(page.get_by_role("heading", name="Training trial report"))
    seen(page.get_by_role("table", name="Measurements of the training trial").get_by_text("12 of 12"))
    seen(main_text(page, f"{60 * EPOCHS:,} optimizer steps, 8 of 10 such runs"))
    seen(page.get_by_text("Neither a quality evaluation nor a quote"))
    expect(page.get_by_role("button", name="Create full training draft")).to_be_enabled(timeout=LONG)
    assert "adapter_model.safetensors" in download(page, "Diagnostic adapter").namelist()
    look(page, "trial-report")
    press(page, "Create full training draft")
    page.wait_for_url(lambda url: "/runs/" in url and trial not in url)
    seen(page.get_by_role("heading", name="Triage, trial full"))
    start(page)
    seen(page.get_by_role("alertdialog").get_by_text("From this run's trial", exact=False))
    look(page, "launch-measured")
    press(page, "Cancel")
    expect(page.get_by_role("alertdialog")).to_be_hidden(timeout=LONG)
    return trial


def configure(page: Page, project: str, name: str, epochs: int, *, anew: bool = True) -> str:
    if anew:
        page.goto(routes.configure(project))
    page.get_by_label("Name", exact=True).fill(name)
    for label in ("Dataset version", "Completed baseline"):
        chooser = seen(page.get_by_label(label))
        if not chooser.input_value():
            chooser.select_option(index=1)
    typed = {
        "Epochs": str(epochs),
        "Learning rate": "5e-3",
        "Context length": "256",
        "Micro batch size": "4",
        "Gradient accumulation": "1",
    }
    for label, value in typed.items():
        page.get_by_label(label, exact=True).fill(value)
        page.keyboard.press("Tab")
    seen(page.get_by_text(re.compile(r"^\d+ passed$")))
    press(page, "Save training run")
    return arrive(page, "runs")


def start(page: Page) -> None:
    press(page, "Start on this computer")
    seen(page.get_by_role("alertdialog"))


def confirm(page: Page) -> None:
    press(page, "Start on this computer · free")
    expect(page).to_have_title(re.compile("▶"), timeout=LONG)


def survive_a_kill(page: Page, other: Page, stack: Stack) -> None:
    """Both tabs come back by themselves, still signed in, and go on showing the run."""
    before = step_of(page)
    web = stack.child("tensorant_app.web")
    web.kill()
    stack.wait_until_open()
    assert stack.child("tensorant_app.web").pid != web.pid
    for tab in (page, other):
        expect(tab.locator("html:not([data-connection])")).to_be_attached(timeout=LONG)
        wait_for_step(tab, before + 10)
        expect(tab).to_have_title(GOES_ON)
        seen(tab.get_by_role("button", name="account menu"))
    other.reload()
    wait_for_step(other, before + 10)
    expect(other).to_have_title(GOES_ON)
    seen(other.get_by_role("heading", name="Loss"))


def download(page: Page, name: str) -> zipfile.ZipFile:
    with page.expect_download() as found:
        press(page, name, "link")
    archive = zipfile.ZipFile(BytesIO(Path(found.value.path()).read_bytes()))
    assert archive.testzip() is None
    return archive


@pytest.fixture(scope="module")
def walked(stack: Stack, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Walked:
    """The whole path, by hand, as the owner; the web process is killed in the middle of the training."""
    make_tiny_base(stack.data_dir / "bases" / "tiny", can_stop=True)
    tickets = tmp_path_factory.mktemp("files") / "tickets-2026.jsonl"
    write_tickets(tickets)
    with clean_context(browser, stack) as context:
        page = context.new_page()
        sign_in_first(page, stack)
        project = make_project(page)
        import_ = import_tickets(page, tickets)
        version = freeze_tickets(page)
        score_the_base(page)
        pin_prompts(page, project)
        trial = try_first(page, project)
        run = configure(page, project, "Triage, first try", EPOCHS)
        start(page)
        confirm(page)

        other = context.new_page()
        other.goto(routes.run(project, run))
        expect(other).to_have_title(re.compile("▶"), timeout=LONG)
        wait_for_step(page, 40)
        survive_a_kill(page, other, stack)
        look(page, "run-training")
        wait_for_step(page, 60 * (EPOCHS - 5))
        take_picture(page, "run.png", 940)
        other.goto(routes.runs(project))
        seen(main_text(other, "Triage, first try"))
        look(other, "runs-live")

        expect(page).to_have_title(re.compile("Completed|No gain"), timeout=LONG)
        seen(page.get_by_role("link", name="Open scorecard"))
        seen(page.get_by_role("table", name="Measured at each checkpoint"))
        seen(main_text(page, PINNED))
        look(page, "run-ended")
        press(page, "Open scorecard", "link")
        scorecard = arrive(page, "evaluations")
        seen(page.get_by_role("heading", name="Row by row"))
        look(page, "scorecard")
        take_picture(page, "scorecard.png", 940)

        cancelled = configure(page, project, "Triage, longer", 60)
        start(page)
        confirm(page)
        press(page, "Cancel run")
        seen(page.get_by_role("alertdialog"))
        page.get_by_role("alertdialog").get_by_role("button", name="Cancel run").click()
        expect(page).to_have_title(re.compile("Cancelled"), timeout=LONG)
        press(page, "Create retry draft")
        page.wait_for_url(lambda url: "/runs/" in url and cancelled not in url)
        seen(page.get_by_role("button", name="Start on this computer"))
        draft = page.url.rstrip("/").rpartition("/")[2]
        page.goto(routes.evaluations(project))
        baseline = seen(page.get_by_role("main").get_by_role("link", name="Baseline")).get_attribute("href") or ""
    return Walked(project, version, import_, run, cancelled, draft, scorecard, baseline, trial)


def test_the_adapter_and_the_job_files_are_whole_and_hold_no_test_row(walked: Walked, stack: Stack, page: Page) -> None:
    enter(page, stack, OWNER)
    page.goto(routes.run(walked.project, walked.run))
    assert "adapter_model.safetensors" in download(page, "Adapter").namelist()

    files = download(page, "Job files")

    assert set(files.namelist()) == {"configuration.json", "train.jsonl", "validation.jsonl"}
    taken = (files.read("train.jsonl") + files.read("validation.jsonl")).decode().splitlines()
    frozen = (stack.data_dir / "store").rglob("test.parquet")
    tests = {row for path in frozen for row in pq.read_table(path, columns=["example"]).column(0).to_pylist()}
    assert len(taken) == 264
    assert len(tests) == 100
    assert not set(taken) & tests


class TestAViewer:
    def places(self, walked: Walked) -> dict[str, tuple[str, Callable[[Page], Locator]]]:
        """Address of every page → something that is only there once it has its data."""
        project = walked.project
        heading: Callable[[str], Callable[[Page], Locator]] = lambda name: (  # noqa: E731
            lambda page: page.get_by_role("main").get_by_role("heading", name=name)
        )
        text: Callable[[str], Callable[[Page], Locator]] = lambda words: lambda page: main_text(page, words)  # noqa: E731
        return {
            "projects": (routes.PROJECTS, text("Support triage")),
            "overview": (routes.overview(project), heading("Recent runs")),
            "data": (routes.data(project), text("tickets-2026.jsonl")),
            "import": (routes.import_(project, walked.import_), text("The row ends in the middle")),
            "version": (routes.version(project, walked.version), text("Frozen")),
            "baseline": (routes.baseline(project), text("Completed")),
            "runs": (routes.runs(project), text("Triage, first try")),
            "configure": (routes.configure(project), text("Readiness")),
            "run": (routes.run(project, walked.run), heading("Loss")),
            "run-trial": (routes.run(project, walked.trial), heading("Training trial report")),
            "run-cancelled": (routes.run(project, walked.cancelled), text("Create retry draft")),
            "run-draft": (routes.run(project, walked.draft), text("Start on this computer")),
            "evaluations": (routes.evaluations(project), text("Adapter against its baseline")),
            "scorecard": (routes.scorecard(project, walked.scorecard), heading("Row by row")),
            "scorecard-baseline": (walked.baseline, heading("Row by row")),
            "project-settings": (routes.project_settings(project), heading("Settings")),
            "account": (routes.ACCOUNT, text("This browser")),
        }

    def test_sees_every_page_and_is_told_why_nothing_can_be_done(
        self, walked: Walked, stack: Stack, context: BrowserContext, page: Page
    ) -> None:
        context.set_default_timeout(LONG)
        enter(page, stack, VIEWER)
        for place, (address, there) in self.places(walked).items():
            page.goto(address)
            seen(there(page))
            if place in SWITCHED_OFF:
                action, reason = SWITCHED_OFF[place]
                expect(page.get_by_role("button", name=action, exact=True).first).to_be_disabled()
                seen(page.get_by_role("main").get_by_text(reason).first)

    def test_takes_the_adapter_and_the_job_files_home(self, walked: Walked, stack: Stack, page: Page) -> None:
        enter(page, stack, VIEWER)
        page.goto(routes.run(walked.project, walked.run))

        assert "adapter_model.safetensors" in download(page, "Adapter").namelist()
        assert "train.jsonl" in download(page, "Job files").namelist()
