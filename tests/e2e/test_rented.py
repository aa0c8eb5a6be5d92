"""The ways out of trouble on rented machines, walked in a browser: console and RunPod are real processes that talk over HTTP."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect
from safetensors.numpy import save_file

from tensorant_app.db.machines import Machine
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import ConnectionKind
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.runs import RunState
from tensorant_app.services import connecting, recoveries
from tests.e2e.conftest import note_error
from tests.e2e.rented import LAYER, Site, open_site
from tests.runpod_emulator import Fault

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LIMIT = 0.1
"""Hours: as short as a maximum runtime may be."""
CLICK = 60_000
"""Milliseconds that a page may take to show what is so already, also on a computer with other work."""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """One for all: a console takes seconds to come up."""
    with open_site() as site:
        yield site


@pytest.fixture
def page(site: Site, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(base_url=site.stack.url, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(CLICK)
    expect.set_options(timeout=CLICK)
    name, value = site.cookie
    context.add_cookies([{"name": name, "value": value, "url": site.stack.url}])
    errors: list[str] = []
    context.on("weberror", lambda error: errors.append(str(error.error)))
    context.on("console", lambda message: note_error(errors, message))
    yield context.new_page()
    context.close()
    site.emulator.faults.clear()
    assert not errors


def press(page: Page, name: str | re.Pattern[str]) -> None:
    page.get_by_role("main").get_by_role("button", name=name).first.click()


def confirm(page: Page, name: str | re.Pattern[str]) -> None:
    page.get_by_role("alertdialog").get_by_role("button", name=name).click()


def launch(page: Page, site: Site, *, hours: float = 2.0, scores: bool = False) -> UUID:
    """Through the dialog, at the price that it shows."""
    run_id = site.console.draft(hours=hours)
    page.goto(site.path(run_id))
    press(page, "Launch on RunPod")
    dialog = page.get_by_role("alertdialog")
    expect(dialog.get_by_text("EU-RO-1")).to_be_visible()
    if not scores:
        dialog.get_by_role("switch").click()
    confirm(page, re.compile("Launch GPU · about"))
    expect(page.get_by_role("main").get_by_role("button", name="Cancel run")).to_be_visible()
    return run_id


def run_into_limit(site: Site, run_id: UUID) -> None:
    site.live_until_state(run_id, RunState.TRAINING)
    site.pass_time(minutes=7)
    site.live_until_state(run_id, RunState.NEEDS_RECOVERY)


def machine_of(site: Site, run_id: UUID) -> Any:
    machine = site.console.machine(run_id)
    assert machine is not None
    return machine


def can_be_confirmed(site: Site, run_id: UUID) -> bool:
    with reading() as session:
        return recoveries.show_recovery(session, site.console.caller, run_id).confirm_absent is None


def test_a_lost_launch_is_confirmed_absent_and_its_hidden_pod_is_caught_later(site: Site, page: Page) -> None:
    site.emulator.faults.arm(Fault.ANSWER_LOST)
    site.emulator.faults.arm(Fault.HIDDEN, seconds=1800)
    site.emulator.faults.arm(Fault.NEVER_STARTS)
    run_id = launch(page, site)
    site.live_until(lambda: bool(site.emulator.faults.fired))

    expect(page.get_by_text("The launch is being checked.")).to_be_visible()
    expect(page.get_by_text("Checking launch").first).to_be_visible()
    act = page.get_by_role("button", name="Confirm absent Pod")
    expect(act).to_be_disabled()
    site.pass_time(minutes=10)
    site.live_until(lambda: can_be_confirmed(site, run_id))
    expect(act).to_be_enabled()
    act.click()
    confirm(page, "Confirm absent Pod")

    expect(page.get_by_text("The run was cancelled.")).to_be_visible()
    assert site.console.run(run_id).state is RunState.CANCELLED
    press(page, "Create retry draft")
    expect(page.get_by_role("button", name="Launch on RunPod")).to_be_visible()
    name = f"tune-{run_id}"
    assert site.emulator.account.creates(name) == 1
    assert [pod.name for pod in site.emulator.account.alive()] == [name]

    site.pass_time(minutes=20)
    site.live_until(lambda: not site.emulator.account.alive())
    site.live_until(lambda: machine_of(site, run_id).state is MachineState.RELEASED)


def test_a_release_that_was_refused_is_retried_from_its_banner(site: Site, page: Page) -> None:
    site.emulator.faults.arm(Fault.DELETE_REFUSED, times=-1)
    run_id = launch(page, site)
    site.live_until_state(run_id, RunState.ADAPTER_READY)
    site.live_until(lambda: machine_of(site, run_id).state is MachineState.RELEASE_FAILED)

    expect(page.get_by_text("GPU release failed").first).to_be_visible()
    expect(page.get_by_role("link", name="Open Pod in RunPod").first).to_be_visible()
    page.goto("/projects")
    banner = page.get_by_role("status").filter(has_text="is not confirmed released")
    site.emulator.faults.clear()
    banner.get_by_role("button", name="Retry cleanup").click()
    site.live_until(lambda: machine_of(site, run_id).state is MachineState.RELEASED)

    expect(banner).to_be_hidden()
    page.goto(site.path(run_id))
    expect(page.get_by_text("Adapter ready").first).to_be_visible()
    expect(page.get_by_text("GPU release failed")).to_have_count(0)
    assert site.emulator.account.alive() == []


def test_an_adapter_that_was_finished_after_the_limit_is_found_by_verifying(site: Site, page: Page) -> None:
    site.train_like(is_deaf=True, step=100, package=240)
    site.emulator.faults.arm(Fault.DELETE_REFUSED, times=-1)
    run_id = launch(page, site, hours=LIMIT)
    run_into_limit(site, run_id)

    expect(page.get_by_text("Recover this run")).to_be_visible()
    site.pass_time(minutes=4)
    site.emulator.faults.clear()
    site.live_until(lambda: machine_of(site, run_id).state is MachineState.RELEASED)
    press(page, "Verify adapter")
    site.live_until_state(run_id, RunState.ADAPTER_READY)

    expect(page.get_by_text("Adapter ready").first).to_be_visible()
    expect(page.get_by_text("Recover this run")).to_be_hidden()
    assert len(site.emulator.account.alive()) == 0
    assert site.emulator.account.creates(f"tune-{run_id}") == 1


def test_a_run_at_its_limit_is_resumed_scored_and_judged(site: Site, page: Page) -> None:
    site.train_like(step=150)
    run_id = launch(page, site, hours=LIMIT, scores=True)
    run_into_limit(site, run_id)
    expect(page.get_by_text("Recover this run")).to_be_visible()
    press(page, "Verify adapter")
    expect(page.get_by_role("button", name="Looking …")).to_be_hidden()

    page.get_by_label("Maximum runtime", exact=True).fill("2")
    press(page, "Resume run")
    site.live_until_state(run_id, RunState.TRAINING)
    site.pass_time(minutes=5)
    site.live_until_state(run_id, RunState.COMPLETED, RunState.NO_GAIN)

    expect(page.get_by_text("Completed").first).to_be_visible()
    machines = [pod.name for pod in site.emulator.pods.values() if str(run_id) in pod.name]
    assert machines == [f"tune-{run_id}", f"tune-{run_id}-2"]
    site.live_until(lambda: not site.emulator.account.alive())


def ready_adapter(site: Site) -> UUID:
    """A run that was trained on RunPod and left unscored."""
    run_id = site.console.draft()
    site.console.launch(run_id, evaluates=False)
    site.live_until_state(run_id, RunState.ADAPTER_READY)
    site.live_until(lambda: not site.emulator.account.alive())
    return run_id


def evaluating_pods(site: Site) -> list[str]:
    return [pod.name for pod in site.emulator.account.alive() if pod.name.startswith("eval-")]


def test_an_adapter_and_a_baseline_are_scored_on_rented_machines_from_their_dialogs(site: Site, page: Page) -> None:
    run_id = ready_adapter(site)
    site.train_like(answer=600)
    page.goto(site.path(run_id))
    press(page, "Score the adapter")
    dialog = page.get_by_role("alertdialog")
    expect(dialog.get_by_text("EU-RO-1")).to_be_visible()
    expect(dialog).to_contain_text("Price$0.86 /h")

    limit, hours = (dialog.get_by_label(name, exact=True) for name in ("GPU list-price limit", "Maximum runtime"))
    limit.fill("0.10")
    limit.blur()
    expect(dialog).to_contain_text("$0.86/h is above the limit of $0.10/h.")
    expect(dialog.get_by_role("button", name=re.compile("Launch GPU"))).to_be_disabled()
    limit.fill("1.00")
    limit.blur()
    hours.fill("3")
    hours.blur()
    confirm(page, "Launch GPU · about $2.58 if all time is used")
    site.live_until(lambda: bool(evaluating_pods(site)))
    expect(page.get_by_text("Evaluating").first).to_be_visible()
    press(page, "Cancel run")
    confirm(page, "Cancel run")

    expect(page.get_by_text("The adapter is safe, and it has no score.")).to_be_visible()
    site.live_until(lambda: not site.emulator.account.alive())

    page.goto(site.path(run_id).rsplit("/runs/", 1)[0] + "/baseline")
    press(page, "Start a baseline")
    expect(dialog.get_by_text("EU-RO-1")).to_be_visible()
    confirm(page, re.compile(r"Launch GPU · about \$\d+\.\d\d if all time is used"))
    site.live_until(lambda: bool(evaluating_pods(site)))
    site.pass_time(minutes=5)

    rows = page.get_by_role("main").get_by_role("row")
    live = rows.filter(has=page.get_by_role("button", name="Cancel"))
    expect(live).to_contain_text(re.compile(r"\$0\.0[1-9]"))
    live.get_by_role("button", name="Cancel").click()
    confirm(page, "Cancel evaluation")
    expect(rows.filter(has_text="Cancelled").first).to_be_visible()
    site.live_until(lambda: not site.emulator.account.alive())


def test_a_zip_from_the_machines_own_disk_is_taken(site: Site, page: Page, tmp_path: Path) -> None:
    site.train_like(step=150)
    run_id = launch(page, site, hours=LIMIT)
    run_into_limit(site, run_id)
    with unit_of_work() as session:
        session.get_one(Machine, machine_of(site, run_id).id).options = {"storage": "pod"}

    page.get_by_label("adapter.zip").set_input_files(zipped(tmp_path))

    expect(page.get_by_text("Adapter ready").first).to_be_visible(timeout=60_000)
    expect(page.get_by_text("Recover this run")).to_be_hidden()
    with page.expect_download() as download:
        page.get_by_role("link", name="Adapter", exact=True).first.click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert "adapter_model.safetensors" in archive.namelist()


def test_without_a_network_volume_the_pod_is_stopped_and_its_zip_handed_in(
    site: Site, page: Page, tmp_path: Path
) -> None:
    """The last of them: the volume is disconnected for good."""
    site.live_until(lambda: not site.emulator.account.alive())
    site.live_until(lambda: has_disconnected_volume(site))
    site.train_like()
    run_id = site.console.draft()
    page.goto(site.path(run_id))
    press(page, "Launch on RunPod")
    expect(page.get_by_role("alertdialog")).to_contain_text("No network volume is connected.")
    confirm(page, re.compile("Launch GPU · about"))
    site.live_until_state(run_id, RunState.NEEDS_RECOVERY)
    site.live_until(lambda: machine_of(site, run_id).state is MachineState.STOPPED)

    says = page.get_by_text("The adapter lies on the stopped Pod as /workspace/data/adapter.zip.")
    expect(says).to_be_visible()
    assert [pod.status for pod in site.emulator.account.alive()] == ["EXITED"]
    page.get_by_label("adapter.zip").set_input_files(zipped(tmp_path))

    expect(page.get_by_text("Adapter ready").first).to_be_visible(timeout=60_000)
    site.live_until(lambda: not site.emulator.account.alive())


def has_disconnected_volume(site: Site) -> bool:
    """Refused while a machine may still be paid for."""
    with unit_of_work() as session:
        for one in connecting.list_connections(session, site.console.caller):
            if one.kind is ConnectionKind.RUNPOD_STORAGE:
                if one.used_by:
                    return False
                connecting.remove_connection(session, site.console.caller, one.id)
    return True


def zipped(folder: Path) -> Path:
    """A sound adapter of the site's base."""
    name = f"base_model.model.{LAYER}"
    matrices = {"A": np.ones((4, 64), np.float32), "B": np.ones((64, 4), np.float32)}
    save_file({f"{name}.lora_{half}.weight": matrix for half, matrix in matrices.items()}, folder / "weights")
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}
    with zipfile.ZipFile(folder / "adapter.zip", "w") as archive:
        archive.writestr("adapter_config.json", json.dumps(config))
        archive.write(folder / "weights", "adapter_model.safetensors")
    return folder / "adapter.zip"
