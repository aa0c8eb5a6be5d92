"""Looking at an open page as everybody sees it: both themes, a desk and a phone.

`TENSORANT_LOOKS=folder` keeps a picture of every look.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.e2e.axe import serious_findings

SIZES = {1280: 900, 390: 844}
_BY_WIDTH = ("target-size", "scrollable-region-focusable")
_SPILLED = """() => [...document.querySelectorAll("main .card")].flatMap(card => {
  const edge = card.getBoundingClientRect().right + 1;
  return [...card.querySelectorAll("table, input, select, textarea, p, dl")]
    .filter(one => !one.closest(".scroll-x, .sr") && one.getBoundingClientRect().width > 0)
    .filter(one => one.getBoundingClientRect().right > edge)
    .map(one => `${one.tagName} in "${card.innerText.slice(0, 40)}"`);
})"""
"""What is wider than the card that it stands in: the page itself does not grow by it."""


def look(page: Page, name: str, widths: Sequence[int] = tuple(SIZES), *, within: str = "") -> None:
    """At each width nothing is wider than the window or its card, and nothing serious is found: at the first by all
    rules and in the dark as well, at others by what a width can change. `within` leaves out what has its own look."""
    kept = os.environ.get("TENSORANT_LOOKS")
    for width in widths:
        page.set_viewport_size({"width": width, "height": SIZES[width]})
        is_first = width == widths[0]
        _wear(page, "light")
        assert serious_findings(page, *(() if is_first else _BY_WIDTH), within=within) == [], f"{name}, light, {width}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name}, {width}"
        assert page.evaluate(_SPILLED) == [], f"{name}, {width}"
        if kept:
            page.screenshot(path=Path(kept) / f"{name}-{width}-light.png", full_page=True)
        # A theme changes nothing but colours.
        if kept or is_first:
            _wear(page, "dark")
            assert serious_findings(page, "color-contrast", within=within) == [], f"{name}, dark, {width}"
        if kept:
            page.screenshot(path=Path(kept) / f"{name}-{width}-dark.png", full_page=True)
    page.set_viewport_size({"width": 1280, "height": SIZES[1280]})
    page.emulate_media(color_scheme="light", reduced_motion="reduce")


def _wear(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    expect(page.locator(f"html.{scheme}")).to_be_attached()
