"""A card of a version's page: what came, went or changed since another version of the same dataset."""

from __future__ import annotations

from dataclasses import dataclass

import reflex as rx

from tensorant_app.components.cards import card, stack
from tensorant_app.components.choices import Option, select
from tensorant_app.components.forms import field
from tensorant_app.components.tables import Column, cell, data_table, table_row
from tensorant_app.components.values import if_, if_text
from tensorant_app.pages.frame import segment
from tensorant_app.pages.lists import put
from tensorant_app.services import comparisons
from tensorant_app.services.comparisons import Comparison, Place
from tensorant_app.state import AppState, id_of


@dataclass(frozen=True)
class ComparedRow:
    what: str
    before: str
    after: str
    text: str


class ComparisonState(AppState):
    others: list[Option] = []
    other: str = ""
    sentence: str = ""
    compared: list[ComparedRow] = []

    @rx.event
    async def load(self) -> None:
        text = segment(self, "versions")
        found = await self._see(lambda session, caller: comparisons.list_others(session, caller, id_of(text)))
        if found is not None:
            options = [Option(str(one.id), f"v{one.number}") for one in found]
            put(self, others=[Option("", "Choose a version"), *options], other="", sentence="", compared=[])

    @rx.event
    async def compare(self, other: str) -> None:
        """With nothing chosen, what was found is cleared."""
        text = segment(self, "versions")
        if not other:
            if (
                await self._see(lambda session, caller: comparisons.list_others(session, caller, id_of(text)))
                is not None
            ):
                put(self, other="", sentence="", compared=[])
            return
        found = await self._see(
            lambda session, caller: comparisons.compare_versions(session, caller, id_of(other), id_of(text))
        )
        if found is not None:
            put(self, other=other, sentence=_sentence(found), compared=_rows(found))


def _sentence(found: Comparison) -> str:
    moved = f", {found.moved:,} of them in another split" if found.moved else ""
    same = "1 row is the same" if found.same == 1 else f"{found.same:,} rows are the same"
    return f"{same}{moved}; {found.added:,} added, {found.removed:,} removed, {found.changed:,} changed."


def _rows(found: Comparison) -> list[ComparedRow]:
    return [
        *(ComparedRow("Changed", _name(one), _name(other), other.text) for one, other in found.first_changed),
        *(ComparedRow("Added", "", _name(one), one.text) for one in found.first_added),
        *(ComparedRow("Removed", _name(one), "", one.text) for one in found.first_removed),
        *(ComparedRow("Moved", _name(one), _name(other), other.text) for one, other in found.first_moved),
    ]


def _name(place: Place) -> str:
    return f"{place.split} {place.row:,}"


_COLUMNS = [
    Column("What", phone="aside"),
    Column("Before"),
    Column("Now"),
    Column("Question", phone="lead"),
]


def comparison_card() -> rx.Component:
    state = ComparisonState

    def draw(line: rx.Var[ComparedRow]) -> rx.Component:
        return table_row(
            cell(line.what, phone="aside"),
            cell(line.before, gray=True),
            cell(line.after, gray=True),
            cell(line.text, phone="lead"),
        )

    table = data_table(_COLUMNS, state.compared, draw, caption="Rows that differ", in_card=False, tall=False)
    chooser = field("other", "Compare with", select("other", state.others, value=state.other, on_change=state.compare))
    found = stack(if_text(state.sentence, rx.el.p(state.sentence)), if_(state.compared.length() > 0, table))
    return if_(state.others.length() > 1, card(stack(chooser, found), title="Compare"))
