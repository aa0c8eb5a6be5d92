"""The base model scored on a frozen version: what every adapter of that version has to beat."""

from __future__ import annotations

from dataclasses import dataclass

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.badges import evaluation_badge
from tensorant_app.components.buttons import action_with_reason, button
from tensorant_app.components.callouts import callout
from tensorant_app.components.cards import page_head
from tensorant_app.components.choices import Option, select
from tensorant_app.components.dialogs import named_dialog, paid_dialog
from tensorant_app.components.empty import empty_state
from tensorant_app.components.forms import field
from tensorant_app.components.stats import Fact, Stat, progress
from tensorant_app.components.tables import Column, cell, data_table, name_cell, table_row
from tensorant_app.components.texts import dash_if_empty, phone_only, when
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import if_, if_text
from tensorant_app.domain.leakage import leak_sentences
from tensorant_app.pages.frame import ENTER, ProjectState, framed, segment
from tensorant_app.pages.lists import Pages, page_foot, pages_of, put, start_of
from tensorant_app.pages.words import ago, exact, span
from tensorant_app.services import baselines, datasets, evaluations, versions
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
    created: str
    created_exact: str
    is_live: bool


class BaselineState(AppState):
    rows: list[BaselineRow] = []
    pages: Pages = Pages()
    versions: list[Option] = []
    chosen: str = ""
    leaks: str = ""
    """Which of the chosen version's rows stand on two sides."""
    asks_start: bool = False
    asks_cancel: str = ""
    """The evaluation that somebody wants to cancel."""
    is_loading: bool = True

    @rx.event
    async def load(self):
        text = segment(self, "projects")
        put(self, asks_start=False, asks_cancel="")
        found = await self._see(self._look())
        frozen = await self._see(lambda s, c: datasets.frozen_versions(s, c, id_of(text))) if found else None
        if found is None or frozen is None:
            return None
        self.versions = [
            Option(str(one.id), f"v{one.number} · {one.rows or 0:,} rows · {one.file_name}") for one in frozen
        ]
        self._show(found)
        return BaselineState.watch

    @rx.event(background=True)
    async def watch(self) -> None:
        await self._watch(self._look(), self._show, every=1.5)

    @rx.event
    async def ask_start(self, is_open: bool) -> None:
        """Open the question with the newest frozen version; nothing is started by it."""
        text = segment(self, "projects")
        frozen = await self._see(lambda session, caller: datasets.frozen_versions(session, caller, id_of(text)))
        if frozen is not None:
            self.asks_start = is_open and bool(frozen)
            self.chosen = str(frozen[0].id) if frozen else ""
            self.leaks = frozen[0].leaks if frozen else ""

    @rx.event
    async def choose(self, version: str) -> None:
        found = await self._see(lambda session, caller: versions.show_version(session, caller, id_of(version)))
        if found is not None:
            self.chosen = version
            self.leaks = " ".join(leak_sentences(found.report.repeats)) if found.report else ""

    @rx.event
    async def start(self) -> None:
        chosen = self.chosen
        await self._do(lambda session, caller: evaluations.create_baseline(session, caller, id_of(chosen)))
        if not self.error:
            self.asks_start = False

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
        cell(when(line.created, line.created_exact), number=True, gray=True),
        cell(if_(line.is_live & AppState.me.may_stop, rx.el.div(stop, class_name="above")), number=True, phone="aside"),
    )


@rx.page(route=routes.BASELINE, title="Baseline · Tensorant", on_load=[*ENTER, BaselineState.load])
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
        _start_dialog(),
        _cancel_dialog(),
        crumbs=[Crumb("Baseline")],
    )


def _start(label: str) -> rx.Component:
    go = button(label, kind="solid", icon_name="ruler", on_click=BaselineState.ask_start(True))
    to_data = action_with_reason(
        button("Open data", kind="solid", href=routes.data(ProjectState.project.id)), "Freeze a version first."
    )
    off = action_with_reason(button(label, kind="solid", disabled=True), VIEWERS)
    return if_(AppState.me.may_spend, if_(BaselineState.versions.length() > 0, go, to_data), off)


def _start_dialog() -> rx.Component:
    version = field(
        "version",
        "Frozen version",
        select("version", BaselineState.versions, value=BaselineState.chosen, on_change=BaselineState.choose),
    )
    return paid_dialog(
        "Start a baseline?",
        "The base model answers every test row of the version once. The answers are kept and never computed again.",
        price=[Stat("Price", "$0"), Stat("Where", "This computer"), Stat("At most", "2", "h")],
        facts=[
            Fact("Base model", ProjectState.project.base),
            Fact("At the limit", "It ends as failed after 2 hours; nothing is billed."),
        ],
        confirm_label="Start baseline · $0",
        is_open=BaselineState.asks_start,
        on_open_change=BaselineState.ask_start,
        on_confirm=BaselineState.start,
        error=AppState.error,
        reasons=AppState.reasons,
        extra=rx.el.div(
            version, if_text(BaselineState.leaks, callout(BaselineState.leaks, tone="amber")), class_name="stack"
        ),
    )


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
