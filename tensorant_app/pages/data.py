"""The data of a project: files imported into a dataset, and the versions frozen from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.badges import import_badge, version_badge
from tensorant_app.components.buttons import action_with_reason, button
from tensorant_app.components.cards import card, columns, page_head, row, stack
from tensorant_app.components.choices import Option, select
from tensorant_app.components.empty import empty_state
from tensorant_app.components.forms import field, text_input
from tensorant_app.components.tables import Column, cell, data_table, name_cell, table_row
from tensorant_app.components.tabs import Tab, tabs
from tensorant_app.components.texts import dash_if_empty, meta, mono, phone_only, when
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.uploads import upload_field
from tensorant_app.components.values import Node, if_, if_text
from tensorant_app.pages.deletion import DeletionState, delete_dataset_button, delete_dialog
from tensorant_app.pages.frame import ENTER, ProjectState, fault, framed, segment
from tensorant_app.pages.import_images import how_to_pack
from tensorant_app.pages.lists import Pages, page_foot, pages_of, put, query, start_of
from tensorant_app.pages.words import ago, exact, size
from tensorant_app.services import datasets, deletions, imports
from tensorant_app.services.datasets import DataView, ImportLine, VersionLine
from tensorant_app.state import AppState, id_of

VIEWERS = "Viewers cannot import or freeze data. Ask a member of the organization."
_FORMAT = '{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}'


@dataclass(frozen=True)
class ImportRow:
    id: str
    href: str
    name: str
    state: str
    reason: str
    rows: str
    ready: str
    errors: str
    created: str
    created_exact: str


@dataclass(frozen=True)
class VersionRow:
    id: str
    href: str
    name: str
    state: str
    reason: str
    rows: str
    longest: str
    source: str
    created: str
    created_exact: str


class DataState(AppState):
    datasets: list[Option] = []
    dataset: str = ""
    dataset_name: str = ""
    imports: list[ImportRow] = []
    import_count: str = ""
    import_pages: Pages = Pages()
    versions: list[VersionRow] = []
    version_count: str = ""
    version_pages: Pages = Pages()
    newest: str = ""
    """What was frozen last, for the line under the title."""
    stored: str = ""
    """What its files take, as the page was opened."""
    reads_images: bool = False
    """A vision project, whose rows may bring images."""
    upload_limit: str = ""
    is_loading: bool = True

    @rx.event
    async def load(self):
        found = await self._see(self._look())
        if found is None:
            return None
        self._show(found)
        if (chosen := found.dataset) is not None:
            stored = await self._see(lambda session, caller: deletions.stored_in(session, caller, chosen.id))
            self.stored = f"{size(stored)} stored" if stored else ""
        return DataState.watch

    @rx.event(background=True)
    async def watch(self) -> None:
        await self._watch(self._look(), self._show, every=2.0)

    @rx.event
    async def create(self, form: dict[str, Any]):
        """A dataset to import into."""
        text, name = segment(self, "projects"), str(form.get("dataset-name", ""))
        made = await self._do(lambda session, caller: imports.create_dataset(session, caller, id_of(text), name))
        return rx.redirect(f"{routes.data(text)}?dataset={made}") if made else None

    @rx.event
    async def choose(self, dataset: str):
        """Another dataset of the project; its address says which."""
        text = segment(self, "projects")
        found = await self._see(
            lambda session, caller: datasets.show_data(session, caller, id_of(text), dataset_id=id_of(dataset))
        )
        return rx.redirect(f"{routes.data(text)}?dataset={dataset}") if found else None

    def _look(self):
        text, dataset = segment(self, "projects"), query(self, "dataset")
        imports_from, versions_from = start_of(self, "imports"), start_of(self, "versions")
        return lambda session, caller: datasets.show_data(
            session,
            caller,
            id_of(text),
            dataset_id=id_of(dataset) if dataset else None,
            imports_from=imports_from,
            versions_from=versions_from,
        )

    def _show(self, found: DataView) -> bool:
        project = segment(self, "projects")
        frozen = next((line for line in found.versions if line.content_sha256), None)
        put(
            self,
            datasets=[Option(str(one.id), one.name) for one in found.datasets],
            dataset=str(found.dataset.id) if found.dataset else "",
            dataset_name=found.dataset.name if found.dataset else "",
            imports=[_import_row(project, line) for line in found.imports],
            import_count=f"{found.import_count:,}",
            import_pages=pages_of(self, len(found.imports), found.import_count, "imports"),
            versions=[version_row(project, line) for line in found.versions],
            version_count=f"{found.version_count:,}",
            version_pages=pages_of(self, len(found.versions), found.version_count, "versions"),
            newest=f"v{frozen.number} frozen, {frozen.rows or 0:,} rows" if frozen else "Nothing is frozen yet",
            reads_images=found.reads_images,
            upload_limit=size(found.upload_limit),
            is_loading=False,
        )
        return True


def _import_row(project: str, line: ImportLine) -> ImportRow:
    announced = f"{size(line.size)} announced" if line.size and line.state.value == "receiving" else ""
    return ImportRow(
        str(line.id),
        routes.import_(project, line.id),
        line.file_name,
        line.state.value,
        line.reason or announced,
        f"{line.rows:,}" if line.rows else "",
        f"{line.ready:,}" if line.rows else "",
        f"{line.with_errors:,}" if line.with_errors else "",
        ago(line.created_at),
        exact(line.created_at),
    )


def version_row(project: str, line: VersionLine) -> VersionRow:
    errors = f"{line.errors:,} rows cannot be trained" if line.errors else ""
    return VersionRow(
        str(line.id),
        routes.version(project, line.id),
        f"v{line.number}",
        line.state.value,
        line.problem or errors,
        f"{line.rows:,}" if line.rows is not None else "",
        f"{line.longest:,}" if line.longest is not None else "",
        line.file_name,
        ago(line.created_at),
        exact(line.created_at),
    )


_IMPORTS = [
    Column("File", phone="lead", skeleton=("140px",)),
    Column("Status", phone="lead"),
    Column("Rows", number=True),
    Column("Ready", number=True, phone="aside"),
    Column("With errors", number=True, phone="aside"),
    Column("Imported", number=True),
]
_VERSIONS = [
    Column("Version", phone="lead", skeleton=("40px",)),
    Column("Status", phone="lead"),
    Column("Rows", number=True, phone="aside"),
    Column("Longest row", number=True),
    Column("From"),
    Column("Made", number=True, phone="aside"),
]
_OF_A_FILE = (0, 1, 2, 5)
"""What is not the same for all versions of one file, and has room beside its rows."""


def _draw_import(line: rx.Var[ImportRow]) -> rx.Component:
    return table_row(
        name_cell(line.name, line.href),
        cell(import_badge(line.state), _under(line.reason), phone="lead"),
        cell(dash_if_empty(line.rows), number=True),
        cell(dash_if_empty(line.ready), phone_only(" ready"), number=True, phone="aside"),
        cell(if_text(line.errors, rx.fragment(line.errors, phone_only(" with errors"))), number=True, phone="aside"),
        cell(when(line.created, line.created_exact), number=True, gray=True),
    )


def versions_of_file(lines: rx.Var[list[VersionRow]]) -> rx.Component:
    """For a card of half the page."""

    def draw(line: rx.Var[VersionRow]) -> rx.Component:
        cells = _cells(line)
        return table_row(*(cells[n] for n in _OF_A_FILE))

    columns = [_VERSIONS[n] for n in _OF_A_FILE]
    return data_table(columns, lines, draw, caption="Versions of this file", tall=False, in_card=False)


def _draw_version(line: rx.Var[VersionRow]) -> rx.Component:
    return table_row(*_cells(line))


def _cells(line: rx.Var[VersionRow]) -> list[rx.Component]:
    return [
        name_cell(line.name, line.href),
        cell(version_badge(line.state), _under(line.reason), phone="lead"),
        cell(dash_if_empty(line.rows), phone_only(" rows"), number=True, phone="aside"),
        cell(if_text(line.longest, rx.fragment(line.longest, rx.el.span(" tokens", class_name="unit"))), number=True),
        cell(line.source, gray=True),
        cell(when(line.created, line.created_exact), number=True, gray=True, phone="aside"),
    ]


def _under(reason: Node) -> rx.Component:
    return if_text(reason, rx.el.div(reason, class_name="meta", style={"margin_top": "4px"}))


@rx.page(route=routes.DATA, title="Data · Tensorant", on_load=[*ENTER, DataState.load, DeletionState.ask(False)])
def data_page() -> rx.Component:
    several = select("dataset", DataState.datasets, value=DataState.dataset, on_change=DataState.choose)
    label = rx.el.label("Dataset", html_for="dataset", class_name="sr")
    chooser = if_(DataState.datasets.length() > 1, rx.el.div(label, several, style={"min_width": "180px"}))
    some = rx.fragment(
        page_head(
            DataState.dataset_name,
            sub=[DataState.newest, if_text(DataState.stored, DataState.stored)],
            actions=[chooser, delete_dataset_button(DataState.dataset)],
        ),
        columns([_lists()], [_import_card(), _new_dataset()]),
    )
    none = rx.fragment(page_head("Data"), if_(DataState.is_loading, card("Loading …"), _first()))
    return framed("data", rx.cond(DataState.dataset != "", some, none), delete_dialog(), crumbs=[Crumb("Data")])


def _lists() -> rx.Component:
    found = data_table(
        _IMPORTS,
        DataState.imports,
        _draw_import,
        caption="Imports",
        empty=empty_state("No imports yet", "An import is one file of chat examples, read and checked row by row."),
        is_loading=DataState.is_loading,
        foot=page_foot("", DataState.import_pages),
    )
    made = data_table(
        _VERSIONS,
        DataState.versions,
        _draw_version,
        caption="Versions",
        empty=empty_state(
            "No versions yet",
            "A version is the ready rows of one import, split for training, validation and test, and frozen for good. "
            "Open an import to make one.",
        ),
        is_loading=DataState.is_loading,
        foot=page_foot("", DataState.version_pages),
    )
    return tabs(
        [
            Tab("imports", "Imports", found, DataState.import_count),
            Tab("versions", "Versions", made, DataState.version_count),
        ]
    )


def _import_card() -> rx.Component:
    upload = upload_field(
        DataState.dataset, next_href=routes.import_(ProjectState.project.id, "{id}"), label="Choose a file"
    )
    off = rx.el.p(VIEWERS, class_name="meta")
    rows_alone = rx.el.div(
        meta("One example a line:", block=True), rx.el.code(_FORMAT, class_name="mono meta wrap-any")
    )
    return card(
        stack(
            if_(AppState.me.may_prepare, upload, off),
            if_(DataState.reads_images, how_to_pack(DataState.upload_limit), rows_alone),
            meta("A dropped connection goes on by itself; after a closed tab choose the same file again.", block=True),
        ),
        title="Import",
    )


def _new_dataset() -> rx.Component:
    return if_(AppState.me.may_prepare, card(_dataset_form("Add", "outline"), title="Another dataset"))


def _dataset_form(verb: str, kind: str) -> rx.Component:
    return rx.el.form(
        stack(
            field(
                "dataset-name",
                "Name",
                text_input("dataset-name", placeholder="tickets", required=True, error=fault("name")),
                error=fault("name"),
            ),
            row(button(verb, kind=kind, submits=True)),
        ),
        on_submit=DataState.create,
    )


def _first() -> rx.Component:
    sentence = rx.fragment(
        "A dataset holds files of chat examples and the versions frozen from them. One example a line, such as ",
        mono(_FORMAT),
        ". Give it a name; then import a file.",
    )
    act = if_(
        AppState.me.may_prepare,
        _dataset_form("Make a dataset", "solid"),
        action_with_reason(button("Make a dataset", kind="solid", disabled=True), VIEWERS),
    )
    return empty_state("No data yet", sentence, actions=[act])
