"""What eyes and hands do on a page."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

LONG = 120_000
"""Milliseconds: what a machine at work may take."""
STEP = re.compile(r"Step ([\d,]+) of ([\d,]+)")


def seen(locator: Locator) -> Locator:
    expect(locator.first).to_be_visible(timeout=LONG)
    return locator.first


def main_text(page: Page, words: str) -> Locator:
    return page.get_by_role("main").get_by_text(words, exact=True)


def press(page: Page, name: str, role: str = "button") -> None:
    page.get_by_role(role, name=name, exact=True).first.click()  # type: ignore[arg-type]


def arrive(page: Page, place: str) -> str:
    """Wait for an address that ends so; its last part."""
    page.wait_for_url(re.compile(rf"{place}/[0-9a-f-]{{36}}/?$"), timeout=LONG)
    return page.url.rstrip("/").rpartition("/")[2]


def step_of(page: Page) -> int:
    found = STEP.search(page.get_by_role("main").inner_text())
    return int(found[1].replace(",", "")) if found else 0


def wait_for_step(page: Page, step: int) -> None:
    """In training at this step or later, or past it."""
    page.wait_for_function(
        """([words, step]) => {
          const found = document.querySelector("main")?.innerText.match(new RegExp(words));
          return !document.title.startsWith("▶") || (found && Number(found[1].replaceAll(",", "")) >= step);
        }""",
        arg=[STEP.pattern, step],
        timeout=LONG,
    )
