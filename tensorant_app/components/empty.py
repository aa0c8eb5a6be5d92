"""What a list shows before it has anything: one sentence, one action, a second one, and the command to copy."""

from __future__ import annotations

from collections.abc import Sequence

import reflex as rx

from tensorant_app.components.buttons import copy_button
from tensorant_app.components.values import Node, Text, given


def empty_state(
    title: Text, sentence: Node, *, actions: Sequence[rx.Component] = (), command: Text = ""
) -> rx.Component:
    """`actions`: the solid one first, then at most one outline."""
    buttons = rx.el.div(*actions, class_name="row wrap") if actions else rx.fragment()
    line = command_line(command) if given(command) else rx.fragment()
    return rx.el.div(rx.el.h2(title, class_name="h2"), rx.el.p(sentence), buttons, line, class_name="empty")


def command_line(command: Text) -> rx.Component:
    """A command in mono with its copy button."""
    return rx.el.div(
        rx.el.code(command, class_name="mono grow"), copy_button(command, label="Copy the command"), class_name="cmd"
    )


def nothing_found(sentence: Node, clear: rx.Component | None = None) -> rx.Component:
    """A filter that matches nothing: not the same as an empty list."""
    return rx.el.div(rx.el.p(sentence), *([rx.el.div(clear, class_name="row")] if clear else []), class_name="empty")
