"""Sentences that need to be seen: callouts, the banner over every page, refusals and errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import reflex as rx

from tensorant_app.components.icons import icon
from tensorant_app.components.values import Node, Text, each, if_, if_text

Tone = Literal["gray", "amber", "red", "green"]
_ICON: dict[str, str] = {"gray": "info", "amber": "triangle_alert", "red": "circle_x", "green": "check"}


def callout(*children: Node, tone: Tone = "gray", is_alert: bool = False) -> rx.Component:
    """A sentence in a tinted box. `is_alert`: it appeared because of what the person did, so it is read aloud."""
    return rx.el.div(
        icon(_ICON[tone]),
        rx.el.div(*children, class_name="grow"),
        class_name=f"callout {tone}",
        **({"role": "alert"} if is_alert else {}),
    )


def banner(*children: Node, actions: Sequence[rx.Component] = ()) -> rx.Component:
    """Amber, under the top bar of every page: a machine is not confirmed released."""
    return rx.el.div(
        icon("triangle_alert"),
        rx.el.div(*children, class_name="grow"),
        *actions,
        class_name="banner",
        role="status",
    )


def refusal(error: Text, reasons: Sequence[str] | rx.Var[list[str]] = ()) -> rx.Component:
    """What `AppState.error` and `.reasons` say; nothing while they are empty."""
    items = rx.el.ul(*each(reasons, lambda reason: rx.el.li(reason)), class_name="reasons")
    some = reasons.length() > 0 if isinstance(reasons, rx.Var) else bool(reasons)
    box = callout(rx.el.span(error, class_name="strong"), if_(some, items), tone="red", is_alert=True)
    return if_text(error, rx.el.div(box, custom_attrs={"data-refusal": ""}))


def error_panel(
    what: Node, story: Node, *, actions: Sequence[rx.Component] = (), error_id: Text = "", details: Node | None = None
) -> rx.Component:
    """What failed, what it cost, what to do, and an id to quote; details are folded."""
    quote = rx.el.span(error_id, class_name="meta mono nowrap")
    folded = rx.fragment()
    if details is not None:
        summary = rx.el.summary(icon("chevron_right", size=13), "Details", class_name="plain")
        folded = rx.el.details(summary, rx.el.div(details, class_name="meta mono"), class_name="fold")
    return rx.el.div(
        callout(rx.el.div(what, class_name="strong"), story, tone="red"),
        rx.el.div(*actions, rx.el.span(class_name="grow"), quote, class_name="row wrap", style={"margin_top": "12px"}),
        folded,
    )
