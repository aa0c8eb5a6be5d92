"""One imported file: how far its reading is, its errors by kind, and a version made of its ready rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.badges import import_badge
from tensorant_app.components.buttons import button, download_button
from tensorant_app.components.callouts import callout
from tensorant_app.components.cards import card, page_head, row, stack, title_with
from tensorant_app.components.choices import Option
from tensorant_app.components.dialogs import named_dialog
from tensorant_app.components.stats import Stat, stats
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import if_, if_text
from tensorant_app.domain.file_kinds import FileKind, Wrapping
from tensorant_app.domain.imports import LIFECYCLE
from tensorant_app.domain.layouts import LAYOUTS, Layout
from tensorant_app.pages.data import VIEWERS, VersionRow, version_row, versions_of_file
from tensorant_app.pages.deletion import DeletionState, delete_button, delete_dialog
from tensorant_app.pages.frame import ENTER, ProjectState, fault, framed, segment
from tensorant_app.pages.import_editor import act_on_kind, editor
from tensorant_app.pages.import_findings import FindingsState, GroupRow, findings
from tensorant_app.pages.import_mapper import MapperState, kind_words, mapper
from tensorant_app.pages.import_rows import EditorState
from tensorant_app.pages.lists import put
from tensorant_app.pages.split_form import THIS_FILE, read_rest, read_seed, read_shares, split_fields
from tensorant_app.pages.words import ago, share, size
from tensorant_app.pages.working import working
from tensorant_app.services import datasets, imports, versions
from tensorant_app.services.datasets import ImportPage
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
    """Of all that is done with the file; -1 where nothing is said."""
    step: str = ""
    arrived: bool = False
    waits: bool = False
    """For a person, who says how it is read."""
    format: str = ""
    warnings: str = ""


class ImportPageState(AppState):
    facts: ImportFacts = ImportFacts()
    versions: list[VersionRow] = []
    others: list[Option] = []
    """Files of the dataset that can be a split of their own."""
    asks_cancel: bool = False

    @rx.event
    async def load(self):
        text = segment(self, "imports")
        put(self, asks_cancel=False)
        if text != self.facts.id:
            self.facts, self.versions = ImportFacts(), []
        found = await self._see(lambda session, caller: datasets.show_import_page(session, caller, id_of(text)))
        if found is None:
            return None
        self._show(found)
        return ImportPageState.watch if self.facts.is_live else self._read()

    @rx.event(background=True)
    async def watch(self):
        """Until a person is asked how the file is read, and on until it is read."""
        text = segment(self, "imports")
        look = lambda session, caller: datasets.show_import_page(session, caller, id_of(text))  # noqa: E731
        await self._watch(look, lambda page: self._show(page) and not page.line.waits)
        yield MapperState.load
        await self._watch(look, self._show)
        async with self:
            more = self._read()
        for event in more:
            yield event

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
                **read_rest(form),
                leave_out_rejected=bool(form.get("leave_out_rejected")),
            )
        )
        return rx.redirect(routes.version(project, made)) if made else None

    def _read(self) -> list[Any]:
        """What is loaded once the file was read."""
        return [FindingsState.load, EditorState.load] if self.facts.state == "ready" else [FindingsState.load]

    def _show(self, page: ImportPage) -> bool:
        project = segment(self, "projects")
        facts = _facts(project, page)
        others = [Option(str(line.id), line.file_name) for line in page.others]
        versions = [version_row(project, line) for line in page.versions]
        put(self, facts=facts, versions=versions, others=[THIS_FILE, *others])
        return facts.is_live


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
        f"{line.ready:,}",
        share(line.ready, line.rows),
        f"{line.rejected:,}",
        line.rejected,
        line.reason or "",
        ago(line.created_at),
        line.state not in LIFECYCLE.final,
        -1 if page.progress is None else page.progress[0],
        _STEPS.get(page.progress[1] if page.progress else "", ""),
        line.arrived,
        line.waits,
        format_words(line.format),
        f"{line.warnings:,}" if line.warnings else "",
    )


_STEPS = {
    "reading": "Every row is read and checked.",
    "collecting": "Rejected rows are put aside, so that you can take them home.",
    "looking": "Rows are looked through for personal data, control tokens and what else is odd.",
}


def format_words(text: str) -> str:
    """ "Alpaca, comma-separated table" for `alpaca:csv`."""
    layout, _, kind = text.partition(":")
    if layout not in [*Layout]:
        return ""
    what, _, wrapping = kind.partition("+")
    return f"{LAYOUTS[Layout(layout)].title}, {kind_words(FileKind(what), Wrapping(wrapping))}"


@rx.page(
    route=routes.IMPORT, title="Import · Tensorant", on_load=[*ENTER, ImportPageState.load, DeletionState.ask(False)]
)
def import_page() -> rx.Component:
    facts = ImportPageState.facts
    errors = download_button("Every fault", routes.import_errors(facts.id))
    stop = button("Cancel import", on_click=ImportPageState.ask_cancel(True))
    body = rx.match(
        facts.state,
        ("receiving", rx.cond(facts.waits, mapper(), _receiving())),
        ("checking", _checking()),
        ("failed", callout(rx.el.b("The file was refused. ", class_name="strong"), facts.reason, tone="red")),
        ("cancelled", callout("This import was cancelled. Import the file again to use it.")),
        rx.fragment(),
    )
    return framed(
        "data",
        page_head(
            title_with(facts.name, import_badge(facts.state)),
            sub=[rx.fragment("Imported ", facts.created), facts.size, facts.format],
            actions=[
                if_(facts.rejected > 0, errors),
                if_(facts.is_live & AppState.me.may_prepare, stop),
                if_(~facts.is_live, delete_button()),
            ],
        ),
        stack(body, if_(~facts.is_live, _read())),
        _cancel_dialog(),
        delete_dialog(),
        crumbs=[Crumb("Data", routes.data(ProjectState.project.id)), Crumb(facts.name)],
        said=rx.match(facts.state, ("ready", "The file has been read."), ("failed", "The file was refused."), ""),
    )


def _receiving() -> rx.Component:
    arriving = callout(
        "The file is still arriving. If the upload stopped, choose the same file again under Data; it goes on where it was."
    )
    return if_(ImportPageState.facts.arrived, working("Arrived", "Its first rows are looked at."), arriving)


def _checking() -> rx.Component:
    words = if_text(ImportPageState.facts.step, ImportPageState.facts.step, "Every row is read and checked.")
    return working("Reading", words, ImportPageState.facts.percent, "Of the import that is done")


def _read() -> rx.Component:
    facts = ImportPageState.facts
    is_ready = facts.state == "ready"
    counts = stats(
        Stat("Rows read", facts.rows),
        Stat("Ready", rx.cond(is_ready, EditorState.counts.ready, facts.ready), facts.ready_share),
        Stat("With errors", rx.cond(is_ready, EditorState.counts.with_errors, facts.errors), _errors_left()),
        Stat("Warnings", facts.warnings, rx.cond(facts.warnings != "", _kinds(FindingsState.warnings), "none")),
    )
    made = versions_of_file(ImportPageState.versions)
    listed = if_(ImportPageState.versions.length() > 0, card(made, title="Versions of this file", padded=False))
    below = (if_(is_ready, _version_form()), if_(is_ready, listed))
    found = findings(facts.id, facts.errors, facts.rejected > 0, *below, act=if_(is_ready, act_on_kind()))
    return if_(is_ready | (facts.rejected > 0), stack(counts, found, if_(is_ready, editor())))


def _errors_left() -> rx.Var[str]:
    """Under the number of rows with errors: of how many kinds, or that the file's were mended or left out."""
    facts, rest = ImportPageState.facts, EditorState.counts.rejected
    some = rx.cond(rest == facts.rejected, _kinds(FindingsState.errors), "of " + facts.errors + " in the file")
    return rx.cond(facts.rejected == 0, "", rx.cond(facts.state == "ready", some, _kinds(FindingsState.errors)))


def _kinds(groups: rx.Var[list[GroupRow]]) -> rx.Var[str]:
    kinds = groups.length()
    return rx.cond(kinds == 1, "of one kind", "in " + kinds.to_string() + " kinds")


def _version_form() -> rx.Component:
    leave_out = rx.el.label(
        rx.el.input(type="checkbox", name="leave_out_rejected", id="leave_out_rejected", class_name="ck"),
        rx.el.span("Leave out the ", rx.el.b(EditorState.counts.error_rows, class_name="strong"), " with errors"),
        class_name="tog",
    )
    fields = stack(
        *split_fields(ImportPageState.others),
        if_(EditorState.counts.rejected > 0, leave_out),
        if_text(fault("leave_out_rejected"), rx.el.p(fault("leave_out_rejected"), class_name="bad", role="alert")),
        row(button(rx.fragment("Make a version of ", EditorState.counts.ready_rows), kind="solid", submits=True)),
    )
    form = rx.el.form(fields, on_submit=ImportPageState.make_version)
    return card(if_(AppState.me.may_prepare, form, rx.el.p(VIEWERS, class_name="meta")), title="New version")


def _cancel_dialog() -> rx.Component:
    return named_dialog(
        "Cancel this import?",
        "What has arrived of the file is removed. Nothing else changes.",
        confirm_label="Cancel import",
        cancel_label="Keep importing",
        is_open=ImportPageState.asks_cancel,
        on_open_change=ImportPageState.ask_cancel,
        on_confirm=ImportPageState.cancel,
        error=AppState.error,
    )
