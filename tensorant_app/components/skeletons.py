"""Gray shapes of what is coming, in its real height, so that nothing jumps when it comes."""

from __future__ import annotations

from collections.abc import Sequence

import reflex as rx


def line(width: str, *, block: bool = False) -> rx.Component:
    return rx.el.span(class_name="sk b" if block else "sk", style={"width": width}, aria_hidden=True)


def skeleton_rows(widths: Sequence[tuple[str, ...]], classes: Sequence[str], count: int = 3) -> rx.Component:
    """Table rows; each cell has one or two lines of the given widths."""
    cells = [
        rx.el.td(*[rx.el.div(line(width)) for width in lines], class_name=words)
        for lines, words in zip(widths, classes, strict=True)
    ]
    return rx.fragment(*[rx.el.tr(*cells) for _ in range(count)])


def skeleton_card(lines: int = 4, title: bool = True) -> rx.Component:
    """A card that is on its way."""
    head = rx.el.div(line("120px"), class_name="ch") if title else rx.fragment()
    widths = ["92%", "78%", "86%", "64%"]
    body = [rx.el.div(line(widths[n % 4]), style={"padding": "5px 0"}) for n in range(lines)]
    return rx.el.section(
        head, rx.el.div(*body, class_name="cb"), class_name="card", aria_busy=True, aria_label="Loading", role="status"
    )


def skeleton_page() -> rx.Component:
    """Head and two cards, for a page whose first answer is not here yet."""
    head = rx.el.div(
        rx.el.div(line("220px"), style={"padding": "12px 0"}), line("320px"), style={"margin_bottom": "20px"}
    )
    return rx.el.div(head, rx.el.div(skeleton_card(3), skeleton_card(6), class_name="stack"))
