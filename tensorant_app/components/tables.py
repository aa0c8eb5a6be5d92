"""Real tables: sticky heads, rows that are links, selection, server-side paging, and one column on a phone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import reflex as rx

from tensorant_app.components.buttons import icon_button
from tensorant_app.components.icons import icon
from tensorant_app.components.links import bare_link
from tensorant_app.components.skeletons import skeleton_rows
from tensorant_app.components.values import Flag, Handler, Node, Number, Text, each, if_, is_empty, pick

OnPhone = Literal["", "lead", "aside", "aside first", "whole"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. On a phone a row is a small grid: `lead` left, `aside` right (`aside first`
    on top there), `whole` across; others are hidden."""

    label: str
    number: bool = False
    phone: OnPhone = ""
    sort: str = ""
    """The key given to `on_sort`; empty: not sortable."""
    width: str = ""
    hidden_label: bool = False
    """The label is only read aloud: selection, menus, pictures."""
    skeleton: tuple[str, ...] = ("64px",)
    """Widths of the lines of a loading cell."""

    @property
    def words(self) -> str:
        return " ".join(filter(None, ["num" if self.number else "", self.phone]))


@dataclass(frozen=True, slots=True)
class Sorting:
    """The order of the rows, and who changes it."""

    key: Text
    descending: Flag
    on_sort: Handler


def data_table(
    columns: Sequence[Column],
    rows: Sequence[Any] | rx.Var[Any],
    draw: Callable[[Any], rx.Component],
    *,
    caption: str,
    empty: rx.Component | None = None,
    is_loading: Flag = False,
    sorting: Sorting | None = None,
    foot: Node | None = None,
    tall: bool = True,
    in_card: bool = True,
    phone: bool = True,
    select_all: rx.Component | None = None,
) -> rx.Component:
    """`draw` makes a `table_row`. Skeleton rows while the first answer is awaited, `empty` where there is nothing.

    `phone=False` keeps the columns on a phone and scrolls sideways.
    """
    loading = skeleton_rows([column.skeleton for column in columns], [column.words for column in columns])
    body = rx.el.tbody(
        if_(is_loading, loading, rx.fragment(*each(rows, draw))),
        role="rowgroup",
        custom_attrs={"aria-busy": pick(is_loading, "true", "false")},
    )
    words = " ".join(filter(None, ["t", "sticky" if phone else "", "tall" if tall else "", "phone" if phone else ""]))
    table = rx.el.table(
        rx.el.caption(caption, class_name="sr"),
        rx.el.thead(rx.el.tr(*_heads(columns, sorting, select_all), role="row"), role="rowgroup"),
        body,
        class_name=words,
        role="table",
    )
    content = rx.fragment(
        table if phone else rx.el.div(table, class_name="scroll-x", tab_index=0, role="region", aria_label=caption),
        *([foot] if foot is not None else []),
    )
    if empty is not None:
        nothing = is_empty(rows)
        quiet = nothing & ~is_loading if isinstance(nothing, rx.Var) and isinstance(is_loading, rx.Var) else nothing
        content = if_(False if is_loading is True else quiet, empty, content)
    return rx.el.div(content, class_name="card bleed" if phone else "card") if in_card else content


def table_row(
    *cells: rx.Component,
    is_selected: Flag = False,
    is_marked: Flag = False,
    attributes: dict[str, Any] | None = None,
) -> rx.Component:
    """A row that `j` and `k` walk. `is_marked`: tinted without being a selection."""
    return rx.el.tr(
        *cells,
        role="row",
        class_name=pick(is_marked, "sel", ""),
        custom_attrs={"data-row": "", "aria-selected": pick(is_selected, "true", "false"), **(attributes or {})},
    )


def name_cell(name: Text, href: Text, under: Node = "", *, phone: OnPhone = "lead") -> rx.Component:
    """The cell whose link the whole row follows, and a second line in small gray under it."""
    second = rx.el.div(under, class_name="meta") if not isinstance(under, str) or under else rx.fragment()
    return rx.el.td(bare_link(name, href=href, class_name="row-link nm"), second, role="cell", class_name=phone)


def cell(
    *children: Node, number: bool = False, phone: OnPhone = "", gray: bool = False, whole: int = 0
) -> rx.Component:
    words = " ".join(filter(None, ["num" if number else "", phone, "gray" if gray else ""]))
    span = {"col_span": whole} if whole else {}
    return rx.el.td(*children, role="cell", class_name=words, **span)


def select_cell(checked: Flag, on_change: Handler, label: Text) -> rx.Component:
    return rx.el.td(select_box(checked, on_change, label), role="cell")


def select_box(checked: Flag, on_change: Handler, label: Text) -> rx.Component:
    """A checkbox with a hit area of 25 px."""
    events = {"on_change": on_change} if on_change is not None else {}
    return rx.checkbox(checked=checked, size="1", class_name="ck above", custom_attrs={"aria-label": label}, **events)


def paging(
    words: Node,
    first: Number,
    last: Number,
    total: Number,
    *,
    has_previous: Flag = False,
    has_next: Flag = False,
    on_previous: Handler = None,
    on_next: Handler = None,
) -> rx.Component:
    """The foot of a table: what it sums up, "1–50 of 312", and the two arrows, off where there is no such page."""
    return rx.el.div(
        rx.el.span(words),
        rx.el.span(class_name="grow"),
        rx.el.span(f"{first}–{last} of {total}", custom_attrs={"aria-live": "polite"}),
        rx.el.div(
            icon_button("Previous page", "chevron_left", on_click=on_previous, small=True, disabled=_not(has_previous)),
            icon_button("Next page", "chevron_right", on_click=on_next, small=True, disabled=_not(has_next)),
            class_name="row",
        ),
        class_name="tablefoot",
    )


def table_foot(*words: Node) -> rx.Component:
    return rx.el.div(*words, class_name="tablefoot")


def selection_bar(count: Number, *actions: rx.Component, on_clear: Handler = None) -> rx.Component:
    """Floats at the foot of the page while rows are selected."""
    bar = rx.el.div(
        rx.el.span(f"{count} selected", class_name="num", custom_attrs={"aria-live": "polite"}),
        *actions,
        icon_button("Clear the selection", "x", on_click=on_clear),
        class_name="bulk",
    )
    return if_(count > 0 if isinstance(count, rx.Var) else bool(count), bar)


def _heads(columns: Sequence[Column], sorting: Sorting | None, select_all: rx.Component | None) -> list[rx.Component]:
    heads = [_head(column, sorting) for column in columns]
    if select_all is not None:
        heads[0] = rx.el.th(select_all, scope="col", role="columnheader", style={"width": "40px"})
    return heads


def _head(column: Column, sorting: Sorting | None) -> rx.Component:
    style = {"width": column.width} if column.width else {}
    attrs: dict[str, Any] = {}
    inner: Node = rx.el.span(column.label, class_name="sr") if column.hidden_label else column.label
    if column.sort and sorting is not None:
        arrow = if_(sorting.descending, icon("arrow_down", size=12), icon("arrow_up", size=12))
        is_it = sorting.key == column.sort
        inner = rx.el.button(
            column.label, if_(is_it, arrow), type="button", class_name="sort", on_click=sorting.on_sort(column.sort)
        )
        attrs["aria-sort"] = _sorted(is_it, sorting.descending)
    return rx.el.th(
        inner,
        scope="col",
        role="columnheader",
        class_name="num" if column.number else "",
        style=style,
        custom_attrs=attrs,
    )


def _sorted(is_it: Flag, descending: Flag) -> Any:
    direction = pick(descending, "descending", "ascending")
    if isinstance(is_it, rx.Var):
        return rx.cond(is_it, direction, rx.Var("undefined"))
    return direction if is_it else None


def _not(flag: Flag) -> Flag:
    return ~flag if isinstance(flag, rx.Var) else not flag
