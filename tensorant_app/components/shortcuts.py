"""The palette (⌘K) and the sheet of shortcuts (?): the browser's own dialogs, driven by assets/console.js."""

from __future__ import annotations

import reflex as rx

from tensorant_app.components.buttons import icon_button
from tensorant_app.components.icons import icon
from tensorant_app.components.texts import keys

_LISTS = (("j", "next row"), ("k", "previous row"), ("x", "select"), ("Enter", "open"), ("c", "compare"), ("n", "new"))
_ROWS = (("n", "next page"), ("p", "previous page"))
_EVERYWHERE = (("⌘ K", "palette"), ("/", "search the list"), ("?", "this sheet"), ("Esc", "close"))


def palette() -> rx.Component:
    """Filters places, rows and the page's commands; never offers a paid act."""
    field = rx.el.input(
        id="palette-input",
        type="text",
        placeholder="Go to a page, a run, a command …",
        auto_complete="off",
        role="combobox",
        custom_attrs={
            "aria-label": "Go to",
            "aria-controls": "palette-list",
            "aria-expanded": "true",
            "aria-autocomplete": "list",
        },
    )
    return rx.el.dialog(
        rx.el.div(icon("search"), field, rx.el.kbd("Esc", class_name="kbd"), class_name="inp"),
        rx.el.ul(id="palette-list", role="listbox", custom_attrs={"aria-label": "Places and commands"}),
        rx.el.p("Nothing of that name on this page.", id="palette-none", class_name="none", hidden=True),
        id="palette",
        class_name="sheet palette",
        custom_attrs={"aria-label": "Palette"},
    )


def shortcut_sheet(go_to: tuple[tuple[str, str], ...]) -> rx.Component:
    """`go_to`: letter and place, as the rail has them."""
    switch = rx.el.label(
        rx.el.input(id="shortcuts-on", type="checkbox", default_checked=True),
        "Single-key shortcuts are on in this browser",
        class_name="tog",
        html_for="shortcuts-on",
    )
    return rx.el.dialog(
        rx.el.div(
            rx.el.div(
                rx.el.h2("Keyboard", class_name="h2 grow"),
                icon_button("Close", "x", small=True, attributes={"data-closes": ""}),
                class_name="row",
            ),
            rx.el.div(
                _group("Go to", tuple((f"g {letter}", place) for letter, place in go_to)),
                rx.el.div(
                    _group("Everywhere", _EVERYWHERE),
                    rx.el.div(_group("In a list", _LISTS), style={"margin_top": "18px"}),
                    rx.el.div(_group("In rows of data", _ROWS), style={"margin_top": "18px"}),
                ),
                class_name="keys",
            ),
            rx.el.hr(class_name="rule"),
            switch,
            rx.el.p("Nothing that costs money or deletes has a key. Off while you type.", class_name="meta"),
            class_name="in",
        ),
        id="shortcuts",
        class_name="sheet",
        custom_attrs={"aria-label": "Keyboard shortcuts"},
    )


def _group(title: str, lines: tuple[tuple[str, str], ...]) -> rx.Component:
    items = [rx.fragment(rx.el.dt(what), rx.el.dd(*[keys(part) for part in names.split(" ")])) for names, what in lines]
    return rx.el.div(rx.el.h3(title, class_name="meta"), rx.el.dl(*items))
