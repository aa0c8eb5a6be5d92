"""The whole console dies or is restarted while a run's page is open: the run and the page go on."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from uuid import UUID

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlmodel import select

from tensorant_app import routes
from tensorant_app.db import migrate
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import Refused
from tensorant_app.domain.members import operator
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.sign_in import LinkKind
from tensorant_app.services import links, runs
from tensorant_app.services.demo import OWNER, Recipe, walk
from tensorant_app.settings import get_settings
from tests.e2e.hands import LONG, press, seen, step_of, wait_for_step
from tests.ports import free_port
from tests.whole.installation import Installation, tiny_recipe, wait_for
from trainer.contract import Base

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def installation(data_dir: Path, tiny_base: Base, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    """Up on a port that it keeps, with a run that trains for longer than the test."""
    monkeypatch.setenv("TENSORANT_PORT", str(free_port()))
    get_settings.cache_clear()
    settings = get_settings()
    (settings.bases_dir / "tiny").symlink_to(tiny_base.folder)
    migrate.upgrade()
    found = Installation(settings)
    found.up()
    recipe = tiny_recipe(data_dir.parent, epochs=100)
    long = replace(recipe, settings={**recipe.settings, "micro_batch_size": 1, "accumulation": 1})
    walking = Thread(target=walk_until_cancelled, args=(tiny_base, long))
    walking.start()
    yield found
    if (left := trained_run()) is not None:
        with unit_of_work() as session:
            runs.cancel_run(session, operator(), UUID(left[1]))
    walking.join(60)
    found.down()
    assert not walking.is_alive()


def walk_until_cancelled(base: Base, recipe: Recipe) -> None:
    with suppress(Refused):
        walk(base, recipe, lambda line: None)


@pytest.fixture
def page(installation: Installation, browser: Browser) -> Iterator[Page]:
    """The open page of the run, once it trains."""
    wait_for(lambda: trained_run() is not None, 120)
    project, run = trained_run() or ("", "")
    context = browser.new_context()
    page = context.new_page()
    with unit_of_work() as session:
        token = links.link_for(session, operator(), OWNER, LinkKind.SIGN_IN)
    page.goto(links.address_of(token))
    page.goto(f"{installation.settings.address}{routes.run(project, run)}")
    expect(page).to_have_title(re.compile("▶"), timeout=LONG)
    yield page
    context.close()


def trained_run() -> tuple[str, str] | None:
    with reading() as session:
        run = session.exec(select(Run).where(Run.state == RunState.TRAINING)).first()
        return (str(run.project_id), str(run.id)) if run else None


def kill(installation: Installation) -> None:
    """As a power cut of the console alone: no process of it is asked."""
    installation.kill_console()


def take_down(installation: Installation) -> None:
    assert installation.process is not None
    subprocess.run([sys.executable, "-m", "tensorant_app.cli", "down"], check=True)
    installation.process.wait(60)
    installation.process = None


def test_a_console_restarted_whole_is_found_again_by_the_open_page(installation: Installation, page: Page) -> None:
    machines = installation.machines("runs")
    assert len(machines) == 1

    for end in (kill, take_down):
        wait_for_step(page, before := step_of(page) + 10)
        end(installation)
        expect(page.locator("html[data-connection]")).to_be_attached(timeout=LONG)
        installation.up()
        expect(page.locator("html:not([data-connection])")).to_be_attached(timeout=LONG)
        wait_for_step(page, before + 20)
        expect(page).to_have_title(re.compile("▶"))
        seen(page.get_by_role("button", name="account menu"))
        assert installation.machines("runs") == machines, "the same process trains on"

    page.reload()
    expect(page).to_have_title(re.compile("▶"), timeout=LONG)
    press(page, "Cancel run")
    page.get_by_role("alertdialog").get_by_role("button", name="Cancel run").click()
    expect(page).to_have_title(re.compile("Cancelled"), timeout=LONG)
    wait_for(lambda: installation.machines("runs") == [], 60)
