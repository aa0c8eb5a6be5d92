"""What a page shows while a process works on data for it."""

from __future__ import annotations

import reflex as rx

from tensorant_app.components.cards import card
from tensorant_app.components.stats import progress
from tensorant_app.components.texts import meta
from tensorant_app.components.values import Node, if_


def working(
    title: str, words: Node, percent: rx.Var[int] | int = -1, label: str = "", *, stop: rx.Component | None = None
) -> rx.Component:
    """A card with a bar that `label` reads aloud; no bar while `percent` is below 0."""
    return card(
        rx.el.p(words, " This page follows by itself; you may leave it."),
        if_(percent >= 0, rx.el.div(progress(percent, label), style={"margin_top": "12px"})),
        title=title,
        right=[if_(percent >= 0, meta(f"{percent} %")), *([stop] if stop else [])],
    )
