"""The rows of an import: looked through by page and by word, left out, changed, put back, and every step undone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.chats import Bubble
from tensorant_app.components.choices import Option
from tensorant_app.domain.edits import EditKind
from tensorant_app.domain.images import stored_images
from tensorant_app.domain.wording import count
from tensorant_app.pages.bubbles import pictured, snippet_of
from tensorant_app.pages.frame import segment
from tensorant_app.pages.import_findings import about_code, kind_address
from tensorant_app.pages.lists import MOST_SEARCHED, Pages, address, found_pages, pages_of, query, start_of
from tensorant_app.pages.words import ago
from tensorant_app.services import datasets, edits, import_rows, row_errors
from tensorant_app.services.edits import EditLine, EditsView
from tensorant_app.services.import_rows import FoundRows, ImportRow, RowsPage, Show, Which
from tensorant_app.services.row_errors import ErrorGroup
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
    ready_rows: str = ""
    """In words, as those with errors."""
    with_errors: str = ""
    error_rows: str = ""
    steps: int = 0


@dataclass(frozen=True)
class BulkQuestion:
    """What is asked before one step takes many rows; nothing is asked without a title."""

    title: str = ""
    lead: str = ""
    confirm: str = ""
    puts_back: bool = False


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
    kinds: list[Option] = []
    """Errors and warnings whose rows can be listed alone."""
    kind: str = ""
    shows_left_out: bool = False
    is_chosen: bool = False
    """The list shows rows that were searched or chosen, which one step can leave out or put back."""
    question: BulkQuestion = BulkQuestion()
    _found: FoundRows = FoundRows((), 0)
    _because: str = ""

    @rx.event
    async def load(self) -> None:
        """The page of rows that the address names, and the row that it names, else the first."""
        self.is_editing, self.question = False, BulkQuestion()
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

    @rx.event
    async def choose_kind(self, kind: str):
        """The rows of one kind of error or warning, or with nothing chosen all again."""
        text = segment(self, "imports")
        seen = await self._see(lambda session, caller: datasets.show_import_page(session, caller, id_of(text)))
        return rx.redirect(kind_address(self, kind) if kind else address(self, of="", at=0, row="")) if seen else None

    @rx.event
    async def ask_all(self, kind: str):
        """How many rows the list holds, or the rows of this kind; and whether one step shall take them all."""
        text = segment(self, "imports")
        which = Which(import_rows.show_of(kind), kind=kind) if kind else _which(self)
        found = await self._see(lambda session, caller: import_rows.find_rows(session, caller, id_of(text), which))
        if found is not None:
            self._found, self._because = found, which.kind or ("search" if which.word else which.show.value)
            self.question = _question(which, len(found.numbers))

    @rx.event
    async def close_question(self, is_open: bool) -> None:
        text = segment(self, "imports")
        seen = await self._see(lambda session, caller: datasets.show_import_page(session, caller, id_of(text)))
        if seen is not None and not is_open:
            self.question = BulkQuestion()

    @rx.event
    async def act_on_all(self) -> None:
        """The rows that were asked about, in one step."""
        act = edits.put_back if self.question.puts_back else edits.leave_out
        rows, because, seen = self._found.numbers, self._because, self._found.seen
        await self._act(lambda session, caller, of: act(session, caller, of, rows, because=because, seen=seen))
        if not self.error:
            self.question = BulkQuestion()

    async def _act(self, work: Callable[[Any, Any, UUID], object]) -> None:
        """One step, and the page as it is after it; where it is refused, what was typed stays."""
        text = segment(self, "imports")
        await self._do(lambda session, caller: work(session, caller, id_of(text)))
        if not self.error:
            self.is_editing = False
            await self._look(self.picked.row)

    async def _look(self, wanted: int) -> None:
        text, start = segment(self, "imports"), start_of(self, "at")
        which = _which(self)
        found = await self._see(
            lambda session, caller: (
                edits.show_edits(session, caller, id_of(text)),
                import_rows.list_rows(session, caller, id_of(text), which, start=start),
                datasets.other_ready_imports(session, caller, id_of(text)),
                row_errors.group_errors(session, caller, id_of(text)),
                row_errors.group_warnings(session, caller, id_of(text)),
            )
        )
        if found is None:
            return
        view, page, others, errors, warnings = found
        self._show(view, page, which)
        self.searched, self.kind, self.is_chosen = which.word, which.kind, which != Which() and bool(page.rows)
        self.shows_left_out = which.show is Show.LEFT_OUT
        self.kinds = _kind_options([*errors, *warnings])
        self.others = [Option(str(one.id), f"{one.file_name} · {one.accepted:,} rows") for one in others]
        first = page.rows[0].number if page.rows else 0
        if wanted or first:
            await self._pick(wanted or first)
        else:
            self.picked, self.chat, self.pictures, self.row_faults = PickedRow(), [], [], []

    def _show(self, view: EditsView, page: RowsPage, which: Which) -> None:
        self.counts = EditCounts(
            f"{view.ready:,}",
            view.still_rejected,
            count(view.ready, "row"),
            f"{view.still_rejected:,}",
            count(view.still_rejected, "row"),
            len(view.lines),
        )
        self.shows = _links(self, view, which)
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


def _which(state: AppState) -> Which:
    """As the open address says."""
    show, kind = query(state, "show"), query(state, "of")
    word = query(state, "q").strip()[:MOST_SEARCHED]
    return Which(Show(show) if show in [*Show] else Show.READY, word, kind if about_code(kind) else "")


def _kind_options(groups: Sequence[ErrorGroup]) -> list[Option]:
    named = ((group, about_code(group.code)) for group in groups)
    options = [Option(group.code, f"{about.meaning} · {group.rows:,}") for group, about in named if about]
    return [Option("", "Whatever was found"), *options] if options else []


def _question(which: Which, number: int) -> BulkQuestion:
    rows, about = count(number, "row"), about_code(which.kind)
    said = [f"What was found in {'it' if number == 1 else 'each'}: {about.meaning}."] if about else []
    if which.word:
        said.append(f"{'It holds' if number == 1 else 'All hold'} “{which.word}”.")
    undo = "The file itself stays as it is, and Undo takes the step back."
    if which.show is Show.LEFT_OUT:
        return BulkQuestion(f"Put back {rows}?", " ".join([*said, undo]), f"Put back {rows}", puts_back=True)
    return BulkQuestion(f"Leave out {rows}?", " ".join([*said, undo]), f"Leave out {rows}")


def _links(state: AppState, view: EditsView, which: Which) -> list[ShowLink]:
    named = (
        (Show.READY, "Ready", view.ready),
        (Show.REJECTED, "With errors", view.still_rejected),
        (Show.CHANGED, "Changed", view.changed),
        (Show.LEFT_OUT, "Left out", view.left_out),
    )
    stays = (Show.LEFT_OUT, import_rows.show_of(which.kind)) if which.kind else tuple(Show)
    return [
        ShowLink(
            label,
            f"{number:,}",
            address(state, show=one.value, of=which.kind if one in stays else "", at=0, row=""),
            one is which.show,
        )
        for one, label, number in named
    ]


def _line(row: ImportRow) -> LineRow:
    words = snippet_of(_messages(row), _SNIPPET) or row.text[:_SNIPPET] or "–"
    return LineRow(row.number, f"{row.number:,}", words, _STATES[row.state])


def _messages(row: ImportRow) -> list[dict[str, Any]]:
    if row.faults:
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
    return f"Row {line.rows[0]:,} {what}" if len(line.rows) == 1 else f"{len(line.rows):,} rows {what}"
