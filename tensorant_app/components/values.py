"""What components accept: plain Python values or state variables of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import reflex as rx

Text = str | rx.Var[Any]
Number = int | float | rx.Var[Any]
Flag = bool | rx.Var[Any]
Node = rx.Component | str | rx.Var[Any]
Handler = Any
"""An event handler, its partial, a list of them, or None; Reflex checks its arguments when the page is built."""

Item = TypeVar("Item")


def if_(flag: Flag, then: Node, otherwise: Node | None = None) -> rx.Component:
    """`then` where the flag holds: decided now for a plain value, in the browser for a variable."""
    other = rx.fragment() if otherwise is None else _component(otherwise)
    if isinstance(flag, rx.Var):
        return rx.cond(flag, _component(then), other)
    return _component(then) if flag else other


def given(node: Node) -> bool:
    """Whether anything was handed over at all; a variable counts, whatever it holds."""
    return not (isinstance(node, str) and node == "")


def if_text(text: Text, then: Node, otherwise: Node | None = None) -> rx.Component:
    """`then` where the text is not empty."""
    return if_(text if isinstance(text, rx.Var) else bool(text), then, otherwise)


def pick(flag: Flag, then: Text, otherwise: Text) -> Text:
    """One of two texts, by a plain value or by a variable."""
    if isinstance(flag, rx.Var):
        chosen: rx.Var[Any] = rx.cond(flag, then, otherwise)
        return chosen
    return then if flag else otherwise


def each(items: Sequence[Item] | rx.Var[Any], draw: Any) -> list[rx.Component]:
    """One component per item, of a sequence or of a list variable."""
    if isinstance(items, rx.Var):
        return [rx.foreach(items, draw)]
    return [draw(item) for item in items]


def is_empty(items: Sequence[Item] | rx.Var[Any]) -> Flag:
    if isinstance(items, rx.Var):
        empty: rx.Var[Any] = items.length() == 0
        return empty
    return len(items) == 0


def _component(node: Node) -> rx.Component:
    return node if isinstance(node, rx.Component) else rx.fragment(node)
