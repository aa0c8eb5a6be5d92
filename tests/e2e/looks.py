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
_SPILLED = """() => [...document.querySelectorAll("main .card")].flatMap(card => {
  const edge = card.getBoundingClientRect().right + 1;
  return [...card.querySelectorAll("table, input, select, textarea, p, dl")]
    .filter(one => !one.closest(".scroll-x, .sr") && one.getBoundingClientRect().width > 0)
    .filter(one => one.getBoundingClientRect().right > edge)
    .map(one => `${one.tagName} in "${card.innerText.slice(0, 40)}"`);
})"""
"""What is wider than the card that it stands in: the page itself does not grow by it."""


def look(page: Page, name: str, widths: Sequence[int] = tuple(SIZES)) -> None:
    """In both themes and at each width nothing serious is found, and nothing is wider than the window."""
    kept = os.environ.get("TENSORANT_LOOKS")
    for width in widths:
        page.set_viewport_size({"width": width, "height": SIZES[width]})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            expect(page.locator(f"html.{scheme}")).to_be_attached()
            only = ["color-contrast"] if scheme == "dark" else []  # a theme changes nothing but colours
            assert serious_findings(page, *only) == [], f"{name}, {scheme}, {width}"
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name}, {width}"
            assert page.evaluate(_SPILLED) == [], f"{name}, {width}"
            if kept:
                page.screenshot(path=Path(kept) / f"{name}-{width}-{scheme}.png", full_page=True)
    page.set_viewport_size({"width": 1280, "height": SIZES[1280]})
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
