"""Numbers with gray units, times with their exact UTC, ids, and other small pieces of text."""

from __future__ import annotations

import reflex as rx

from tensorant_app.components.values import Node, Text, given, if_text


def meta(*children: Node, block: bool = False) -> rx.Component:
    """Second text, small and gray."""
    return rx.el.span(*children, class_name="meta block" if block else "meta")


def quantity(value: Node, unit: Text = "") -> rx.Component:
    """A number in text colour and its unit in gray: "1,428 of 2,340", "$0.86/h"."""
    return rx.el.span(value, *unit_after(unit), class_name="num")


def unit_after(unit: Text) -> list[rx.Component]:
    """The unit in gray after a space; one that begins with a slash ("/h") stands close."""
    if not given(unit):
        return []
    is_close = isinstance(unit, str) and unit.startswith(("/", " "))
    return [rx.el.span(unit if is_close else rx.fragment(" ", unit), class_name="unit")]


def mono(text: Text, *, small: bool = False) -> rx.Component:
    """An id, a machine's name, a hash."""
    return rx.el.span(text, class_name="mono meta" if small else "mono")


def when(relative: Text, exact: Text) -> rx.Component:
    """A time as people say it ("59 min"), with the exact UTC in its tooltip; both are made on the server."""
    return rx.el.time(relative, date_time=exact, title=exact, class_name="nowrap num")


def avatar(initials: Text, name: Text) -> rx.Component:
    return rx.el.span(initials, class_name="av", title=name, role="img", custom_attrs={"aria-label": name})


def keys(*names: str) -> rx.Component:
    return rx.fragment(*[rx.el.kbd(name, class_name="kbd") for name in names])


def twice(first: Node, second: Node) -> rx.Component:
    """A cell of two lines."""
    return rx.el.div(first, second, class_name="twice")


def dash_if_empty(text: Text) -> rx.Component:
    """The text, or an en dash in gray."""
    return if_text(text, rx.el.span(text), rx.el.span("–", class_name="gray"))


def spoken(text: Text) -> rx.Component:
    """Only for who listens."""
    return rx.el.span(text, class_name="sr")


def phone_only(text: Text) -> rx.Component:
    """A word that a desk's column head says already: "val. loss "."""
    return rx.el.span(text, class_name="phone-i meta")
