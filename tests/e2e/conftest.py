"""The real stack on a free port: `tensorant up` over the built pages, and a browser."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tensorant_app.web import FRONTEND
from tests.ports import free_port

PASSWORD = "correct horse battery"
ROLES = ("viewer", "member", "admin", "owner")
_START_SECONDS = 60
_CHROMIUM = "/usr/bin/chromium"
_PEOPLE = """
import json, sys
from tests.people import make_person
from tensorant_app.domain.members import Role
owner = make_person(Role.OWNER)
people = {role: make_person(Role(role), organization_id=owner.organization_id) for role in ("viewer", "member", "admin")}
people |= {"owner": owner, "stranger": make_person(Role.OWNER)}
print(json.dumps({name: [person.email, person.cookies] for name, person in people.items()}))
"""


@dataclass(frozen=True)
class Stack:
    """A running installation with one person of each role, and the owner of another organization."""

    process: subprocess.Popen[str]
    data_dir: Path
    port: int
    people: dict[str, list[str]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        return {
            **os.environ,
            "TENSORANT_DATA_DIR": str(self.data_dir),
            "TENSORANT_PORT": str(self.port),
            # Nobody listens there: no test of these asks a provider that is not its own.
            "TENSORANT_RUNPOD_API_URL": "http://127.0.0.1:9/v2",
            "TENSORANT_RUNPOD_S3_URL": "http://127.0.0.1:9",
        }

    def email(self, name: str) -> str:
        return self.people[name][0]

    def cookies(self, name: str) -> str:
        return self.people[name][1]

    def run(self, *command: str) -> str:
        """`tensorant …` on this installation; what it prints."""
        argv = [sys.executable, "-m", "tensorant_app.cli", *command]
        return subprocess.run(argv, env=self.env, capture_output=True, text=True, check=True).stdout

    def child(self, module: str) -> psutil.Process:
        """One of the tree's processes."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            if module in " ".join(process.cmdline()):
                return process
        raise LookupError(f"There is no process of {module}.")

    def wait_until_open(self) -> None:
        give_up_at = time.monotonic() + _START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                    assert answer.status == 200
                    return
            except OSError:
                assert self.process.poll() is None, "The stack ended."
                assert time.monotonic() < give_up_at, "The stack did not start."
                time.sleep(0.1)


def start_stack(data_dir: Path) -> Stack:
    if not (FRONTEND / "build" / "client" / "index.html").exists():
        pytest.fail("The pages are not built: run `make frontend`.")
    stack = Stack(None, data_dir, free_port(), {})  # type: ignore[arg-type]
    with (data_dir.parent / "stack.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tensorant_app.cli", "up", "--port", str(stack.port)],
            env=stack.env,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    stack = Stack(process, data_dir, stack.port, {})
    stack.wait_until_open()
    return stack


def stop_stack(stack: Stack) -> None:
    stack.process.terminate()
    stack.process.wait(60)
    assert stack.process.stdout is not None
    stack.process.stdout.close()


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Shared by all tests that do not break it."""
    stack = start_stack(tmp_path_factory.mktemp("stack") / "data")
    try:
        made = subprocess.run(
            [sys.executable, "-c", _PEOPLE], env=stack.env, capture_output=True, text=True, check=True
        )
        yield Stack(stack.process, stack.data_dir, stack.port, json.loads(made.stdout))
    finally:
        stop_stack(stack)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # The sandbox of Chromium needs rights that a container rarely has; it only sees our own pages.
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(stack: Stack, browser: Browser) -> Iterator[BrowserContext]:
    """A browser of nobody's yet. Whatever a page says in its console as an error fails the test."""
    context = browser.new_context(base_url=stack.url)
    context.set_default_timeout(15_000)
    errors: list[str] = []
    context.on("weberror", lambda error: errors.append(str(error.error)))
    context.on("console", lambda message: note_error(errors, message))
    yield context
    context.close()
    assert not errors


def note_error(errors: list[str], message: Any) -> None:
    """A socket that is refused or a server that is gone is what some tests are about; the browser says so."""
    is_expected = re.search(r"Failed to load resource|WebSocket|net::ERR", message.text)
    if message.type == "error" and not is_expected:
        errors.append(message.text)


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


def sign_in(page: Page, stack: Stack, name: str = "owner") -> None:
    """Through the form, as people do."""
    page.goto("/sign-in")
    page.get_by_label("E-mail address").fill(stack.email(name))
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/sign-in" not in url)


def let_in(context: BrowserContext, stack: Stack, name: str = "owner") -> None:
    """By the cookie of a session that is there already."""
    cookie, _, token = stack.cookies(name).partition("=")
    context.add_cookies([{"name": cookie, "value": token, "url": stack.url}])
