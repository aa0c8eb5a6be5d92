"""The rows of an import: looked through by page and by word, left out, changed, put back, and every step undone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.buttons import button
from tensorant_app.components.callouts import callout, refusal
from tensorant_app.components.cards import card, row, stack
from tensorant_app.components.chats import Bubble, bubbles
from tensorant_app.components.choices import Option, select
from tensorant_app.components.forms import search_input, text_area
from tensorant_app.components.links import bare_link
from tensorant_app.components.texts import meta
from tensorant_app.components.values import if_, if_text, pick
from tensorant_app.domain.edits import EditKind
from tensorant_app.domain.images import stored_images
from tensorant_app.pages.bubbles import pictured, snippet_of
from tensorant_app.pages.frame import segment
from tensorant_app.pages.lists import MOST_SEARCHED, Pages, address, found_pages, page_foot, pages_of, query, start_of
from tensorant_app.pages.rows import no_rows, rows_keys
from tensorant_app.pages.words import ago, count
from tensorant_app.services import datasets, edits, import_rows
from tensorant_app.services.edits import EditLine, EditsView
from tensorant_app.services.import_rows import ImportRow, RowsPage, Show
from tensorant_app.state import AppState, id_of

_SNIPPET = 90
_STATES = {Show.READY: "", Show.CHANGED: "changed", Show.LEFT_OUT: "left out", Show.REJECTED: "with errors"}
_SAID = {
    EditKind.LEAVE_OUT: "left out",
    EditKind.CHANGE: "changed",
    EditKind.PUT_BACK: "put back",
    EditKind.APPEND: "added",
}


@dataclass(frozen=True)
class ShowLink:
    label: str
    count: str
    href: str
    is_open: bool


@dataclass(frozen=True)
class LineRow:
    row: int
    number: str
    words: str
    state: str


@dataclass(frozen=True)
class PickedRow:
    """The row at the right; its number is 0 where there is none."""

    row: int = 0
    title: str = ""
    source: str = ""
    state: str = ""
    text: str = ""


@dataclass(frozen=True)
class Picture:
    """An image of the row that is edited, under the name that its text has for it."""

    address: str
    name: str


@dataclass(frozen=True)
class StepRow:
    words: str
    by: str


@dataclass(frozen=True)
class EditCounts:
    """What the steps come to; `ready` is what a version is made of."""

    ready: str = ""
    rejected: int = 0
    steps: int = 0


class EditorState(AppState):
    counts: EditCounts = EditCounts()
    shows: list[ShowLink] = []
    rows: list[LineRow] = []
    row_pages: Pages = Pages()
    searched: str = ""
    picked: PickedRow = PickedRow()
    chat: list[Bubble] = []
    pictures: list[Picture] = []
    row_faults: list[str] = []
    is_editing: bool = False
    steps: list[StepRow] = []
    others: list[Option] = []
    """Files of the dataset whose rows can be added."""

    @rx.event
    async def load(self) -> None:
        """The page of rows that the address names, and the row that it names, else the first."""
        self.is_editing = False
        await self._look(int(query(self, "row")) if query(self, "row").isdigit() else 0)

    @rx.event
    async def pick(self, number: int) -> None:
        await self._pick(number)

    @rx.event
    async def edit(self, is_open: bool) -> None:
        """Open or close the editor of the row, with its text as it is now."""
        await self._pick(self.picked.row)
        self.is_editing = is_open and not self.error

    @rx.event
    async def save(self, form: dict[str, Any]) -> None:
        number, text = self.picked.row, str(form.get("row-text", ""))
        await self._act(lambda session, caller, found: edits.change_row(session, caller, found, number, text))

    @rx.event
    async def leave_out(self) -> None:
        number = self.picked.row
        await self._act(lambda session, caller, found: edits.leave_out(session, caller, found, [number]))

    @rx.event
    async def put_back(self) -> None:
        number = self.picked.row
        await self._act(lambda session, caller, found: edits.put_back(session, caller, found, [number]))

    @rx.event
    async def append(self, form: dict[str, Any]) -> None:
        other = str(form.get("other-file", ""))
        await self._act(lambda session, caller, found: edits.append_file(session, caller, found, id_of(other)))

    @rx.event
    async def undo(self) -> None:
        await self._act(edits.undo)

    @rx.event
    async def search(self, form: dict[str, Any]):
        """Rows that hold a word; the address says which."""
        text, word = segment(self, "imports"), str(form.get("import-search", "")).strip()
        seen = await self._see(lambda session, caller: datasets.show_import_page(session, caller, id_of(text)))
        return rx.redirect(address(self, q=word, at=0, row="")) if seen else None

    async def _act(self, work: Callable[[Any, Any, UUID], None]) -> None:
        """One step, and the page as it is after it; where it is refused, what was typed stays."""
        text = segment(self, "imports")
        await self._do(lambda session, caller: work(session, caller, id_of(text)))
        if not self.error:
            self.is_editing = False
            await self._look(self.picked.row)

    async def _look(self, wanted: int) -> None:
        text, start = segment(self, "imports"), start_of(self, "at")
        show, word = _show(query(self, "show")), query(self, "q").strip()[:MOST_SEARCHED]
        found = await self._see(
            lambda session, caller: (
                edits.show_edits(session, caller, id_of(text)),
                import_rows.list_rows(session, caller, id_of(text), show, word, start=start),
                datasets.other_ready_imports(session, caller, id_of(text)),
            )
        )
        if found is None:
            return
        view, page, others = found
        self._show(view, page, show)
        self.searched = word
        self.others = [Option(str(one.id), f"{one.file_name} · {one.accepted:,} rows") for one in others]
        first = page.rows[0].number if page.rows else 0
        if wanted or first:
            await self._pick(wanted or first)
        else:
            self.picked, self.chat, self.pictures, self.row_faults = PickedRow(), [], [], []

    def _show(self, view: EditsView, page: RowsPage, show: Show) -> None:
        self.counts = EditCounts(f"{view.ready:,}", view.still_rejected, len(view.lines))
        self.shows = _links(self, view, show)
        self.rows = [_line(one) for one in page.rows]
        shown = len(page.rows)
        self.row_pages = (
            found_pages(self, shown, page.more, "at") if page.total is None else pages_of(self, shown, page.total, "at")
        )
        self.steps = [StepRow(_said(line), f"{line.who}, {ago(line.at)}") for line in view.lines]

    async def _pick(self, number: int) -> None:
        text = segment(self, "imports")
        found = await self._see(lambda session, caller: import_rows.show_row(session, caller, id_of(text), number))
        if found is None:
            return
        self.is_editing = self.is_editing and found.number == self.picked.row
        self.picked = _picked(found)
        self.chat = [pictured(one, lambda name: routes.import_image(text, name)) for one in _messages(found)]
        self.pictures = _pictures(text, found)
        self.row_faults = list(found.faults)


def _show(text: str) -> Show:
    return Show(text) if text in [*Show] else Show.READY


def _links(state: AppState, view: EditsView, show: Show) -> list[ShowLink]:
    named = (
        (Show.READY, "Ready", view.ready),
        (Show.REJECTED, "With errors", view.still_rejected),
        (Show.CHANGED, "Changed", view.changed),
        (Show.LEFT_OUT, "Left out", view.left_out),
    )
    return [
        ShowLink(label, f"{number:,}", address(state, show=one.value, at=0, row=""), one is show)
        for one, label, number in named
    ]


def _line(row: ImportRow) -> LineRow:
    words = snippet_of(_messages(row), _SNIPPET) or row.text[:_SNIPPET] or "–"
    return LineRow(row.number, f"{row.number:,}", words, _STATES[row.state])


def _messages(row: ImportRow) -> list[dict[str, Any]]:
    if row.state is Show.REJECTED:
        return []
    found: list[dict[str, Any]] = json.loads(row.text)["messages"]
    return found


def _pictures(import_id: str, row: ImportRow) -> list[Picture]:
    names = dict.fromkeys(stored_images({"messages": _messages(row)}))
    return [Picture(routes.import_image(import_id, name), f"{name[:8]}…") for name in names]


def _picked(row: ImportRow) -> PickedRow:
    source = f"row {row.source_number:,} of {row.file_name}" if row.source_number != row.number else ""
    return PickedRow(row.number, f"Row {row.number:,}", source, row.state.value, _pretty(row.text))


def _pretty(text: str) -> str:
    """JSON on several lines; anything else as it stands."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except ValueError:
        return text


def _said(line: EditLine) -> str:
    what = _SAID[line.kind]
    if line.kind is EditKind.APPEND:
        return f"Rows of {line.file_name} {what}"
    return f"Row {line.rows[0]:,} {what}" if len(line.rows) == 1 else f"{count(len(line.rows), 'row')} {what}"


def editor() -> rx.Component:
    """The rows at the left, the chosen one at the right, and below what was done."""
    head = row(
        rx.el.h2("Rows", class_name="h2"),
        rx.el.nav(rx.foreach(EditorState.shows, _link), class_name="seg links", aria_label="Which rows"),
        wraps=True,
    )
    left = stack(_list(), if_(AppState.me.may_prepare, _steps()))
    return rx.el.section(head, rx.el.div(left, _one(), class_name="md"), class_name="stack tight")


def _link(one: rx.Var[ShowLink]) -> rx.Component:
    return bare_link(
        one.label,
        rx.el.span(one.count, class_name="c"),
        href=one.href,
        custom_attrs={"aria-current": pick(one.is_open, "true", "false")},
    )


def _list() -> rx.Component:
    def line(one: rx.Var[LineRow]) -> rx.Component:
        inner = rx.el.button(
            rx.el.span(one.number, class_name="num gray"),
            rx.el.span(one.words, class_name="trunc"),
            rx.el.span(one.state, class_name="meta"),
            type="button",
            class_name="row-pick",
            on_click=EditorState.pick(one.row),
            custom_attrs={"aria-current": pick(one.row == EditorState.picked.row, "true", "false")},
        )
        return rx.el.div(inner, custom_attrs={"data-row": ""})

    search = rx.el.form(
        search_input("import-search", "Search these rows", default_value=EditorState.searched),
        on_submit=EditorState.search,
        key=EditorState.searched,
        class_name="rows-search",
    )
    return card(
        search,
        rx.el.div(rx.foreach(EditorState.rows, line), class_name="rows-list"),
        if_(EditorState.rows.length() == 0, rx.el.p(no_rows(EditorState.searched), class_name="meta cb")),
        page_foot(rows_keys(), EditorState.row_pages, keys=True),
        padded=False,
    )


def _one() -> rx.Component:
    picked = EditorState.picked
    faults = rx.el.ul(rx.foreach(EditorState.row_faults, lambda fault: rx.el.li(fault)), class_name="reasons")
    shown = rx.cond(
        picked.state == "rejected",
        stack(callout(faults, tone="red"), rx.el.pre(picked.text, class_name="mono raw")),
        bubbles(EditorState.chat),
    )
    body = rx.cond(EditorState.is_editing, _form(), shown)
    return if_(
        picked.row > 0,
        card(
            rx.el.div(body, class_name=pick((picked.state == "rejected") | EditorState.is_editing, "cb", "")),
            title=picked.title,
            beside_title=[meta(picked.source), _state_word()],
            right=[if_(AppState.me.may_prepare & ~EditorState.is_editing, _acts())],
            padded=False,
        ),
    )


def _state_word() -> rx.Component:
    words = rx.match(
        EditorState.picked.state, ("changed", "changed"), ("left_out", "left out"), ("rejected", "with errors"), ""
    )
    return if_text(words, rx.badge(words, variant="soft", color_scheme="gray", high_contrast=True))


def _acts() -> rx.Component:
    state = EditorState.picked.state
    change = button("Edit", size="sm", icon_name="pencil", on_click=EditorState.edit(True))
    out = button("Leave out", size="sm", on_click=EditorState.leave_out)
    back = button("Put back", size="sm", on_click=EditorState.put_back)
    return row(
        change,
        if_((state == "ready") | (state == "changed"), out),
        if_((state == "left_out") | (state == "changed"), back),
    )


def _form() -> rx.Component:
    return rx.el.form(
        stack(
            refusal(AppState.error, AppState.reasons),
            rx.el.label("The row as JSON", html_for="row-text"),
            text_area("row-text", default_value=EditorState.picked.text, rows=18),
            meta("A conversation (messages), or the columns as the file has them. It is read as strictly as the file."),
            if_(EditorState.pictures.length() > 0, _kept()),
            row(
                button("Save row", kind="solid", submits=True),
                button("Cancel", kind="ghost", on_click=EditorState.edit(False)),
            ),
        ),
        on_submit=EditorState.save,
        key=EditorState.picked.title,
    )


def _kept() -> rx.Component:
    """Which name in the text is which image."""

    def one(picture: rx.Var[Picture]) -> rx.Component:
        shown = rx.el.img(src=picture.address, alt="", loading="lazy", class_name="shot")
        return rx.el.figure(shown, rx.el.figcaption(picture.name, class_name="mono meta"), class_name="shot-named")

    said = meta(
        "The images of this row. A part that is taken out of the text takes its image out of the row.", block=True
    )
    return rx.el.div(said, rx.el.div(rx.foreach(EditorState.pictures, one), class_name="shots"))


def _steps() -> rx.Component:
    def line(step: rx.Var[StepRow]) -> rx.Component:
        return rx.el.div(rx.el.div(rx.el.span(step.words), meta(step.by, block=True), class_name="tx"), class_name="li")

    undo = button("Undo", size="sm", icon_name="undo_2", on_click=EditorState.undo, command="Undo the last edit")
    add = rx.el.form(
        row(
            select("other-file", EditorState.others, label="Another file of this dataset"),
            button("Add its rows", size="sm", submits=True),
        ),
        on_submit=EditorState.append,
        class_name="rows-search",
    )
    none = rx.el.p("Nothing was changed. The file itself always stays as it is.", class_name="meta cb")
    listed = rx.el.div(rx.foreach(EditorState.steps, line), class_name="rows-list")
    return card(
        if_(EditorState.counts.steps > 0, listed, none),
        if_(EditorState.others.length() > 0, add),
        title="Edits",
        right=[if_(EditorState.counts.steps > 0, undo)],
        padded=False,
    )
