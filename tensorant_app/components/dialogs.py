"""Questions before something costs money or ends: focus starts on Cancel, and Enter never confirms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import reflex as rx

from tensorant_app.components.buttons import Kind, button
from tensorant_app.components.callouts import refusal
from tensorant_app.components.forms import text_input
from tensorant_app.components.stats import Fact, Stat, data_list, prices
from tensorant_app.components.values import Flag, Handler, Node, Text, if_

_PAID = {"data-once": "", "data-no-enter": "", "aria-description": "Press Space to confirm."}


def paid_dialog(
    title: Text,
    lead: Node,
    *,
    price: Sequence[Stat],
    facts: Sequence[Fact],
    confirm_label: Text,
    is_open: Flag,
    on_open_change: Handler,
    on_confirm: Handler,
    busy: Flag = False,
    disabled: Flag = False,
    error: Text = "",
    reasons: Sequence[str] | rx.Var[list[str]] = (),
    extra: Node | None = None,
    must_tick: Flag = False,
    ticked: Flag = False,
    on_tick: Handler = None,
    trigger: rx.Component | None = None,
) -> rx.Component:
    """Verb and object in the title, what happens at the limit in the facts, the price in the button.

    `must_tick`: the estimate is more than half of what is left of the budget, so the person ticks it first.
    """
    tick = rx.el.label(
        rx.checkbox(checked=ticked, on_change=on_tick, size="1", class_name="ck"),
        "I know that this takes more than half of what is left.",
        class_name="tog",
        style={"margin_top": "14px"},
    )
    off = _either(disabled, _both(must_tick, _not(ticked)))
    return _alert(
        title,
        lead,
        prices(*price) if price else rx.fragment(),
        data_list(*facts, full=True) if facts else rx.fragment(),
        *([extra] if extra is not None else []),
        if_(must_tick, tick) if on_tick is not None else rx.fragment(),
        confirm=button(
            confirm_label, kind="solid", size="lg", on_click=on_confirm, busy=busy, disabled=off, attributes=_PAID
        ),
        cancel_label="Cancel",
        is_open=is_open,
        on_open_change=on_open_change,
        error=error,
        reasons=reasons,
        trigger=trigger,
    )


def named_dialog(
    title: Text,
    lead: Node,
    *,
    confirm_label: Text,
    cancel_label: Text = "Cancel",
    is_open: Flag,
    on_open_change: Handler,
    on_confirm: Handler,
    busy: Flag = False,
    error: Text = "",
    reasons: Sequence[str] | rx.Var[list[str]] = (),
    extra: Node | None = None,
    kind: Kind = "red",
    must_type: Text = "",
    typed: Text = "",
    on_type: Handler = None,
    disabled: Flag = False,
    trigger: rx.Component | None = None,
) -> rx.Component:
    """For what ends or deletes: both buttons say what they do ("Cancel run" / "Keep training").

    With `must_type` the person types that name first.
    """
    asks: rx.Component = rx.fragment()
    off = disabled
    if on_type is not None:
        off = _either(disabled, typed != must_type)
        asks = rx.el.div(
            rx.el.label(
                "Type ", rx.el.b(must_type, class_name="strong"), " to go on", html_for="must-type", class_name="lab"
            ),
            text_input("must-type", value=typed, on_change=on_type),
            class_name="f",
            style={"margin_top": "14px"},
        )
    return _alert(
        title,
        lead,
        *([extra] if extra is not None else []),
        asks,
        confirm=button(
            confirm_label, kind=kind, size="lg", on_click=on_confirm, busy=busy, disabled=off, attributes=_PAID
        ),
        cancel_label=cancel_label,
        is_open=is_open,
        on_open_change=on_open_change,
        error=error,
        reasons=reasons,
        trigger=trigger,
    )


def form_dialog(
    title: Text,
    lead: Node,
    *children: Node,
    actions: Sequence[rx.Component],
    is_open: Flag,
    on_open_change: Handler,
    trigger: rx.Component | None = None,
) -> rx.Component:
    """A small free form, such as renaming; closes by Esc and by clicking beside it."""
    content = rx.dialog.content(
        rx.dialog.title(title),
        rx.dialog.description(lead, class_name="lead"),
        *children,
        rx.el.div(*actions, class_name="foot"),
        class_name="dialog",
    )
    return rx.dialog.root(*_trigger(rx.dialog, trigger), content, open=is_open, on_open_change=on_open_change)


def _alert(
    title: Text,
    lead: Node,
    *body: Node,
    confirm: rx.Component,
    cancel_label: Text,
    is_open: Flag,
    on_open_change: Handler,
    error: Text,
    reasons: Sequence[str] | rx.Var[list[str]],
    trigger: rx.Component | None,
) -> rx.Component:
    cancel = rx.alert_dialog.cancel(button(cancel_label, kind="outline", size="lg"))
    content = rx.alert_dialog.content(
        rx.alert_dialog.title(title),
        rx.alert_dialog.description(lead, class_name="lead", size="2"),
        *body,
        rx.el.div(refusal(error, reasons), style={"margin_top": "14px"}),
        rx.el.div(cancel, confirm, class_name="foot"),
        class_name="dialog",
    )
    state = {"open": is_open, "on_open_change": on_open_change} if on_open_change is not None else {}
    return rx.alert_dialog.root(*_trigger(rx.alert_dialog, trigger), content, **state)


def _trigger(family: Any, trigger: rx.Component | None) -> list[rx.Component]:
    return [] if trigger is None else [family.trigger(trigger)]


def _not(flag: Flag) -> Flag:
    return ~flag if isinstance(flag, rx.Var) else not flag


def _both(one: Flag, other: Flag) -> Flag:
    if isinstance(one, rx.Var) or isinstance(other, rx.Var):
        return rx.Var.create(one) & other
    return one and other


def _either(one: Flag, other: Flag) -> Flag:
    if isinstance(one, rx.Var) or isinstance(other, rx.Var):
        return rx.Var.create(one) | other
    return one or other
