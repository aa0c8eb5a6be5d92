"""What the base model's template makes of a version's rows: their lengths, those beyond a context length, and those it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import reflex as rx

from tensorant_app.components.cards import card, grid, stack
from tensorant_app.components.charts import chart_card, points_table
from tensorant_app.components.figures import EMPTY, Figure, histogram_figure
from tensorant_app.components.forms import field, field_grid, text_input
from tensorant_app.components.skeletons import skeleton_card
from tensorant_app.components.tables import Column, cell, data_table, table_row
from tensorant_app.components.values import Node, if_
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.tokens import Bar
from tensorant_app.domain.wording import count
from tensorant_app.pages.frame import fault, segment
from tensorant_app.pages.lists import put
from tensorant_app.pages.words import share
from tensorant_app.services import tokens
from tensorant_app.services.tokens import SHOWN_ROWS, Lengths, TokensView
from tensorant_app.services.versions import Report
from tensorant_app.state import AppState, id_of

_MOST_SHOWN = 50
_CONTEXT = f"{RunSettings().context_length:,}"


@dataclass(frozen=True)
class MarkedRow:
    """A row by its number and split, and what is to be said of it."""

    split: str
    row: str
    message: str


class TokensState(AppState):
    figure: Figure = EMPTY
    trained_figure: Figure = EMPTY
    lengths: list[list[str]] = []
    trained_lengths: list[list[str]] = []
    words: str = ""
    trained_words: str = ""
    per_epoch: str = ""
    context: str = _CONTEXT
    beyond: str = ""
    """How many rows are longer than the context length."""
    long_rows: list[MarkedRow] = []
    has_rows: bool = False
    is_loading: bool = True

    @rx.event
    async def load(self) -> None:
        """Whenever the page gets a report to show."""
        self.is_loading = True
        await self._look(_CONTEXT)

    @rx.event
    async def ask(self, context: str) -> None:
        """The rows beyond another context length."""
        await self._look(context)

    async def _look(self, context: str) -> None:
        text, typed = segment(self, "versions"), context.replace(",", "").strip()
        length = int(typed) if typed.isdecimal() and len(typed) < 10 else -1
        found = await self._see(
            lambda session, caller: tokens.show_tokens(session, caller, id_of(text), context_length=length)
        )
        if found is not None:
            self._show(found, length)

    def _show(self, found: TokensView, length: int) -> None:
        put(
            self,
            figure=_figure(found.tokens),
            trained_figure=_figure(found.trained),
            lengths=_lines(found.tokens.bars),
            trained_lengths=_lines(found.trained.bars),
            words=_words(found.tokens),
            trained_words=_words(found.trained),
            per_epoch=f"One epoch reads {count(found.per_epoch, 'token')} and learns {found.trained_per_epoch:,} of them "
            f"({share(found.trained_per_epoch, found.per_epoch)}).",
            context=f"{length:,}",
            beyond=_beyond(found, length),
            long_rows=[
                MarkedRow(r.split.capitalize(), f"{r.row:,}", count(r.tokens, "token")) for r in found.too_long_rows
            ],
            has_rows=found.rows > 0,
            is_loading=False,
        )


def _figure(lengths: Lengths) -> Figure:
    return histogram_figure(
        [(bar.start, bar.rows, f"{_span(bar)} tokens: {count(bar.rows, 'row')}") for bar in lengths.bars]
    )


def _span(bar: Bar) -> str:
    if bar.end is None:
        return f"{bar.start:,} and more"
    return f"{bar.start:,}" if bar.end == bar.start + 1 else f"{bar.start:,}–{bar.end - 1:,}"


def _lines(bars: Sequence[Bar]) -> list[list[str]]:
    return [[_span(bar), f"{bar.rows:,}"] for bar in bars if bar.rows]


def _words(lengths: Lengths) -> str:
    return (
        f"Half of the rows have {lengths.middle:,} or fewer, the longest has {lengths.most:,}." if lengths.bars else ""
    )


def _beyond(found: TokensView, length: int) -> str:
    if not found.too_long:
        return f"Every row fits into {length:,} tokens."
    more = f" The first {SHOWN_ROWS} are listed." if found.too_long > SHOWN_ROWS else ""
    verb = "is" if found.too_long == 1 else "are"
    return f"{count(found.too_long, 'row')} {verb} longer. A run with this context length is refused, and no row is ever cut.{more}"


def refused_of(report: Report) -> list[MarkedRow]:
    """The first rows that the template refuses, with its own words."""
    return [MarkedRow(e.split.capitalize(), f"{e.row:,}", e.message) for e in report.mask.errors[:_MOST_SHOWN]]


def tokens_panel() -> rx.Component:
    """Mounted where a report is there, and filled then."""
    S = TokensState
    charts = grid(
        _chart("Tokens per row", S.figure, S.words, S.lengths),
        _chart("Trained tokens per row", S.trained_figure, S.trained_words, S.trained_lengths),
    )
    shown = rx.cond(S.is_loading, skeleton_card(4), stack(charts, _context_card()))
    return rx.el.div(shown, on_mount=TokensState.load)


def _chart(title: str, figure: Any, words: Node, lines: Any) -> rx.Component:
    table = points_table(("Tokens", "Rows"), lines)
    return chart_card(
        title, figure, words, table=table, has_points=TokensState.has_rows, waiting="No row is rendered.", height=180
    )


def _context_card() -> rx.Component:
    S = TokensState
    box = text_input(
        "context-length",
        value=S.context,
        on_change=S.ask.debounce(400),
        input_mode="numeric",
        end="tokens",
        error=fault("context_length"),
    )
    words = stack(
        rx.el.p(S.per_epoch),
        field_grid(field("context-length", "Context length", box, error=fault("context_length"))),
        rx.el.p(S.beyond, class_name="meta", role="status"),
        tight=True,
    )
    table = marked_rows(S.long_rows, "Rows beyond the context length", "Length")
    return card(
        rx.el.div(words, class_name="cb"),
        if_(S.long_rows.length() > 0, table),
        title="What one epoch reads",
        padded=False,
    )


def refused_card(rows: rx.Var[list[MarkedRow]]) -> rx.Component:
    return card(
        marked_rows(rows, "Rows that cannot be trained", "Why"), title="Rows that cannot be trained", padded=False
    )


def marked_rows(rows: rx.Var[list[MarkedRow]], caption: str, what: str) -> rx.Component:
    def draw(found: rx.Var[MarkedRow]) -> rx.Component:
        return table_row(
            cell(found.row, number=True, phone="aside"),
            cell(found.split, gray=True, phone="aside"),
            cell(found.message, phone="lead"),
        )

    heads = [Column("Row", number=True, phone="aside"), Column("Split", phone="aside"), Column(what, phone="lead")]
    return data_table(heads, rows, draw, caption=caption, in_card=False, tall=False)
