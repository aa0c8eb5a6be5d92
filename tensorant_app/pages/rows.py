"""The rows of a checked version: a list to walk by keys, and beside it one row as it is read and as it is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.cards import card
from tensorant_app.components.chats import Bubble, Span, Turn, bubbles, token_turns, trained_legend
from tensorant_app.components.forms import search_input
from tensorant_app.components.links import bare_link
from tensorant_app.components.skeletons import skeleton_card
from tensorant_app.components.tabs import Tab, tabs
from tensorant_app.components.texts import keys, meta
from tensorant_app.components.values import if_, if_text, pick
from tensorant_app.pages.bubbles import pictured, snippet_of
from tensorant_app.pages.frame import segment
from tensorant_app.pages.lists import (
    MOST_SEARCHED,
    Pages,
    address,
    counted_words,
    found_pages,
    page_foot,
    pages_of,
    query,
    start_of,
)
from tensorant_app.services import examples, versions
from tensorant_app.services.examples import ExampleView
from tensorant_app.services.versions import VersionView
from tensorant_app.state import AppState, id_of
from trainer.contract import Split

_SNIPPET = 90


@dataclass(frozen=True)
class ExampleRow:
    row: int
    number: str
    words: str
    tokens: str


@dataclass(frozen=True)
class SplitLink:
    label: str
    count: str
    href: str
    is_open: bool


class RowsState(AppState):
    splits: list[SplitLink] = []
    rows: list[ExampleRow] = []
    pages: Pages = Pages()
    picked: int = -1
    tokens: str = ""
    trained: str = ""
    chat: list[Bubble] = []
    turns: list[Turn] = []
    searched: str = ""
    is_loading: bool = True
    _messages: dict[int, list[Bubble]] = {}

    @rx.event
    async def load(self):
        """The page of rows that the address names, and its first row; how many hold the word comes later."""
        text, split, start, word = segment(self, "versions"), _split(query(self, "split")), start_of(self), self._word()
        self.is_loading = True
        found = await self._see(
            lambda session, caller: (
                versions.show_version(session, caller, id_of(text)),
                examples.search_page(session, caller, id_of(text), split, word, start=start)
                if word
                else (examples.read_page(session, caller, id_of(text), split, start=start), False),
            )
        )
        if found is None:
            return None
        view, (page, more) = found
        self._messages = {one.row: _bubbles(text, one) for one in page}
        self.rows = [_row(one) for one in page]
        self.splits = _splits(self, view, split)
        total = view.report.rows.get(split.value, 0) if view.report else 0
        self.pages = found_pages(self, len(page), more) if word else pages_of(self, len(page), total)
        self.searched, self.is_loading, self.picked = word, False, -1
        if page:
            await self._pick(page[0].row)
        return RowsState.count if word and page else None

    @rx.event(background=True)
    async def count(self) -> None:
        """How many rows hold the word, once all were looked at."""
        text, split, word = segment(self, "versions"), _split(query(self, "split")), self._word()
        await self._watch(
            lambda session, caller: examples.count_matches(session, caller, id_of(text), split, word), self._show_count
        )

    @rx.event
    async def search(self, form: dict[str, Any]):
        """The rows that hold a word; the address says which."""
        text, word = segment(self, "versions"), str(form.get("rows-search", "")).strip()
        seen = await self._see(lambda session, caller: versions.show_version(session, caller, id_of(text)))
        return rx.redirect(address(self, q=word, **{"from": 0})) if seen else None

    def _show_count(self, total: int) -> bool:
        self.pages = replace(self.pages, words=counted_words(self.pages.words, total))
        return False

    def _word(self) -> str:
        return query(self, "q").strip()[:MOST_SEARCHED]

    @rx.event
    async def pick(self, row: int) -> None:
        await self._pick(row)

    async def _pick(self, row: int) -> None:
        text, split = segment(self, "versions"), _split(query(self, "split"))
        found = await self._see(lambda session, caller: examples.read_tokens(session, caller, id_of(text), split, row))
        if found is None:
            return
        self.picked, self.tokens, self.trained = row, f"{found.tokens:,}", f"{found.trained_tokens:,}"
        self.chat = self._messages.get(row, [])
        self.turns = [Turn("As trained", [Span(s.text, "t" if s.is_trained else "") for s in found.stretches])]


def _split(text: str) -> Split:
    return Split(text) if text in set(Split) else Split.TRAIN


def _splits(state: AppState, view: VersionView, chosen: Split) -> list[SplitLink]:
    rows = view.report.rows if view.report else {}
    labels = {Split.TRAIN: "Training", Split.VALIDATION: "Validation", Split.TEST: "Test"}
    return [
        SplitLink(label, f"{rows.get(split, 0):,}", address(state, split=split.value, **{"from": 0}), split is chosen)
        for split, label in labels.items()
    ]


def _row(view: ExampleView) -> ExampleRow:
    words = snippet_of(view.messages, _SNIPPET)
    return ExampleRow(view.row, f"{view.row:,}", words or "–", f"{view.tokens:,}")


def _bubbles(version: str, view: ExampleView) -> list[Bubble]:
    return [pictured(message, lambda name: routes.version_image(version, name)) for message in view.messages]


def rows_browser() -> rx.Component:
    """Two columns: the rows of a split, and the chosen one."""
    shown = rx.cond(
        RowsState.is_loading,
        skeleton_card(8),
        rx.el.div(_splits_bar(), rx.el.div(_list(), _one(), class_name="md"), class_name="stack tight"),
    )
    head = rx.el.h2("What the model learns from", class_name="h2")
    return rx.el.section(head, shown, class_name="stack tight", on_mount=RowsState.load)


def _splits_bar() -> rx.Component:
    def line(split: rx.Var[SplitLink]) -> rx.Component:
        return bare_link(
            split.label,
            rx.el.span(split.count, class_name="c"),
            href=split.href,
            custom_attrs={"aria-current": pick(split.is_open, "true", "false")},
        )

    return rx.el.nav(rx.foreach(RowsState.splits, line), class_name="seg links", aria_label="Split")


def _list() -> rx.Component:
    def line(row: rx.Var[ExampleRow]) -> rx.Component:
        is_it = row.row == RowsState.picked
        inner = rx.el.button(
            rx.el.span(row.number, class_name="num gray"),
            rx.el.span(row.words, class_name="trunc"),
            rx.el.span(row.tokens, class_name="num meta"),
            type="button",
            class_name="row-pick",
            on_click=RowsState.pick(row.row),
            custom_attrs={"aria-current": pick(is_it, "true", "false")},
        )
        return rx.el.div(inner, custom_attrs={"data-row": ""})

    rows = rx.el.div(rx.foreach(RowsState.rows, line), class_name="rows-list")
    none = if_(RowsState.rows.length() == 0, rx.el.p(no_rows(RowsState.searched), class_name="meta cb"))
    return card(
        rx.el.form(
            search_input("rows-search", "Search these rows", default_value=RowsState.searched),
            on_submit=RowsState.search,
            key=RowsState.searched,
            class_name="rows-search",
        ),
        rows,
        none,
        page_foot(
            rows_keys(),
            RowsState.pages,
            keys=True,
        ),
        title="Rows",
        right=[meta("tokens")],
        padded=False,
    )


def rows_keys() -> rx.Component:
    """The keys of a list of rows, in its foot."""
    return rx.el.span(
        keys("J"),
        keys("K"),
        " walk, ",
        keys("Enter"),
        " opens, ",
        keys("N"),
        keys("P"),
        " pages",
        class_name="wide-only",
    )


def no_rows(word: rx.Var[str]) -> rx.Component:
    return if_text(word, rx.fragment("No row here holds “", word, "”."), "No rows here.")


def _one() -> rx.Component:
    count = rx.el.span(
        rx.el.b(RowsState.trained, class_name="strong"),
        rx.el.span(" of ", RowsState.tokens, " tokens trained", class_name="unit"),
        class_name="num",
    )
    trained = rx.el.div(trained_legend(count), token_turns(RowsState.turns))
    chat = rx.el.div(bubbles(RowsState.chat), class_name="cb")
    title = rx.Var.create("Row ") + RowsState.picked.to_string()
    both = tabs([Tab("tokens", "As trained", trained), Tab("chat", "As chat", chat)])
    return if_(RowsState.picked >= 0, card(both, title=title, padded=False))
