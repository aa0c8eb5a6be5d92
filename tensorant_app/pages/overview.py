"""A project at a glance: what needs a person, what runs now, what came of it; for a first visit, the path."""

from __future__ import annotations

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.badges import gate_badge, run_badge
from tensorant_app.components.buttons import button
from tensorant_app.components.cards import card, choice, columns, list_row, page_head
from tensorant_app.components.icons import icon
from tensorant_app.components.links import bare_link, link
from tensorant_app.components.stats import Fact, data_list
from tensorant_app.components.tables import Column, cell, data_table, name_cell, table_row
from tensorant_app.components.texts import dash_if_empty, meta, mono, when
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import each, if_
from tensorant_app.pages.compute_card import Compute, Month, compute_card, compute_of, month_card, month_of
from tensorant_app.pages.frame import ENTER, ProjectState, framed, segment
from tensorant_app.pages.lists import put
from tensorant_app.pages.overview_words import DataFacts, GlanceRow, NeedRow, facts_of, glance_of, need_of, step_of
from tensorant_app.services import overview
from tensorant_app.services.overview import OverviewView
from tensorant_app.state import AppState, id_of

_BASELINE = 2
"""The path's step that runs for a while by itself."""


class OverviewState(AppState):
    needs: list[NeedRow] = []
    live: list[GlanceRow] = []
    recent: list[GlanceRow] = []
    facts: DataFacts = DataFacts()
    compute: Compute = Compute()
    month: Month = Month()
    step: int = 0
    """Of the path: 1 Data, 2 Baseline, 3 Run, 4 Gate; 5 when it has been walked."""
    is_scoring: bool = False
    """The baseline, the path's second step, is on its way."""
    has_data: bool = False
    is_loading: bool = True

    @rx.event
    async def load(self):
        text = segment(self, "projects")
        found = await self._see(lambda session, caller: overview.show_overview(session, caller, id_of(text)))
        if found is None:
            return None
        self._show(found)
        return OverviewState.watch

    @rx.event(background=True)
    async def watch(self) -> None:
        text = segment(self, "projects")
        await self._watch(
            lambda session, caller: overview.show_overview(session, caller, id_of(text)), self._show, every=2.0
        )

    def _show(self, found: OverviewView) -> bool:
        project = segment(self, "projects")
        put(
            self,
            needs=[need_of(project, need) for need in found.needs],
            live=[glance_of(project, run) for run in found.live],
            recent=[glance_of(project, run) for run in found.recent],
            facts=facts_of(project, found),
            compute=compute_of(found),
            month=month_of(found),
            step=step_of(found),
            is_scoring=found.is_scoring,
            has_data=found.has_data,
            is_loading=False,
        )
        return True


@rx.page(route=routes.OVERVIEW, title="Overview · Tensorant", on_load=[*ENTER, OverviewState.load])
def overview_page() -> rx.Component:
    facts = ProjectState.project
    configure = button(
        "Configure a run",
        kind="solid",
        icon_name="plus",
        href=routes.configure(facts.id),
        key="n",
        command="Configure a run",
    )
    return framed(
        "overview",
        page_head(
            facts.name,
            sub=[facts.base, mono(facts.revision[:12])],
            actions=[if_((OverviewState.step > 2) & AppState.me.may_prepare, configure)],
        ),
        columns(
            [
                if_((OverviewState.step > 0) & (OverviewState.step < 5), _path()),
                if_(OverviewState.needs.length() > 0, _needs()),
                if_(OverviewState.live.length() > 0, _live()),
                if_(OverviewState.recent.length() > 0, _recent()),
            ],
            [month_card(OverviewState.month), compute_card(OverviewState.compute), _data()],
        ),
        crumbs=[Crumb("Overview")],
    )


def _path() -> rx.Component:
    project, step = ProjectState.project.id, OverviewState.step
    may = AppState.me.may_prepare

    def line(number: int, title: str, text: str, label: str, href: str) -> rx.Component:
        act = if_(may, button(label, kind="solid", href=href), meta("Waits for a member"))
        if number == _BASELINE:
            act = if_(OverviewState.is_scoring, button("Follow the scoring", href=href), act)
        done = rx.el.span(icon("check"), rx.el.span("Done", class_name="sr"), class_name="good")
        opened = choice(number, title, text, act, state="cur")
        closed = choice(number, title, text, rx.fragment())
        return rx.cond(
            step == number, opened, rx.cond(step > number, choice(number, title, text, done, state="done"), closed)
        )

    return card(
        line(
            1,
            "Data",
            "Import examples of questions and good answers, and freeze them as a version.",
            "Import data",
            routes.data(project),
        ),
        line(
            _BASELINE,
            "Baseline",
            "Score the base model on the test rows, so that there is something to beat.",
            "Start a baseline",
            routes.baseline(project),
        ),
        line(
            3,
            "Run",
            "Train an adapter on the training rows; the test rows stay unseen.",
            "Configure a run",
            routes.configure(project),
        ),
        line(
            4,
            "Gate",
            "The adapter is scored on the same test rows and passes only if it is certainly better.",
            "See the runs",
            routes.runs(project),
        ),
        title="From data to a proved adapter",
        padded=False,
    )


def _needs() -> rx.Component:
    def line(need: rx.Var[NeedRow]) -> rx.Component:
        drawing = rx.cond(
            need.is_urgent,
            icon("triangle_alert"),
            rx.cond(need.thing == "run", icon("sliders_horizontal"), icon("file_text")),
        )
        act = rx.cond(
            need.is_urgent,
            button(need.verb, kind="soft", size="sm", href=need.href),
            button(need.verb, size="sm", href=need.href),
        )
        plain = list_row(need.title, need.sentence, act, drawing=drawing)
        amber = list_row(need.title, need.sentence, act, drawing=drawing, color="amber")
        return rx.cond(need.is_urgent, amber, plain)

    count = rx.el.span(OverviewState.needs.length(), class_name="meta num")
    return card(*each(OverviewState.needs, line), title="Needs you", beside_title=[count], padded=False)


def _live() -> rx.Component:
    def line(run: rx.Var[GlanceRow]) -> rx.Component:
        loss = rx.el.div(
            rx.el.div(dash_if_empty(run.loss), class_name="num"), meta("val. loss"), style={"text_align": "right"}
        )
        price = rx.el.div(rx.el.div(run.spent, class_name="num"), meta(run.spent_word), style={"text_align": "right"})
        return list_row(run.name, run.reason, loss, price, href=run.href, badges=[run_badge(run.state, run.percent)])

    return card(*each(OverviewState.live, line), title="Running now", padded=False)


def _recent() -> rx.Component:
    columns = [
        Column("Run", phone="lead"),
        Column("Status", phone="lead"),
        Column("Gate"),
        Column("Difference", number=True, phone="aside"),
        Column("Created", number=True),
    ]

    def draw(run: rx.Var[GlanceRow]) -> rx.Component:
        return table_row(
            name_cell(run.name, run.href),
            cell(run_badge(run.state), phone="lead"),
            cell(if_(run.has_verdict, gate_badge(run.passed), rx.el.span("–", class_name="gray"))),
            cell(
                rx.el.span(dash_if_empty(run.difference), class_name=rx.cond(run.passed, "good", "")),
                number=True,
                phone="aside",
            ),
            cell(when(run.created, run.created_exact), number=True, gray=True),
        )

    table = data_table(columns, OverviewState.recent, draw, caption="Recent runs", in_card=False, tall=False)
    all_runs = link("All runs", routes.runs(ProjectState.project.id))
    return card(table, title="Recent runs", right=[all_runs], padded=False, bleeds_on_phone=True)


def _data() -> rx.Component:
    facts = OverviewState.facts
    some = data_list(
        Fact("Frozen version", bare_link(facts.version, href=facts.href, class_name="link")),
        Fact("Training rows", facts.train),
        Fact("Validation", facts.validation),
        Fact("Test", facts.test),
        Fact("Baseline", facts.baseline, unit=facts.baseline_unit),
    )
    none = rx.el.p(rx.cond(OverviewState.has_data, "Nothing is frozen yet.", "No file has been imported yet."))
    to_data = link("Data", routes.data(ProjectState.project.id))
    return card(rx.cond(facts.version != "", some, none), title="Data", right=[to_data])
