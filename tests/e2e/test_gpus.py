"""The GPUs of RunPod in a real browser: chosen, counted, saved, and launched at the price that is shown."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.e2e.axe import serious_findings
from tests.e2e.conftest import Stack, let_in

pytestmark = pytest.mark.slow

_SEED = """
import sys
from dataclasses import replace
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import ConnectionKind
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.offers import Offer, Stock
from tensorant_app.services import offers, organizations
from tests.factories import connect, make_run
with reading() as session:
    caller = organizations.caller_of(session, sys.argv[1])
run_id = make_run(caller)
l40s = Offer("NVIDIA L40S", "L40S", 48 * 2**30, HourlyRate.dollars("0.86"), max_count=8, stock=Stock.HIGH,
             data_centers={"EU-RO-1": Stock.HIGH}, capability="8.9", cuda_versions=("12.8",))
found = [l40s, replace(l40s, gpu_type="NVIDIA L4", label="L4", rate=HourlyRate.dollars("0.39"), memory_bytes=24 * 2**30),
         replace(l40s, gpu_type="NVIDIA GH200", label="GH200", arch="arm64")]
with unit_of_work() as session:
    compute = connect(session, caller.organization_id)
    connect(session, caller.organization_id, ConnectionKind.RUNPOD_STORAGE)
    for count in (1, 2):
        offers.note_offers(session, compute.id, count, found, "")
    print(session.get_one(Run, run_id).project_id)
"""


@pytest.fixture(scope="module")
def project(stack: Stack) -> str:
    """Of the stranger's organization, whose account is connected: the other tests' people have none."""
    argv = [sys.executable, "-c", _SEED, stack.email("stranger")]
    return subprocess.run(argv, env=stack.env, check=True, capture_output=True, text=True).stdout.split()[-1]


def test_from_the_list_to_the_dialog(context: BrowserContext, stack: Stack, project: str) -> None:
    let_in(context, stack, "stranger")
    page = context.new_page()
    page.goto(f"/projects/{project}/runs/new")
    expect(page.get_by_role("radio", name=re.compile("^L4 ")).first).to_be_checked()
    expect(page.get_by_text("Recommended: the cheapest with a fifth of memory to spare")).to_be_visible()

    page.get_by_role("radiogroup", name="GPU count").get_by_role("radio", name="2", exact=True).click()
    page.get_by_text("L40S", exact=True).click()
    expect(page.get_by_text("$1.72/h", exact=True)).to_be_visible()
    expect(page.get_by_role("radio", name=re.compile("^L40S "))).to_be_checked()
    page.get_by_text("cannot be chosen now").click()
    expect(page.get_by_role("radio", name=re.compile("GH200.*arm64"))).to_be_disabled()
    page.get_by_role("button", name="Save training run").first.click()

    page.get_by_role("button", name="Launch on RunPod").click()
    dialog = page.get_by_role("alertdialog")
    for words in ("2 × L40S in EU-RO-1", "$1.72", "RunPod account …1234", "not a billing cap"):
        expect(dialog.get_by_text(words).first).to_be_visible()
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    expect(dialog.get_by_role("button", name="Launch GPU · about $10.32 if all time is used")).to_be_enabled()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_by_all(context: BrowserContext, stack: Stack, project: str, width: int, scheme: str) -> None:
    let_in(context, stack, "stranger")
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(f"/projects/{project}/runs/new")
    expect(page.get_by_text("Recommended").first).to_be_visible()

    assert serious_findings(page) == []
