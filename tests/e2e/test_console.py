"""The console in a real browser: the door, the socket behind it, and what survives a kill."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import PASSWORD, Stack, let_in, sign_in, start_stack, stop_stack
from tests.e2e.sockets import Turned, talk
from tests.ports import free_port

pytestmark = pytest.mark.slow


class TestTheDoor:
    def test_leads_to_where_one_wanted_to_go(self, page: Page, stack: Stack) -> None:
        page.goto("/account")
        expect(page).to_have_url(re.compile(r"/sign-in/?\?next=/account"))

        page.get_by_label("E-mail address").fill(stack.email("viewer"))
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_have_text("E-mail address and password do not go together.")
        expect(page.get_by_label("E-mail address")).to_have_value(stack.email("viewer"))
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()

        expect(page).to_have_url(re.compile("/account"))
        expect(page.get_by_text("This browser", exact=True)).to_be_visible()

    def test_opens_no_socket_for_those_outside(self, page: Page, stack: Stack) -> None:
        sockets: list[str] = []
        page.on("websocket", lambda socket: sockets.append(socket.url))

        page.goto("/sign-in")
        page.goto("/set-up")
        page.wait_for_timeout(1000)

        assert sockets == []

    def test_closes_behind_one(self, page: Page, context: BrowserContext, stack: Stack) -> None:
        sign_in(page, stack, "member")
        page.goto("/account")
        expect(page.get_by_text("This browser", exact=True)).to_be_visible()

        page.get_by_role("main").get_by_role("button", name="Sign out", exact=True).click()

        expect(page).to_have_url(re.compile("/sign-in"))
        expect(page.get_by_role("status").filter(has_text="You are signed out.")).to_be_visible()
        page.go_back()
        page.reload()
        expect(page).to_have_url(re.compile("/sign-in"))

    def test_shows_the_name_in_every_tab_and_after_a_reload(self, context: BrowserContext, stack: Stack) -> None:
        let_in(context, stack)
        for tab in (context.new_page(), context.new_page()):
            tab.goto("/account")
            expect(tab.locator("#me-name")).to_have_text(stack.email("owner").partition("@")[0])
            tab.reload()
            expect(tab.locator("#me-name")).to_have_text(stack.email("owner").partition("@")[0])


class TestTheSocket:
    def hears(self, stack: Stack, **headers: str) -> bool:
        """Whether anything at all is said to who connects so."""
        with talk(stack.port, headers) as socket:
            try:
                return bool(socket.hear())
            except Turned as turned:
                return turned.args != (403,)

    def test_speaks_with_our_own_pages(self, stack: Stack) -> None:
        assert self.hears(stack, Origin=stack.url, Cookie=stack.cookies("viewer"))

    def test_says_nothing_to_nobody(self, stack: Stack) -> None:
        assert not self.hears(stack, Origin=stack.url)
        assert not self.hears(stack)

    @pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:1", "null"])
    def test_says_nothing_to_another_site_with_our_cookie(self, stack: Stack, origin: str) -> None:
        assert not self.hears(stack, Origin=origin, Cookie=stack.cookies("owner"))


class TestAnEndedSession:
    def test_is_said_and_what_was_typed_is_still_there(self, context: BrowserContext, page: Page, stack: Stack) -> None:
        sign_in(page, stack, "admin")
        page.goto("/account")
        expect(page.get_by_text("This browser", exact=True)).to_be_visible()
        page.get_by_label("New password").fill("half typed")

        other = context.new_page()
        other.goto("/account")
        other.get_by_role("main").get_by_role("button", name="Sign out everywhere").click()
        expect(page.get_by_text("Your session has ended.")).to_be_visible(timeout=30_000)
        expect(page.get_by_label("New password")).to_have_value("half typed")

        sign_in(other, stack, "admin")
        expect(page.get_by_text("Your session has ended.")).to_be_hidden(timeout=30_000)
        expect(page.get_by_label("New password")).to_have_value("half typed")


class TestAKill:
    def test_of_the_web_process_is_mended_and_one_is_still_signed_in(self, page: Page, stack: Stack) -> None:
        sign_in(page, stack, "admin")
        page.goto("/account")
        expect(page.get_by_text("This browser", exact=True)).to_be_visible()
        page.get_by_label("New password").fill("half typed")
        before = stack.child("tensorant_app.web")

        before.kill()
        stack.wait_until_open()

        assert stack.child("tensorant_app.web").pid != before.pid
        expect(page.locator("html:not([data-connection])")).to_be_attached()
        page.wait_for_timeout(1500)
        expect(page.get_by_label("New password")).to_have_value("half typed", timeout=15_000)
        page.get_by_role("button", name="End").first.click()
        expect(page.get_by_role("main")).to_have_attribute("data-hydrated", "1")
        expect(page.locator("#me-name")).to_be_visible()
        page.reload()
        expect(page.get_by_text("This browser", exact=True)).to_be_visible()


class TestTheFirstStart:
    def test_prints_a_link_that_makes_the_owner(self, tmp_path: Path, browser_page: Page) -> None:
        stack = start_stack(tmp_path / "data")
        try:
            assert stack.process.stdout is not None
            link = next(line.strip() for line in stack.process.stdout if "/api/links/" in line)

            browser_page.goto(link)
            browser_page.get_by_label("Organization").fill("Acme")
            browser_page.get_by_label("Your name").fill("Ada")
            browser_page.get_by_label("E-mail address").fill("ada@acme.example")
            browser_page.get_by_label("Password").fill(PASSWORD)
            browser_page.get_by_role("button", name="Set up").click()
            browser_page.goto(f"{stack.url}/account")

            expect(browser_page.locator("#me-name")).to_have_text("Ada")
            assert "/api/links/" in stack.run("admin", "add-member", "bob@acme.example", "--organization", "Acme")
        finally:
            stop_stack(stack)

    @pytest.fixture
    def browser_page(self, browser: object) -> Page:
        context = browser.new_context()  # type: ignore[attr-defined]
        yield context.new_page()  # type: ignore[misc]
        context.close()


class TestTheCommand:
    def test_refuses_a_public_address_before_there_is_an_owner(self, tmp_path: Path) -> None:
        env = {"PATH": "/usr/bin:/bin", "TENSORANT_DATA_DIR": str(tmp_path / "data")}
        argv = [sys.executable, "-m", "tensorant_app.cli", "up", "--host", "0.0.0.0", "--port", str(free_port())]

        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)

        assert done.returncode == 1
        assert "does not listen on 0.0.0.0 yet" in done.stderr
        assert "TENSORANT_ORIGIN" in done.stderr

    def test_refuses_a_port_in_use(self, stack: Stack, tmp_path: Path) -> None:
        env = {"PATH": "/usr/bin:/bin", "TENSORANT_DATA_DIR": str(tmp_path / "data")}
        argv = [sys.executable, "-m", "tensorant_app.cli", "up", "--port", str(stack.port)]

        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)

        assert done.returncode == 1
        assert f"cannot listen on 127.0.0.1:{stack.port} (Address already in use)" in done.stderr

    def test_makes_links_that_sign_in_once(self, stack: Stack, page: Page) -> None:
        printed = stack.run("admin", "sign-in-link", stack.email("viewer"))
        link = re.search(r"http\S+", printed)
        assert link is not None

        page.goto(link[0])
        page.goto("/account")
        expect(page.locator("#me-name")).to_be_visible()
        page.context.clear_cookies()
        page.goto(link[0])
        expect(page.get_by_role("alert")).to_contain_text("has been used")

    def test_makes_an_owner_who_chooses_a_password(self, stack: Stack, page: Page) -> None:
        printed = stack.run("admin", "create-owner", "eve@beta.example", "--organization", "Beta")
        link = re.search(r"http\S+", printed)
        assert link is not None

        page.goto(link[0])
        page.get_by_label("New password").fill("another good one")
        page.get_by_role("button", name="Set the password").click()
        page.goto("/account")

        expect(page.get_by_role("main").get_by_text("eve@beta.example")).to_be_visible()
        again = stack.run("admin", "reset-password", "eve@beta.example")
        assert "/api/links/" in again


def test_an_address_of_no_project_leads_into_none(page: Page, context: BrowserContext, stack: Stack) -> None:
    let_in(context, stack)

    page.goto("/projects/00000000-0000-0000-0000-000000000000/runs")

    expect(page.get_by_role("link", name="All projects")).to_be_visible()
    assert page.locator("a[href*='/projects//'], a[href*='/projects/0000']").count() == 0


def test_the_first_page_costs_little_over_the_wire(page: Page, context: BrowserContext, stack: Stack) -> None:
    let_in(context, stack)
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    kinds: dict[str, str] = {}
    arrived: dict[str, int] = {}
    session.on("Network.responseReceived", lambda event: kinds.update({event["requestId"]: event["type"]}))
    session.on(
        "Network.loadingFinished",
        lambda event: arrived.update({event["requestId"]: int(event["encodedDataLength"])}),
    )

    page.goto("/account")
    expect(page.get_by_text("This browser", exact=True)).to_be_visible()

    code = sum(size for request, size in arrived.items() if kinds.get(request) in ("Script", "Stylesheet"))
    assert 0 < code <= 400_000


def test_logs_hold_no_cookie(stack: Stack) -> None:
    secret = stack.cookies("owner").partition("=")[2]
    with talk(stack.port, {"Origin": stack.url, "Cookie": stack.cookies("owner")}) as socket:
        socket.hear()
        socket.say("40/_event,")
        socket.hear()
        socket.say('42/_event,["event",{"name":"reflex___state____state.no_such_event","payload":{},"router_data":{}}]')
        time.sleep(2)

    log = (stack.data_dir / "logs" / "web.log").read_text()
    assert "no_such_event" in log
    assert secret not in log


def test_health_names_every_part(stack: Stack) -> None:
    with urllib.request.urlopen(f"{stack.url}/health") as answer:
        text = answer.read().decode()
    for part in ("redis", "database", "provider", "versions"):
        assert f'"{part}"' in text
