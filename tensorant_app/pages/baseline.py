"""The base model scored on a frozen version: what every adapter of that version has to beat."""

from __future__ import annotations

from dataclasses import dataclass

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.badges import evaluation_badge
from tensorant_app.components.buttons import action_with_reason, button
from tensorant_app.components.cards import page_head
from tensorant_app.components.dialogs import named_dialog
from tensorant_app.components.empty import empty_state
from tensorant_app.components.stats import progress
from tensorant_app.components.tables import Column, cell, data_table, name_cell, table_row
from tensorant_app.components.texts import dash_if_empty, meta, phone_only, when
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import if_, if_text
from tensorant_app.pages.frame import ENTER, ProjectState, framed, segment
from tensorant_app.pages.lists import Pages, page_foot, pages_of, put, start_of
from tensorant_app.pages.scorings import ScoringState, scoring_dialog
from tensorant_app.pages.words import ago, exact, price_of, span
from tensorant_app.services import baselines, datasets, evaluations
from tensorant_app.services.baselines import BaselineLine
from tensorant_app.state import AppState, id_of

VIEWERS = "Viewers cannot start evaluations. Ask a member of the organization."


@dataclass(frozen=True)
class BaselineRow:
    id: str
    name: str
    href: str
    state: str
    percent: int
    reason: str
    exact: str
    f1: str
    likely: str
    took: str
    spent: str
    spent_word: str
    created: str
    created_exact: str
    is_live: bool


class BaselineState(AppState):
    rows: list[BaselineRow] = []
    pages: Pages = Pages()
    has_version: bool = False
    """Some version is frozen."""
    asks_cancel: str = ""
    """The evaluation that somebody wants to cancel."""
    is_loading: bool = True

    @rx.event
    async def load(self):
        text = segment(self, "projects")
        put(self, asks_cancel="")
        found = await self._see(self._look())
        frozen = await self._see(lambda s, c: datasets.frozen_versions(s, c, id_of(text))) if found else None
        if found is None or frozen is None:
            return None
        put(self, has_version=bool(frozen))
        self._show(found)
        return BaselineState.watch

    @rx.event(background=True)
    async def watch(self) -> None:
        await self._watch(self._look(), self._show, every=1.5)

    @rx.event
    async def ask_cancel(self, evaluation: str) -> None:
        """Whether to cancel this one; with nothing the question is closed."""
        if not evaluation:
            text = segment(self, "projects")
            found = await self._see(lambda session, caller: baselines.list_baselines(session, caller, id_of(text)))
        else:
            found = await self._see(
                lambda session, caller: evaluations.show_evaluation(session, caller, id_of(evaluation))
            )
        if found is not None:
            self.asks_cancel = evaluation

    @rx.event
    async def cancel(self) -> None:
        asked = self.asks_cancel
        await self._do(lambda session, caller: evaluations.cancel_evaluation(session, caller, id_of(asked)))
        if not self.error:
            self.asks_cancel = ""

    def _look(self):
        text, start = segment(self, "projects"), start_of(self)
        return lambda session, caller: baselines.list_baselines(session, caller, id_of(text), start=start)

    def _show(self, found: tuple[list[BaselineLine], int]) -> bool:
        lines, total = found
        project = segment(self, "projects")
        put(
            self,
            rows=[_row(project, line) for line in lines],
            pages=pages_of(self, len(lines), total),
            is_loading=False,
        )
        return True


def _row(project: str, line: BaselineLine) -> BaselineRow:
    scores = line.scores or {}
    percent = round(100 * line.done / line.total) if line.total else 0
    progress_words = f"{line.done:,} of {line.total:,} test rows" if line.total and line.is_live else ""
    took = span(line.ended_at - line.started_at) if line.ended_at and line.started_at else ""
    return BaselineRow(
        str(line.id),
        f"{line.dataset} v{line.version}",
        routes.scorecard(project, line.id),
        line.state.value,
        percent,
        line.sentence or progress_words,
        *(_percent(scores.get(key)) for key in ("exact_match", "token_f1", "likelihood")),
        took,
        *price_of(line.spend),
        ago(line.created_at),
        exact(line.created_at),
        line.is_live,
    )


def _percent(score: float | None) -> str:
    return f"{100 * score:.1f} %" if score is not None else ""


_COLUMNS = [
    Column("Version", phone="lead", skeleton=("80px",)),
    Column("Status", phone="lead"),
    Column("Exact match", number=True, phone="aside"),
    Column("Token F1", number=True),
    Column("Likeliest label", number=True),
    Column("Took", number=True),
    Column("Spend", number=True),
    Column("Started", number=True),
    Column("Actions", hidden_label=True, number=True, phone="aside"),
]


def _draw(line: rx.Var[BaselineRow]) -> rx.Component:
    bar = if_(line.is_live & (line.percent > 0), progress(line.percent, "Test rows answered", in_cell=True))
    stop = button("Cancel", size="sm", on_click=BaselineState.ask_cancel(line.id))
    return table_row(
        name_cell(line.name, line.href),
        cell(
            evaluation_badge(line.state, line.percent),
            if_text(line.reason, rx.el.div(line.reason, class_name="meta", style={"margin_top": "4px"})),
            bar,
            phone="lead",
        ),
        cell(phone_only("exact "), dash_if_empty(line.exact), number=True, phone="aside"),
        cell(dash_if_empty(line.f1), number=True),
        cell(dash_if_empty(line.likely), number=True),
        cell(dash_if_empty(line.took), number=True, gray=True),
        cell(dash_if_empty(line.spent), if_text(line.spent, meta(line.spent_word)), number=True),
        cell(when(line.created, line.created_exact), number=True, gray=True),
        cell(if_(line.is_live & AppState.me.may_stop, rx.el.div(stop, class_name="above")), number=True, phone="aside"),
    )


@rx.page(route=routes.BASELINE, title="Baseline · Tensorant", on_load=[*ENTER, ScoringState.close, BaselineState.load])
def baseline_page() -> rx.Component:
    none = empty_state(
        "No baseline yet",
        "A baseline is the base model's own score on the test rows of a frozen version. "
        "Without it nothing can be called better.",
        actions=[_start("Start a baseline")],
    )
    return framed(
        "baseline",
        page_head(
            "Baseline",
            sub=[rx.fragment("What ", ProjectState.project.base, " scores without any tuning.")],
            actions=[if_(BaselineState.rows.length() > 0, _start("Start a baseline"))],
        ),
        data_table(
            _COLUMNS,
            BaselineState.rows,
            _draw,
            caption="Baseline evaluations",
            empty=none,
            is_loading=BaselineState.is_loading,
            foot=page_foot("", BaselineState.pages),
        ),
        scoring_dialog(),
        _cancel_dialog(),
        crumbs=[Crumb("Baseline")],
    )


def _start(label: str) -> rx.Component:
    go = button(label, kind="solid", icon_name="ruler", on_click=ScoringState.ask_base)
    to_data = action_with_reason(
        button("Open data", kind="solid", href=routes.data(ProjectState.project.id)), "Freeze a version first."
    )
    off = action_with_reason(button(label, kind="solid", disabled=True), VIEWERS)
    return if_(AppState.me.may_spend, if_(BaselineState.has_version, go, to_data), off)


def _cancel_dialog() -> rx.Component:
    return named_dialog(
        "Cancel this evaluation?",
        "Its answers so far are thrown away; a new one begins from the first row.",
        confirm_label="Cancel evaluation",
        cancel_label="Keep scoring",
        is_open=BaselineState.asks_cancel != "",
        on_open_change=BaselineState.ask_cancel(""),
        on_confirm=BaselineState.cancel,
        error=AppState.error,
    )
