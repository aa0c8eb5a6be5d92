"""Each way out of trouble with a machine in a real browser, from rows as the faults leave them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.axe import serious_findings
from tests.e2e.conftest import Stack, let_in
from tests.e2e.looks import look

pytestmark = pytest.mark.slow

_SEED = """
import json, sys
from datetime import timedelta
from sqlmodel import select
from tensorant_app.db import clock
from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.machines import MachineState as M
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.runs import RunState as R
from tensorant_app.services import organizations
from tests.factories import ask_machine, connect, make_run, make_stray
with reading() as session:
    caller = organizations.caller_of(session, sys.argv[1])
with unit_of_work() as session:
    account = connect(session, caller.organization_id).id
    make_stray(session, caller.organization_id, account, name="tune-nobody-knows")
paths = {}
kinds = {"checking": (R.LAUNCHING, M.ASKED), "stuck": (R.FAILED, M.RELEASE_FAILED), "limit": (R.NEEDS_RECOVERY, M.RELEASED),
         "pod": (R.NEEDS_RECOVERY, M.RELEASED), "paused": (R.PAUSED, M.RELEASED), "training": (R.TRAINING, M.HELD)}
for name, (run_state, machine_state) in kinds.items():
    now = clock.now()
    run_id = make_run(caller, state=run_state, attempt=1, started_at=now - timedelta(hours=1), name=name)
    machine_id = ask_machine(caller, run_id, now)
    with unit_of_work() as session:
        row, then = session.get_one(Machine, machine_id), now - timedelta(minutes=30)
        row.state, row.rate, row.gpu_count, row.gpu_type = machine_state, HourlyRate.dollars("1.72"), 2, "NVIDIA L40S"
        row.ask_sent_at = row.answer_lost_at = row.absent_since = then
        row.absent_looks, row.data_center, row.provider_status, row.boots = 9, "EU-RO-1", "RUNNING", 2
        if machine_state is M.RELEASED:
            row.released_at = now
        if machine_state is M.RELEASE_FAILED:
            row.release_wanted_at, row.release_problem = then, "RunPod answered 500 to the delete call."
        if name == "pod":
            row.options = {"storage": "pod"}
        paths[name] = f"/projects/{session.get_one(Run, run_id).project_id}/runs/{run_id}"
print(json.dumps(paths))
"""


@pytest.fixture(scope="module")
def paths(stack: Stack) -> dict[str, str]:
    """Of an owner's organization of their own, so that no other test sees the banners."""
    make = "from tests.people import make_person; from tensorant_app.domain.members import Role; import json;"
    make += "person = make_person(Role.OWNER); print(json.dumps([person.email, person.cookies]))"
    stack.people["recoverer"] = json.loads(_python(stack, make))
    found: dict[str, str] = json.loads(_python(stack, _SEED, stack.email("recoverer")))
    return found


def _python(stack: Stack, code: str, *arguments: str) -> str:
    argv = [sys.executable, "-c", code, *arguments]
    return subprocess.run(argv, env=stack.env, check=True, capture_output=True, text=True).stdout.splitlines()[-1]


def visit(context: BrowserContext, stack: Stack, path: str) -> Page:
    let_in(context, stack, "recoverer")
    page = context.new_page()
    page.goto(path)
    return page


PANELS = {
    "checking": "Confirm absent Pod",
    "stuck": "Open Pod in RunPod",
    "limit": "Verify adapter",
    "pod": "Verify and recover the adapter",
    "paused": "Resume",
    "training": "Pause",
}
"""Run → words of what one can do about it."""


def test_every_panel_is_fit_to_be_seen(context: BrowserContext, stack: Stack, paths: dict[str, str]) -> None:
    page = visit(context, stack, "/connections")
    expect(page.get_by_text("tune-nobody-knows")).to_be_visible()
    look(page, "connections-unknown-machine")
    for name, said in PANELS.items():
        page.goto(paths[name])
        expect(page.get_by_text(said, exact=True).first).to_be_visible()
        look(page, f"panel-{name}")


def test_an_unconfirmed_launch_is_confirmed_absent_and_tried_again(
    context: BrowserContext, stack: Stack, paths: dict[str, str]
) -> None:
    page = visit(context, stack, paths["checking"])
    expect(page.get_by_text(f"tune-{paths['checking'].rpartition('/')[2]}").first).to_be_visible()
    page.get_by_role("button", name="Confirm absent Pod").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog.get_by_role("button", name="Keep looking")).to_be_focused()

    dialog.get_by_role("button", name="Confirm absent Pod").click()

    expect(page.get_by_text("The run was cancelled.")).to_be_visible()
    page.get_by_role("button", name="Create retry draft").first.click()
    expect(page.get_by_role("button", name="Start on this computer")).to_be_visible()


def test_the_banner_stands_on_every_page_and_leads_to_the_machine(
    context: BrowserContext, stack: Stack, paths: dict[str, str]
) -> None:
    page = visit(context, stack, "/projects")
    banner = page.get_by_role("status").filter(has_text="is not confirmed released")
    banner.get_by_role("link", name="Open").click()
    expect(page.get_by_text("The machine's release is not confirmed.")).to_be_visible()
    expect(page.get_by_text("EU-RO-1").first).to_be_visible()

    banner.get_by_role("button", name="Retry cleanup").click()

    # Nobody answers for the provider here, so that it may fail again at once: what counts is that it was asked for.
    page.get_by_role("tab", name="Events").click()
    again = page.get_by_role("row").filter(has_text="Releasing").filter(has_text="by a member")
    expect(again.first).to_be_visible()


def test_a_longer_limit_is_typed_and_the_run_queues_again(
    context: BrowserContext, stack: Stack, paths: dict[str, str]
) -> None:
    page = visit(context, stack, paths["limit"])
    hours = page.get_by_label("Maximum runtime", exact=True)
    hours.fill("2")
    page.get_by_role("button", name="Resume run").click()
    expect(page.get_by_text("Maximum runtime must be above").first).to_be_visible()

    hours.fill("12")
    page.get_by_role("button", name="Resume run").click()

    expect(page.get_by_text("Recover this run")).to_be_hidden()


def test_a_zip_that_is_none_is_refused_where_it_was_chosen(
    context: BrowserContext, stack: Stack, paths: dict[str, str]
) -> None:
    page = visit(context, stack, paths["pod"])
    file = {"name": "adapter.zip", "mimeType": "application/zip", "buffer": b"no zip at all"}
    page.get_by_label("adapter.zip").set_input_files(files=[file])  # type: ignore[list-item]

    expect(page.locator(".callout.red")).to_be_visible(timeout=60_000)
    expect(page.get_by_text("Recover this run")).to_be_visible()


def test_pause_and_resume(context: BrowserContext, stack: Stack, paths: dict[str, str]) -> None:
    page = visit(context, stack, paths["paused"])
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_text("The run is paused.")).to_be_hidden()


def test_an_unknown_machine_is_terminated_by_a_person(
    context: BrowserContext, stack: Stack, paths: dict[str, str]
) -> None:
    project = paths["paused"].split("/runs/")[0]
    page = visit(context, stack, project)
    expect(page.get_by_text("A machine that no run knows")).to_be_visible()
    page.get_by_role("link", name="Decide").click()
    page.get_by_role("button", name="Terminate").click()
    expect(page.get_by_role("alertdialog")).to_be_visible()
    page.wait_for_timeout(400)
    assert serious_findings(page) == []

    page.get_by_role("alertdialog").get_by_role("button", name="Terminate").click()

    expect(page.get_by_text("Being terminated")).to_be_visible()
