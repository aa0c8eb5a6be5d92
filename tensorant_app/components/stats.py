"""Numbers in boxes, lists of facts, and progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import reflex as rx

from tensorant_app.components.texts import unit_after
from tensorant_app.components.values import Flag, Node, Number, Text, given, if_


@dataclass(frozen=True, slots=True)
class Stat:
    """A label over a number."""

    label: Text
    value: Node
    unit: Text = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of a list: label, value, gray unit, and a second line in small gray."""

    label: Text
    value: Node
    unit: Text = ""
    under: Node = field(default="")
    shown: Flag = True


def stats(*items: Stat, on_phone_only: bool = False) -> rx.Component:
    """Counts side by side; `on_phone_only` for the three live numbers of a run's page."""
    boxes = [
        rx.el.div(
            rx.el.div(item.label, class_name="k"),
            rx.el.div(item.value, *unit_after(item.unit), class_name="v"),
        )
        for item in items
    ]
    return rx.el.div(*boxes, class_name="stat keep on-phone-grid" if on_phone_only else "stat")


def prices(*items: Stat) -> rx.Component:
    """The prices of a paid dialog, side by side."""
    boxes = [
        rx.el.div(
            rx.el.div(item.label, class_name="meta"),
            rx.el.div(item.value, *unit_after(item.unit), class_name="v"),
        )
        for item in items
    ]
    return rx.el.div(*boxes, class_name="price")


def big_number(label: Text, value: Node, *, unit: Text = "", aside: Node = "", under: Node = "") -> rx.Component:
    """The one number of a side card: spend, estimate."""
    return rx.el.div(
        rx.el.div(rx.el.span(label, class_name="gray"), aside, class_name="row between"),
        rx.el.div(value, *unit_after(unit), class_name="big"),
        *([rx.el.div(under, class_name="meta num")] if given(under) else []),
    )


def data_list(*facts: Fact, full: bool = False) -> rx.Component:
    """Labels left, values right; `full` puts values beside their labels, for dialogs and wide cards."""
    return rx.el.dl(*[_fact(fact) for fact in facts], class_name="dl full" if full else "dl")


def progress(
    percent: Number, label: Text, *, color: Literal["", "gray", "amber"] = "", in_cell: bool = False
) -> rx.Component:
    """A bar of 4 px; the label is read aloud."""
    words = " ".join(filter(None, ["prog", color, "cell-prog" if in_cell else ""]))
    return rx.el.div(
        rx.el.i(style={"width": f"{percent}%"}),
        class_name=words,
        role="progressbar",
        custom_attrs={"aria-valuenow": percent, "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": label},
    )


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a bar, in percent of the whole."""

    label: Text
    percent: Number


def memory_bar(label: Text, parts: Sequence[Share]) -> rx.Component:
    """What fills a GPU's memory, with its legend."""
    bars = [rx.el.i(class_name=f"m{n}", style={"width": f"{part.percent}%"}) for n, part in enumerate(parts, 1)]
    legend = [rx.el.span(rx.el.i(class_name=f"sq m{n}"), part.label) for n, part in enumerate(parts, 1)]
    return rx.el.div(
        rx.el.div(*bars, class_name="memb", role="img", custom_attrs={"aria-label": label}),
        rx.el.div(*legend, class_name="leg", style={"margin_top": "6px"}),
    )


def _fact(fact: Fact) -> rx.Component:
    under = [rx.el.span(fact.under, class_name="meta")] if given(fact.under) else []
    return if_(fact.shown, rx.fragment(rx.el.dt(fact.label), rx.el.dd(fact.value, *unit_after(fact.unit), *under)))
