"""Before an upload is read: what it was recognised as, which column holds what, and what its first rows become."""

from __future__ import annotations

from dataclasses import dataclass

import reflex as rx

from tensorant_app.components.buttons import button
from tensorant_app.components.callouts import callout
from tensorant_app.components.cards import card, columns, row, stack
from tensorant_app.components.chats import Bubble, bubbles
from tensorant_app.components.choices import Option, select
from tensorant_app.components.forms import field
from tensorant_app.components.skeletons import skeleton_card
from tensorant_app.components.texts import meta
from tensorant_app.components.values import if_, if_text
from tensorant_app.domain.file_kinds import KINDS, WRAPPINGS, FileKind, Wrapping
from tensorant_app.domain.import_previews import PreviewRow
from tensorant_app.domain.layouts import LAYOUTS, ColumnMapping, Layout
from tensorant_app.pages.bubbles import bubble_of
from tensorant_app.pages.data import VIEWERS
from tensorant_app.pages.frame import segment
from tensorant_app.services import import_previews
from tensorant_app.services.import_previews import Chosen, Preview
from tensorant_app.state import AppState, id_of

_LAYOUTS = [Option(layout.value, info.title) for layout, info in LAYOUTS.items()]
_FIELDS = {
    "messages": "Messages",
    "conversations": "Conversations",
    "instruction": "Instruction",
    "prompt": "Prompt (the question)",
    "completion": "Completion (the reply)",
    "input": "Input",
    "output": "Output (the reply)",
    "system": "System text",
    "tools": "Tools",
    "history": "Earlier turns",
}


@dataclass(frozen=True)
class FieldRow:
    """One field of the layout, and the column that fills it."""

    name: str
    label: str
    column: str
    wrong: str


@dataclass(frozen=True)
class SampleRow:
    title: str
    chat: list[Bubble]
    faults: list[str]


class MapperState(AppState):
    is_there: bool = False
    kind: str = ""
    question: str = ""
    layout: str = ""
    reading: str = ""
    """How a row of this layout becomes a conversation."""
    columns: list[Option] = []
    fields_of_layout: list[FieldRow] = []
    samples: list[SampleRow] = []
    is_complete: bool = False

    @rx.event
    async def load(self) -> None:
        """As the file was recognised; nothing where it does not wait for this."""
        await self._look(None)

    @rx.event
    async def choose_layout(self, layout: str) -> None:
        """Fields whose column has their own name are filled in at once."""
        names = _fields_of(layout)
        await self._look(Chosen(layout, {name: name for name in names if name in self._names()}))

    @rx.event
    async def choose_column(self, name: str, column: str) -> None:
        await self._look(Chosen(self.layout, self._chosen() | {name: column}))

    @rx.event
    async def start(self) -> None:
        """The page follows by itself from here on."""
        text, chosen = segment(self, "imports"), Chosen(self.layout, self._chosen())
        await self._do(lambda session, caller: import_previews.start_reading(session, caller, id_of(text), chosen))
        if not self.error:
            self.is_there = False

    def _names(self) -> list[str]:
        return [option.value for option in self.columns]

    def _chosen(self) -> dict[str, str]:
        return {one.name: one.column for one in self.fields_of_layout}

    async def _look(self, chosen: Chosen | None) -> None:
        text = segment(self, "imports")
        found = await self._see(
            lambda session, caller: import_previews.show_preview(session, caller, id_of(text), chosen)
        )
        self.is_there = found is not None
        if found is not None:
            self._show(found, chosen)

    def _show(self, found: Preview, chosen: Chosen | None) -> None:
        self.kind, self.question = kind_words(found.kind, found.wrapping), found.question or ""
        self.columns = [Option(name, name) for name in found.columns]
        layout, picked = _picked(found, chosen)
        self.layout = layout
        self.reading = LAYOUTS[Layout(layout)].reading.replace("`", "") if layout else ""
        self.fields_of_layout = [
            FieldRow(name, _label(layout, name), picked.get(name, ""), found.wrong.get(name, ""))
            for name in _fields_of(layout)
        ]
        self.samples = [_sample(one) for one in found.rows]
        self.is_complete = found.mapping is not None


def _picked(found: Preview, chosen: Chosen | None) -> tuple[str, dict[str, str]]:
    if chosen is not None:
        return chosen.layout, dict(chosen.columns)
    if found.mapping is None:
        return "", {}
    return found.mapping.layout.value, _columns_of(found.mapping, found.columns)


def _columns_of(mapping: ColumnMapping, known: object) -> dict[str, str]:
    names = _fields_of(mapping.layout.value)
    return {name: mapping.column(name) for name in names if mapping.column(name) in known}  # type: ignore[operator]


def _fields_of(layout: str) -> tuple[str, ...]:
    if layout not in [*Layout]:
        return ()
    info = LAYOUTS[Layout(layout)]
    return (*info.required, *info.optional)


def _label(layout: str, name: str) -> str:
    needed = name in LAYOUTS[Layout(layout)].required
    return _FIELDS[name] if needed else f"{_FIELDS[name]} (optional)"


def kind_words(kind: FileKind, wrapping: Wrapping) -> str:
    """ "comma-separated table, in gzip"."""
    what = KINDS[kind].split(":")[0].split(",")[0].split(" with a header")[0]
    return what + (f", in {WRAPPINGS[wrapping].split(',')[0].split(' around')[0]}" if wrapping else "")


def _sample(row: PreviewRow) -> SampleRow:
    return SampleRow(f"Row {row.row:,}", [bubble_of(message) for message in row.messages], list(row.faults))


def mapper() -> rx.Component:
    """The whole body of the page while the import waits for a person."""
    return rx.cond(
        MapperState.is_there,
        stack(
            if_text(MapperState.question, callout(MapperState.question, tone="amber")),
            columns([_samples()], [_form()]),
        ),
        skeleton_card(6),
    )


def _form() -> rx.Component:
    chosen = select(
        "layout",
        _LAYOUTS,
        value=MapperState.layout,
        on_change=MapperState.choose_layout,
        placeholder="Choose …",
    )
    start = button(
        "Start import",
        kind="solid",
        on_click=MapperState.start,
        disabled=~MapperState.is_complete,
        command="Start import",
    )
    fields = stack(
        meta(MapperState.kind, block=True),
        field("layout", "Layout", chosen),
        rx.foreach(MapperState.fields_of_layout, _field),
        if_text(MapperState.reading, meta("A row is read so: ", MapperState.reading, ".", block=True)),
        row(start),
    )
    return card(if_(AppState.me.may_prepare, fields, rx.el.p(VIEWERS, class_name="meta")), title="How it is read")


def _field(one: rx.Var[FieldRow]) -> rx.Component:
    control = select(
        one.name,
        MapperState.columns,
        value=one.column,
        on_change=lambda column: MapperState.choose_column(one.name, column),
        error=one.wrong,
        placeholder="–",
    )
    return field(one.name, one.label, control, error=one.wrong)


def _samples() -> rx.Component:
    def draw(sample: rx.Var[SampleRow]) -> rx.Component:
        faults = rx.el.ul(
            rx.foreach(sample.faults, lambda fault: rx.el.li(fault, class_name="bad")), class_name="reasons"
        )
        return rx.el.div(
            rx.el.div(rx.el.span(sample.title, class_name="strong"), class_name="sample-head"),
            if_(sample.faults.length() > 0, faults, bubbles(sample.chat)),
            class_name="sample",
        )

    none = rx.el.p("Say which column holds what; the first rows are shown here.", class_name="meta cb")
    shown = rx.foreach(MapperState.samples, draw)
    return card(
        if_(MapperState.samples.length() > 0, shown, none),
        title="The first rows, as they would be read",
        padded=False,
    )
