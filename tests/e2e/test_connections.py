"""Connections in a real browser: the owner acts, the others see the same and read why not."""

from __future__ import annotations

import subprocess
import sys

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.axe import serious_findings
from tests.e2e.conftest import Stack, let_in

pytestmark = pytest.mark.slow

_CONNECT = """
import sys
from sqlmodel import select
from tensorant_app.db.organizations import Member, User
from tensorant_app.db.session import unit_of_work
from tensorant_app.domain.connections import ConnectionKind, ConnectionState
from tensorant_app.services import connecting
from tensorant_app.services.connecting import CheckResult, VolumeFacts
from tests.factories import connect
with unit_of_work() as session:
    user = session.exec(select(User).where(User.email == sys.argv[1])).one()
    organization = session.exec(select(Member).where(Member.user_id == user.id)).one().organization_id
    storage = connect(session, organization, ConnectionKind.RUNPOD_STORAGE)
    facts = VolumeFacts("tune", 100, "EU-RO-1", "STANDARD")
    connecting.note_check(session, storage.id, None, CheckResult(ConnectionState.OK, "It can be written.", facts))
"""


def open_page(context: BrowserContext, stack: Stack, name: str, heard: list[str] | None = None) -> Page:
    """`heard`: filled with everything that the server says to the page."""
    let_in(context, stack, name)
    page = context.new_page()
    if heard is not None:
        page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: heard.append(str(frame))))
    page.goto("/connections")
    expect(page.get_by_role("heading", name="RunPod compute")).to_be_visible()
    return page


def test_an_owner_pastes_a_key_which_is_never_seen_again(context: BrowserContext, stack: Stack) -> None:
    heard: list[str] = []
    page = open_page(context, stack, "owner", heard)
    page.get_by_role("button", name="Connect RunPod compute").click()
    page.get_by_label("API key").fill("too short")
    page.get_by_role("button", name="Save and check").click()
    expect(page.get_by_role("alert").filter(has_text="12 to 300 characters").first).to_be_visible()

    page.get_by_label("API key").fill("rpa_PASTEDINTHEBROWSER4321")
    page.get_by_role("button", name="Save and check").click()

    expect(page.get_by_text("…4321")).to_be_visible()
    expect(page.get_by_label("API key")).to_have_count(0)
    page.reload()
    expect(page.get_by_text("…4321")).to_be_visible()
    assert heard
    assert not [frame for frame in heard if "PASTEDINTHEBROWSER" in frame]
    assert "PASTEDINTHEBROWSER" not in page.content()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.get_by_role("alertdialog").get_by_role("button", name="Remove", exact=True).press("Space")
    expect(page.get_by_role("button", name="Connect RunPod compute")).to_be_visible()


@pytest.mark.parametrize("name", ["viewer", "member", "admin"])
def test_the_others_see_how_it_is_and_why_they_cannot_change_it(
    context: BrowserContext, stack: Stack, name: str
) -> None:
    subprocess.run(
        [sys.executable, "-c", _CONNECT, stack.email("owner")],
        env=stack.env,
        check=name == "viewer",
        capture_output=True,
    )

    page = open_page(context, stack, name)

    expect(page.get_by_text("$7.00")).to_be_visible()
    expect(page.get_by_text("Only an owner of the organization connects accounts.").first).to_be_visible()
    expect(page.get_by_role("button", name="Replace")).to_have_count(0)
    expect(page.get_by_role("button", name="Change")).to_have_count(1 if name == "admin" else 0)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_by_all(stack: Stack, context: BrowserContext, width: int, scheme: str) -> None:
    page = open_page(context, stack, "owner")
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_label("Run slots")).to_be_visible()

    assert serious_findings(page) == []
