"""Logs in mono: time, level, words; they follow their end unless one reads further up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import reflex as rx

from tensorant_app.components.buttons import copy_button
from tensorant_app.components.choices import switch
from tensorant_app.components.values import Flag, Handler, Node, Text, each, if_, is_empty, pick


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line; `level` is info, warning or error."""

    time: str
    level: str
    words: str


def log_view(
    title: Text,
    lines: Sequence[LogLine] | rx.Var[list[LogLine]],
    *,
    follows: Flag = True,
    on_follow: Handler = None,
    empty: Node = "Nothing was logged yet.",
    tools: Sequence[rx.Component] = (),
    name: str = "log",
) -> rx.Component:
    """A card of log lines. Give the page's newest few hundred; the whole file is a download among `tools`."""
    switched = [switch(f"{name}-follow", rx.el.span("Follow", class_name="meta"), checked=follows, on_change=on_follow)]
    head = rx.el.div(
        rx.el.h2(title, class_name="h3"),
        rx.el.div(
            *(switched if on_follow is not None else []),
            *tools,
            copy_button(label="Copy logs", from_selector=f"#{name}", words=True),
            class_name="r",
        ),
        class_name="ch",
    )
    body = rx.el.ol(
        *each(lines, _line),
        id=name,
        class_name="log",
        tab_index=0,
        custom_attrs={"data-follow": pick(follows, "true", "false"), "aria-label": title},
    )
    quiet = rx.el.div(empty, class_name="cb gray")
    return rx.el.section(head, if_(is_empty(lines), quiet, body), class_name="card")


def _line(line: LogLine) -> rx.Component:
    return rx.el.li(
        rx.el.span(line.time, class_name="ts"),
        rx.el.span(line.level, class_name="lv"),
        rx.el.span(line.words),
        class_name=line.level,
    )
