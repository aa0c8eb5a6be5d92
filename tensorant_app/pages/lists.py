"""Lists whose place stands in the address: what page is open, and where the next one is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlencode, urlsplit

import reflex as rx

from tensorant_app.components.buttons import icon_button
from tensorant_app.components.values import Node
from tensorant_app.state import AppState

PAGE_ROWS = 50
MOST_SEARCHED = 200
"""Characters of a word that is searched."""


@dataclass(frozen=True)
class Pages:
    """ "51–100 of 312", and the addresses of the neighbours; empty where there is none."""

    words: str = ""
    previous: str = ""
    next: str = ""


def query(state: AppState, key: str) -> str:
    """A word of the open address's query, or nothing."""
    return dict(parse_qsl(urlsplit(str(state.router.url)).query)).get(key, "")


def start_of(state: AppState, key: str = "from") -> int:
    text = query(state, key)
    return int(text) if text.isdigit() and len(text) < 10 else 0


def address(state: AppState, **changes: object) -> str:
    """The open page's address with these words of its query changed; an empty one is left out."""
    parts = urlsplit(str(state.router.url))
    words = dict(parse_qsl(parts.query)) | {key: str(value) for key, value in changes.items()}
    kept = {key: value for key, value in words.items() if value not in ("", "0")}
    return f"{parts.path}?{urlencode(kept)}" if kept else parts.path


def pages_of(state: AppState, shown: int, total: int, key: str = "from") -> Pages:
    start = start_of(state, key)
    if not shown:
        return Pages("", address(state, **{key: 0}) if start else "")
    return Pages(
        f"{start + 1:,}–{start + shown:,} of {total:,}",
        address(state, **{key: max(start - PAGE_ROWS, 0)}) if start else "",
        address(state, **{key: start + PAGE_ROWS}) if start + shown < total else "",
    )


def found_pages(state: AppState, shown: int, more: bool, key: str = "from") -> Pages:
    """Pages of a search whose matches are not counted yet."""
    start = start_of(state, key)
    found = pages_of(state, shown, start + shown + more, key)
    return replace(found, words=f"{start + 1:,}–{start + shown:,} of …") if more and shown else found


def counted_words(words: str, total: int) -> str:
    """The same once they are counted."""
    return f"{words.partition(' of ')[0]} of {total:,}"


def page_foot(words: Node, pages: rx.Var[Pages], *, keys: bool = False) -> rx.Component:
    """The foot of a table. With `keys` the letters p and n turn its pages."""
    return rx.el.div(
        rx.el.span(words),
        rx.el.span(class_name="grow"),
        rx.el.span(pages.words, custom_attrs={"aria-live": "polite"}),
        rx.el.div(
            _arrow("Previous page", "chevron_left", pages.previous, "p" if keys else ""),
            _arrow("Next page", "chevron_right", pages.next, "n" if keys else ""),
            class_name="row",
        ),
        class_name="tablefoot",
    )


def _arrow(label: str, drawing: str, href: rx.Var[str], key: str) -> rx.Component:
    attrs = {"data-key": key, "aria-keyshortcuts": key} if key else {}
    return icon_button(label, drawing, on_click=rx.redirect(href), small=True, disabled=href == "", attributes=attrs)


def put(state: AppState, **values: object) -> None:
    """Set what differs; a live page sends nothing while nothing has changed."""
    for name, value in values.items():
        if getattr(state, name) != value:
            setattr(state, name, value)
