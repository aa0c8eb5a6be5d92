"""Tabs of a page, walked by the arrow keys; each may carry a count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import reflex as rx

from tensorant_app.components.values import Handler, Node, Text, given


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab and what it shows."""

    value: str
    label: str
    content: Node
    count: Text = ""


def tabs(items: Sequence[Tab], *, value: Text | None = None, on_change: Handler = None) -> rx.Component:
    """Uncontrolled without `value`: the first tab is open."""
    triggers = [rx.tabs.trigger(item.label, *_count(item.count), value=item.value) for item in items]
    bodies = [rx.tabs.content(item.content, value=item.value) for item in items]
    bar = rx.tabs.list(*triggers, class_name="tabs")
    if value is None:
        return rx.tabs.root(bar, *bodies, default_value=items[0].value)
    return rx.tabs.root(bar, *bodies, value=value, on_change=on_change)


def _count(count: Text) -> list[rx.Component]:
    return [rx.el.span(count, class_name="c")] if given(count) else []
