"""Lucide icons in the console's sizes, always beside a word or under a label."""

from __future__ import annotations

import reflex as rx


def icon(name: str, *, size: int = 15, spins: bool = False, class_name: str = "") -> rx.Component:
    """A drawing for the eye only; the word beside it, or the control's label, says the same."""
    small = {12: "i12", 13: "i13"}.get(size, "")
    words = " ".join(filter(None, [small, "spin" if spins else "", class_name]))
    return rx.icon(name, size=size, class_name=words, custom_attrs={"aria-hidden": "true"})


def brand_mark() -> rx.Component:
    """The T of Tensorant: a beam on a post."""
    return rx.el.svg(
        rx.el.rect(x="1", y="1", width="16", height="4", rx="1.5", custom_attrs={"fill": "var(--iris-9)"}),
        rx.el.rect(x="7", y="7", width="4", height="10", rx="1.5", custom_attrs={"fill": "var(--gray-12)"}),
        view_box="0 0 18 18",
        custom_attrs={"aria-hidden": "true"},
    )
