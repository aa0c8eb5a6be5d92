"""One imported file: how far its reading is, its errors by kind, and a version made of its ready rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.badges import import_badge
from tensorant_app.components.buttons import button, download_button
from tensorant_app.components.callouts import callout
from tensorant_app.components.cards import card, columns, page_head, row, stack, title_with
from tensorant_app.components.dialogs import named_dialog
from tensorant_app.components.links import bare_link
from tensorant_app.components.stats import Stat, stats
from tensorant_app.components.tables import Column, cell, data_table, table_row
from tensorant_app.components.texts import meta, mono
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import if_, if_text
from tensorant_app.domain.data_codes import CODES, RowCode
from tensorant_app.domain.imports import LIFECYCLE
from tensorant_app.pages.data import VERSIONS, VIEWERS, VersionRow, draw_version, version_row
from tensorant_app.pages.frame import ENTER, ProjectState, fault, framed, segment
from tensorant_app.pages.lists import Pages, address, page_foot, pages_of, put, query, start_of
from tensorant_app.pages.split_form import read_seed, read_shares, split_fields
from tensorant_app.pages.words import ago, share, size
from tensorant_app.pages.working import working
from tensorant_app.services import datasets, imports, row_errors, versions
from tensorant_app.services.datasets import ImportPage
from tensorant_app.services.row_errors import ErrorGroup, ErrorRow
from tensorant_app.state import AppState, id_of


@dataclass(frozen=True)
class ImportFacts:
    id: str = ""
    name: str = ""
    state: str = ""
    dataset: str = ""
    dataset_href: str = ""
    size: str = ""
    rows: str = ""
    ready: str = ""
    ready_share: str = ""
    errors: str = ""
    rejected: int = 0
    reason: str = ""
    created: str = ""
    is_live: bool = False
    percent: int = -1
    """Of the file, while it is read; -1 where nothing is said."""


@dataclass(frozen=True)
class GroupRow:
    code: str
    title: str
    hint: str
    rows: str
    href: str
    is_open: bool


@dataclass(frozen=True)
class FaultRow:
    row: str
    line: str
    path: str
    message: str


class ImportPageState(AppState):
    facts: ImportFacts = ImportFacts()
    groups: list[GroupRow] = []
    kind: str = ""
    faults: list[FaultRow] = []
    fault_pages: Pages = Pages()
    versions: list[VersionRow] = []
    asks_cancel: bool = False

    @rx.event
    async def load(self):
        text = segment(self, "imports")
        put(self, asks_cancel=False)
        if text != self.facts.id:
            self.facts, self.groups, self.faults, self.versions = ImportFacts(), [], [], []
        found = await self._see(lambda session, caller: datasets.show_import_page(session, caller, id_of(text)))
        if found is None:
            return None
        await self._show(found)
        return ImportPageState.watch if self.facts.is_live else None

    @rx.event(background=True)
    async def watch(self) -> None:
        text = segment(self, "imports")
        look = lambda session, caller: datasets.show_import_page(session, caller, id_of(text))  # noqa: E731
        await self._watch(look, self._show)

    @rx.event
    async def ask_cancel(self, is_open: bool):
        text = segment(self, "imports")
        found = await self._see(lambda session, caller: imports.show_import(session, caller, id_of(text)))
        if found is not None:
            self.asks_cancel = is_open

    @rx.event
    async def cancel(self):
        text = segment(self, "imports")
        await self._do(lambda session, caller: imports.cancel_import(session, caller, id_of(text)))
        if not self.error:
            self.asks_cancel = False
            return ImportPageState.load
        return None

    @rx.event
    async def make_version(self, form: dict[str, Any]):
        """A draft of the ready rows; it is checked on its own page."""
        project, text = segment(self, "projects"), segment(self, "imports")
        made = await self._do(
            lambda session, caller: versions.create_version(
                session,
                caller,
                id_of(text),
                shares=read_shares(form),
                seed=read_seed(form),
                leave_out_rejected=bool(form.get("leave_out_rejected")),
            )
        )
        return rx.redirect(routes.version(project, made)) if made else None

    async def _show(self, page: ImportPage) -> bool:
        project = segment(self, "projects")
        facts = _facts(project, page)
        put(self, facts=facts, versions=[version_row(project, line) for line in page.versions])
        if not facts.is_live:
            await self._show_errors()
        return facts.is_live

    async def _show_errors(self) -> None:
        text, kind, start = segment(self, "imports"), query(self, "kind"), start_of(self)
        groups = await self._see(lambda session, caller: row_errors.group_errors(session, caller, id_of(text))) or []
        kind = kind or (groups[0].code if groups else "")
        found = await self._see(
            lambda session, caller: row_errors.rows_with(session, caller, id_of(text), kind, start=start)
        )
        rows, total = found or ((), 0)
        self.groups = [_group(self, group, kind) for group in groups]
        self.kind = CODES[RowCode(kind)].meaning if kind in [*RowCode] else kind
        self.faults = [_fault(row) for row in rows]
        self.fault_pages = pages_of(self, len(rows), total)


def _facts(project: str, page: ImportPage) -> ImportFacts:
    line = page.line
    return ImportFacts(
        str(line.id),
        line.file_name,
        line.state.value,
        page.dataset.name,
        f"{routes.data(project)}?dataset={page.dataset.id}",
        size(line.size) if line.size else "",
        f"{line.rows:,}",
        f"{line.accepted:,}",
        share(line.accepted, line.rows),
        f"{line.rejected:,}",
        line.rejected,
        line.reason or "",
        ago(line.created_at),
        line.state not in LIFECYCLE.final,
        -1 if page.percent is None else page.percent,
    )


def _group(state: AppState, group: ErrorGroup, kind: str) -> GroupRow:
    about = CODES[RowCode(group.code)]
    href = address(state, kind=group.code, **{"from": 0})
    return GroupRow(group.code, about.meaning, about.advice, f"{group.rows:,}", href, group.code == kind)


def _fault(row: ErrorRow) -> FaultRow:
    return FaultRow(f"{row.row:,}", f"{row.line:,}" if row.line is not None else "", row.path, row.message)


@rx.page(route=routes.IMPORT, title="Import · Tensorant", on_load=[*ENTER, ImportPageState.load])
def import_page() -> rx.Component:
    facts = ImportPageState.facts
    errors = download_button("Errors", routes.import_errors(facts.id))
    stop = button("Cancel import", on_click=ImportPageState.ask_cancel(True))
    body = rx.match(
        facts.state,
        ("receiving", _receiving()),
        ("checking", _checking()),
        ("failed", callout(rx.el.b("The file was refused. ", class_name="strong"), facts.reason, tone="red")),
        ("cancelled", callout("This import was cancelled. Import the file again to use it.")),
        rx.fragment(),
    )
    return framed(
        "data",
        page_head(
            title_with(facts.name, import_badge(facts.state)),
            sub=[rx.fragment("Imported ", facts.created), facts.size],
            actions=[
                if_(facts.rejected > 0, errors),
                if_(facts.is_live & AppState.me.may_prepare, stop),
            ],
        ),
        stack(body, if_(~facts.is_live, _read())),
        _cancel_dialog(),
        crumbs=[Crumb("Data", routes.data(ProjectState.project.id)), Crumb(facts.name)],
        said=rx.match(facts.state, ("ready", "The file has been read."), ("failed", "The file was refused."), ""),
    )


def _receiving() -> rx.Component:
    return callout(
        "The file is still arriving. If the upload stopped, choose the same file again under Data; it goes on where it was."
    )


def _checking() -> rx.Component:
    return working(
        "Reading", "Every row is read and checked.", ImportPageState.facts.percent, "Of the file that is read"
    )


def _read() -> rx.Component:
    facts = ImportPageState.facts
    counts = stats(
        Stat("Rows read", facts.rows),
        Stat("Ready", facts.ready, facts.ready_share),
        Stat("With errors", facts.errors, rx.cond(facts.rejected > 0, count_words(), "")),
    )
    made = data_table(
        VERSIONS, ImportPageState.versions, draw_version, caption="Versions of this file", tall=False, in_card=False
    )
    listed = if_(ImportPageState.versions.length() > 0, card(made, title="Versions of this file", padded=False))
    listed_errors = if_(ImportPageState.groups.length() > 0, stack(_groups(), _rows()))
    errors = if_(facts.rejected > 0, listed_errors, _no_errors())
    main = [counts, errors, listed]
    return rx.cond(facts.state == "ready", columns(main, [_version_form()]), if_(facts.rejected > 0, stack(*main)))


def count_words() -> rx.Var[str]:
    kinds = ImportPageState.groups.length()
    return rx.cond(kinds == 1, "of one kind", "in " + kinds.to_string() + " kinds")


def _no_errors() -> rx.Component:
    return callout("Every row is ready: nothing has to be mended.", tone="green")


def _groups() -> rx.Component:
    def line(group: rx.Var[GroupRow]) -> rx.Component:
        return bare_link(
            rx.el.div(rx.el.div(group.title, class_name="strong"), meta(group.hint, block=True), class_name="tx"),
            rx.el.span(group.rows, class_name="num strong"),
            href=group.href,
            class_name="li",
            custom_attrs={"aria-current": rx.cond(group.is_open, "true", "false"), "data-row": ""},
        )

    right = [meta(ImportPageState.facts.errors, " rows")]
    return card(rx.foreach(ImportPageState.groups, line), title="Errors by kind", right=right, padded=False)


_FAULTS = [
    Column("Row", number=True, phone="aside", width="64px"),
    Column("Line", number=True, width="64px"),
    Column("What is wrong", phone="lead"),
]


def _rows() -> rx.Component:
    def draw(found: rx.Var[FaultRow]) -> rx.Component:
        return table_row(
            cell(phone_only_row(), found.row, number=True, phone="aside"),
            cell(found.line, number=True, gray=True),
            cell(found.message, if_text(found.path, rx.el.div(mono(found.path, small=True))), phone="lead"),
        )

    table = data_table(
        _FAULTS,
        ImportPageState.faults,
        draw,
        caption="Rows with this error",
        in_card=False,
        tall=False,
        foot=page_foot("", ImportPageState.fault_pages, keys=True),
    )
    return card(table, title=ImportPageState.kind, padded=False)


def phone_only_row() -> rx.Component:
    return rx.el.span("row ", class_name="phone-i meta")


def _version_form() -> rx.Component:
    facts = ImportPageState.facts
    leave_out = rx.el.label(
        rx.el.input(type="checkbox", name="leave_out_rejected", id="leave_out_rejected", class_name="ck"),
        rx.el.span("Leave out the ", rx.el.b(facts.errors, class_name="strong"), " rows with errors"),
        class_name="tog",
    )
    fields = stack(
        *split_fields(),
        if_(facts.rejected > 0, leave_out),
        if_text(fault("leave_out_rejected"), rx.el.p(fault("leave_out_rejected"), class_name="bad", role="alert")),
        row(button(rx.fragment("Make a version of ", facts.ready, " rows"), kind="solid", submits=True)),
    )
    form = rx.el.form(fields, on_submit=ImportPageState.make_version)
    return card(if_(AppState.me.may_prepare, form, rx.el.p(VIEWERS, class_name="meta")), title="New version")


def _cancel_dialog() -> rx.Component:
    return named_dialog(
        "Cancel this import?",
        "What has arrived of the file is thrown away. Nothing else changes.",
        confirm_label="Cancel import",
        cancel_label="Keep importing",
        is_open=ImportPageState.asks_cancel,
        on_open_change=ImportPageState.ask_cancel,
        on_confirm=ImportPageState.cancel,
        error=AppState.error,
    )
