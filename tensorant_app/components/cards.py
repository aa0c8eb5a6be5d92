"""Page heads, cards and the columns they stand in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import reflex as rx

from tensorant_app.components.icons import icon
from tensorant_app.components.links import bare_link
from tensorant_app.components.values import Flag, Node, Text, given, if_, pick


def page_head(title: Node, *, sub: Sequence[Node] = (), actions: Sequence[rx.Component] = ()) -> rx.Component:
    """The page's one h1, the line under it, and its actions: one solid button at most."""
    under = rx.el.div(*[_span(part) for part in sub], class_name="sub") if sub else rx.fragment()
    acts = rx.el.div(*actions, class_name="acts") if actions else rx.fragment()
    heading = title if isinstance(title, rx.Component) else rx.el.h1(title, class_name="title")
    return rx.el.div(rx.el.div(heading, under, class_name="grow"), acts, class_name="head")


def title_with(title: Text, *beside: rx.Component) -> rx.Component:
    """A title with a small control beside it, such as the pencil that renames."""
    return rx.el.div(rx.el.h1(title, class_name="title"), *beside, class_name="row")


def card(
    *children: Node,
    title: Text = "",
    beside_title: Sequence[Node] = (),
    right: Sequence[Node] = (),
    padded: bool = True,
    bleeds_on_phone: bool = False,
) -> rx.Component:
    """A bordered panel. With a title it gets a head; `padded=False` for tables and lists that touch its edges."""
    parts: list[rx.Component] = []
    if given(title):
        aside = rx.el.div(*right, class_name="r") if right else rx.fragment()
        parts.append(rx.el.div(rx.el.h2(title, class_name="h3 strong"), *beside_title, aside, class_name="ch"))
    elif right or beside_title:
        parts.append(rx.el.div(*beside_title, rx.el.div(*right, class_name="r"), class_name="ch"))
    parts.extend([rx.el.div(*children, class_name="cb")] if padded else [_node(child) for child in children])
    return rx.el.section(*parts, class_name="card bleed" if bleeds_on_phone else "card")


def stack(*children: Node, tight: bool = False) -> rx.Component:
    return rx.el.div(*children, class_name="stack tight" if tight else "stack")


def columns(main: Sequence[Node], side: Sequence[Node], *, wide_side: bool = False) -> rx.Component:
    """The main column and a sticky side column of 300 px (316 in Configure); one below the other under 1024 px."""
    return rx.el.div(
        stack(*main),
        rx.el.aside(stack(*side), class_name="side"),
        class_name="cols wide" if wide_side else "cols",
    )


def grid(*children: Node, layout: Literal["two", "three", "md"] = "two") -> rx.Component:
    """Equal columns; `md` is a list of 400 px and what it chose."""
    return rx.el.div(*children, class_name=layout)


def row(*children: Node, wraps: bool = False, between: bool = False) -> rx.Component:
    words = "row" + (" wrap" if wraps else "") + (" between" if between else "")
    return rx.el.div(*children, class_name=words)


def toolbar(*children: Node) -> rx.Component:
    """Segments, search and filters above a list."""
    return rx.el.div(*children, class_name="tools")


def spacer() -> rx.Component:
    return rx.el.span(class_name="grow")


def rule() -> rx.Component:
    return rx.el.hr(class_name="rule")


def list_row(
    title: Node,
    under: Node,
    *aside: Node,
    href: Text = "",
    drawing: rx.Component | None = None,
    color: Literal["", "amber", "red"] = "",
    badges: Sequence[Node] = (),
) -> rx.Component:
    """One line of a card's list: what it is, why it stands here, and one action or some numbers."""
    name: Node = bare_link(rx.el.b(title), href=href, class_name="row-link") if given(href) else rx.el.b(title)
    top = rx.el.div(name, *badges, class_name="row wrap") if badges else name
    return rx.el.div(
        *([drawing] if drawing else []),
        rx.el.div(top, rx.el.span(under, class_name="meta"), class_name="tx"),
        *aside,
        class_name=f"li {color}".strip(),
    )


def choice(
    number: int,
    title: Node,
    text: Node,
    action: rx.Component,
    *extra: Node,
    state: Literal["", "done", "cur"] = "",
    badges: Sequence[Node] = (),
) -> rx.Component:
    """One of several ways out, in order; the sensible one is `cur` and owns the solid button."""
    return rx.el.div(
        rx.el.span(str(number), class_name=f"stepn {state}".strip()),
        rx.el.div(rx.el.div(rx.el.h3(title, class_name="h3"), *badges, class_name="row wrap"), rx.el.p(text), *extra),
        rx.el.div(action, class_name="act"),
        class_name="opt on" if state == "cur" else "opt",
    )


def group(title: Node, under: Node, count: Node, *rows: Node, is_open: Flag = False) -> rx.Component:
    """A kind of error with its count; unfolds to its rows. Rows: `group_row`."""
    return rx.el.details(
        rx.el.summary(
            icon("chevron_right"),
            rx.el.div(rx.el.div(title, class_name="strong"), rx.el.div(under, class_name="meta")),
            rx.el.span(count, class_name="num strong"),
        ),
        rx.el.div(*rows, class_name="rows"),
        class_name="grp",
        open=is_open,
    )


def group_row(number: Node, text: Node, *, on_click: object = None, is_chosen: Flag = False) -> rx.Component:
    events = {"on_click": on_click} if on_click is not None else {}
    return rx.el.button(
        rx.el.span(number, class_name="num gray"),
        rx.el.span(text, class_name="trunc"),
        type="button",
        custom_attrs={"aria-current": pick(is_chosen, "true", "false"), "data-row": ""},
        **events,
    )


def fold(summary: Node, *children: Node, is_open: Flag = False) -> rx.Component:
    """Folded details under one line."""
    return rx.el.details(
        rx.el.summary(icon("chevron_right", size=13), summary, class_name="plain"),
        *children,
        class_name="fold",
        open=is_open,
    )


def phone_dock(*children: Node) -> rx.Component:
    """The bottom bar of a phone: price, failed checks, Save."""
    return rx.el.div(*children, class_name="dock")


def _span(part: Node) -> Node:
    return part if isinstance(part, rx.Component) else rx.el.span(part)


def _node(child: Node) -> rx.Component:
    return child if isinstance(child, rx.Component) else if_(True, child)
