"""The page of one evaluation: the verdict in a sentence, the counts, the means, and every row's answers side by side."""

from __future__ import annotations

from typing import Any

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.badges import evaluation_badge
from tensorant_app.components.buttons import button, download_button
from tensorant_app.components.callouts import callout
from tensorant_app.components.cards import card, page_head, stack
from tensorant_app.components.chats import answer, marked_answer
from tensorant_app.components.dialogs import named_dialog
from tensorant_app.components.forms import search_input
from tensorant_app.components.links import bare_link, link
from tensorant_app.components.scorecards import Counts, change_badge, ratio, right_or_wrong, verdict
from tensorant_app.components.skeletons import skeleton_page
from tensorant_app.components.sparks import Interval, interval
from tensorant_app.components.stats import Fact, data_list, progress
from tensorant_app.components.tables import Column, cell, data_table, table_row
from tensorant_app.components.texts import keys, phone_only
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import if_, if_text
from tensorant_app.pages import scorecard_words as words
from tensorant_app.pages.evaluation_machine import EvaluationMachineState, evaluation_machine
from tensorant_app.pages.frame import ENTER, ProjectState, framed, segment
from tensorant_app.pages.lists import Pages, address, page_foot, pages_of, query, start_of
from tensorant_app.pages.scorecard_words import AnswerRow, CardHead, MetricRow, Ruling, Segment, Unfolded
from tensorant_app.services import evaluations, scorecards
from tensorant_app.services.scorecards import RowPage, RowView, Scorecard, Show
from tensorant_app.state import AppState, Work, id_of

Seen = tuple[Scorecard, RowPage]


class ScorecardState(AppState):
    head: CardHead = CardHead()
    ruling: Ruling = Ruling()
    line: Interval = interval(0, 0, 0)
    counts: Counts = Counts(0, 0, 0, 0)
    metrics: list[MetricRow] = []
    segments: list[Segment] = []
    rows: list[AnswerRow] = []
    pages: Pages = Pages()
    search: str = ""
    opened: Unfolded = Unfolded()
    _views: list[RowView] = []
    _turn: int = 0

    @rx.event
    async def load(self) -> Any:
        self._turn += 1
        found = await self._see(self._look())
        if found is None:
            self.head = CardHead()
            return None
        self.opened = Unfolded()
        self._show(found)
        return ScorecardState.watch

    @rx.event(background=True)
    async def watch(self) -> None:
        """Once a second until there is a verdict, or the evaluation has ended without one."""
        async with self:
            turn, look = self._turn, self._look()

        def show(found: Seen) -> bool:
            if self._turn != turn:
                return False
            self._show(found)
            return not found[0].is_final

        await self._watch(look, show)

    @rx.event
    async def unfold(self, row: int) -> None:
        """Open a row's answers in full, or close them."""
        if await self._see(self._look()) is None:
            return
        found = next((view for view in self._views if view.row == row), None)
        self.opened = words.unfold(found) if found and self.opened.row != row else Unfolded()

    @rx.event
    async def find(self, text: str) -> Any:
        if await self._see(self._look()) is None:
            return None
        self.search = text[:200]
        return rx.redirect(address(self, q=self.search, **{"from": 0}), replace=True)

    @rx.event
    async def cancel(self) -> None:
        _, evaluation_id = self._address()
        await self._do(lambda session, caller: evaluations.cancel_evaluation(session, caller, id_of(evaluation_id)))

    def _address(self) -> tuple[str, str]:
        return segment(self, "projects"), segment(self, "evaluations")

    def _look(self) -> Work[Seen]:
        project, evaluation = self._address()
        show, search, start = self._shown(), query(self, "q"), start_of(self)

        return lambda session, caller: (
            scorecards.show_scorecard(session, caller, id_of(project), id_of(evaluation)),
            scorecards.list_rows(
                session, caller, id_of(project), id_of(evaluation), show=show, search=search, start=start
            ),
        )

    def _shown(self) -> Show:
        wanted = query(self, "show")
        return Show(wanted) if wanted in set(Show) else Show.ALL

    def _show(self, found: Seen) -> None:
        card_, page = found
        self._set("head", words.head_of(card_))
        self._set("ruling", words.ruling_of(card_))
        self._set("line", words.interval_of(card_))
        self._set("counts", words.counts_of(card_))
        self._set("metrics", words.metrics_of(card_))
        self._set(
            "segments", words.segments_of(card_, self._shown(), lambda show: address(self, show=show, **{"from": 0}))
        )
        self._set("rows", [words.row_of(row) for row in page.rows])
        self._set("pages", pages_of(self, len(page.rows), page.total))
        self._set("search", query(self, "q"))
        self._views = list(page.rows)

    def _set(self, name: str, value: Any) -> None:
        if getattr(self, name) != value:
            setattr(self, name, value)


S = ScorecardState


@rx.page(
    route=routes.SCORECARD,
    title="Scorecard · Tensorant",
    on_load=[*ENTER, ScorecardState.load, EvaluationMachineState.load],
)
def scorecard_page() -> rx.Component:
    body = stack(
        evaluation_machine(),
        if_(S.head.is_live, _scoring()),
        if_(~S.head.is_live & (S.head.state != "completed"), _ended()),
        if_(S.ruling.is_there, _ruling()),
        if_((S.metrics.length() > 0) & ~S.head.is_live, rx.fragment(_means())),
        if_((S.metrics.length() > 0) & ~S.head.is_live, rx.fragment(_rows())),
        if_text(S.ruling.rule, card(data_list(Fact("Gate", S.ruling.rule), full=True), title="Fixed before the run")),
    )
    return framed(
        "evaluations",
        if_text(S.head.id, rx.fragment(_head(), body), if_text(S.error, rx.fragment(), skeleton_page())),
        crumbs=[
            Crumb("Evaluate", routes.evaluations(ProjectState.project.id)),
            Crumb(rx.cond(S.head.run != "", S.head.run, S.head.title), ""),
        ],
        said=S.head.said,
    )


def _head() -> rx.Component:
    against = rx.el.span(
        rx.cond(S.head.is_baseline, "", "against the baseline of "), rx.el.span(S.head.base), class_name="nowrap"
    )
    return page_head(
        S.head.title,
        sub=[
            evaluation_badge(S.head.state, S.head.percent),
            if_text(S.head.run, link(S.head.run, href=S.head.run_href)),
            against,
            link(S.head.version, href=S.head.version_href),
        ],
        actions=[
            if_text(S.head.baseline_answers, download_button("Baseline answers", S.head.baseline_answers)),
            if_text(S.head.answers, download_button("Answers", S.head.answers)),
            if_(S.head.is_live & (S.head.state != "completed"), _cancel()),
            if_text(S.head.run_href, button("Open run", kind="solid", href=S.head.run_href)),
        ],
    )


def _cancel() -> rx.Component:
    return named_dialog(
        "Cancel this evaluation?",
        "The answers so far are thrown away; the adapter, if there is one, is safe.",
        confirm_label="Cancel evaluation",
        cancel_label="Keep scoring",
        is_open=False,
        on_open_change=None,
        on_confirm=S.cancel,
        error=S.error,
        reasons=S.reasons,
        trigger=button("Cancel evaluation", disabled=~S.me.may_stop),
    )


def _scoring() -> rx.Component:
    return card(
        rx.el.p(
            rx.cond(S.head.line != "", S.head.line, "Waits for its machine"),
            ". The verdict comes when every row is scored.",
        ),
        rx.el.div(progress(S.head.percent, "Rows scored"), style={"margin_top": "10px"}),
        title="Scoring",
    )


def _ended() -> rx.Component:
    said = rx.cond(S.head.line != "", S.head.line, "It ended without answers.")
    return callout(rx.el.span(said, class_name="strong"), tone="amber")


def _ruling() -> rx.Component:
    counts = rx.el.div(
        ratio(S.counts, S.ruling.resamples, S.head.took),
        if_text(S.ruling.likelihood, rx.el.p(S.ruling.likelihood, ".", class_name="meta", style={"margin_top": "8px"})),
        style={"padding": "16px 22px 18px", "border_top": "1px solid var(--gray-a4)"},
    )
    return card(verdict(S.ruling.passed, S.ruling.sentence, S.ruling.why, S.line), counts, padded=False)


def _means() -> rx.Component:
    columns = [
        Column("Metric", phone="lead"),
        Column("Role"),
        Column("Baseline", number=True),
        Column("Adapter", number=True, phone="aside first"),
        Column("Difference", number=True, phone="aside"),
        Column("Verdict"),
    ]
    own = [Column("Metric", phone="lead"), Column("Base model", number=True, phone="aside")]
    return rx.cond(
        S.head.is_baseline,
        data_table(own, S.metrics, _own_mean, caption="Means of the base model", tall=False),
        data_table(columns, S.metrics, _mean, caption="Means of baseline and adapter", tall=False),
    )


def _own_mean(row: rx.Var[MetricRow]) -> rx.Component:
    return rx.el.tr(
        cell(rx.el.span(row.name, class_name="strong"), phone="lead"),
        cell(row.baseline, number=True, phone="aside"),
        role="row",
    )


def _mean(row: rx.Var[MetricRow]) -> rx.Component:
    tone = row.tone
    on_phone = phone_only(rx.cond(row.role != "", f"{row.role}, base {row.baseline}", f"Base {row.baseline}"))
    difference = rx.el.span(row.difference, class_name=rx.cond(row.role == "Primary", tone + " strong", ""))
    return rx.el.tr(
        cell(rx.el.div(row.name, class_name="strong"), rx.el.div(on_phone, class_name="meta"), phone="lead"),
        cell(row.role, gray=True),
        cell(row.baseline, number=True),
        cell(rx.el.span(row.adapter, class_name="strong"), number=True, phone="aside first"),
        cell(difference, number=True, phone="aside"),
        cell(rx.el.span(row.verdict, class_name=tone)),
        role="row",
    )


def _rows() -> rx.Component:
    search = rx.el.div(
        search_input("rows-search", "Search answers", value=S.search, on_change=S.find.debounce(300)),
        style={"width": "190px"},
    )
    head = rx.el.div(
        rx.el.h2("Row by row", class_name="h3"),
        rx.el.nav(rx.foreach(S.segments, _segment), class_name="seg sm", custom_attrs={"aria-label": "Which rows"}),
        rx.el.div(search, class_name="r"),
        class_name="ch wrap",
    )
    columns = [
        Column("Row", width="62px"),
        Column("Question", phone="lead"),
        Column("Expected", width="15%"),
        Column("Baseline", width="15%"),
        Column("Adapter", width="15%"),
        Column("Change", width="112px", phone="aside", hidden_label=True),
    ]
    own = [columns[0], columns[1], columns[2], Column("Answer", width="20%"), columns[5]]
    foot = page_foot(
        rx.el.span(keys("J"), keys("K"), " next, previous; ", keys("Enter"), " unfolds", class_name="wide-only"),
        S.pages,
        keys=False,
    )
    empty = rx.el.div(rx.el.p("No row of this kind."), class_name="empty")
    table = rx.cond(
        S.head.is_baseline,
        data_table(
            own, S.rows, _own_row, caption="Rows and answers", foot=foot, in_card=False, empty=empty, tall=False
        ),
        data_table(
            columns, S.rows, _row, caption="Rows and answers", foot=foot, in_card=False, empty=empty, tall=False
        ),
    )
    return card(head, table, padded=False, bleeds_on_phone=True)


def _segment(item: rx.Var[Segment]) -> rx.Component:
    attrs = {"data-key": item.key, "aria-keyshortcuts": item.key, "aria-current": rx.cond(item.is_it, "true", "false")}
    return bare_link(item.label, rx.el.span(item.count, class_name="c"), href=item.href, custom_attrs=attrs)


def _row(row: rx.Var[AnswerRow]) -> rx.Component:
    is_open = S.opened.row == row.row
    line = table_row(
        cell(row.label, gray=True),
        cell(_question(row, is_open), phone="lead"),
        cell(answer(row.expected)),
        cell(_given(row.baseline, row.baseline_right | row.baseline_likely)),
        cell(_given(row.adapter, row.adapter_right)),
        cell(change_badge(row.change), number=True, phone="aside"),
        is_marked=is_open,
    )
    opened = S.opened
    trip = rx.el.div(
        _answer("Expected", answer(opened.expected)),
        _answer(
            "Baseline",
            _marked(opened.baseline),
            opened.baseline_right,
            opened.baseline_note,
            is_likely=opened.baseline_likely,
        ),
        _answer("Adapter", _marked(opened.adapter), opened.adapter_right, opened.adapter_note),
        class_name="trip",
    )
    return rx.fragment(line, rx.cond(is_open, _unfolded(trip, 6)))


def _own_row(row: rx.Var[AnswerRow]) -> rx.Component:
    is_open = S.opened.row == row.row
    line = table_row(
        cell(row.label, gray=True),
        cell(_question(row, is_open), phone="lead"),
        cell(answer(row.expected)),
        cell(_given(row.baseline, row.baseline_right)),
        cell(right_or_wrong(row.baseline_right), phone="aside"),
        is_marked=is_open,
    )
    opened = S.opened
    pair = rx.el.div(
        _answer("Expected", answer(opened.expected)),
        _answer("Base model", _marked(opened.baseline), opened.baseline_right, opened.baseline_note),
        class_name="trip",
    )
    return rx.fragment(line, rx.cond(is_open, _unfolded(pair, 5)))


def _question(row: rx.Var[AnswerRow], is_open: rx.Var[bool]) -> rx.Component:
    return rx.el.button(
        rx.el.span(row.question, class_name="clamp"),
        type="button",
        on_click=S.unfold(row.row),
        style={"text_align": "left"},
        custom_attrs={"aria-expanded": rx.cond(is_open, "true", "false")},
    )


def _unfolded(content: rx.Component, columns: int) -> rx.Component:
    whole = rx.el.p(S.opened.question, class_name="meta", style={"margin": "0 0 8px", "white_space": "pre-wrap"})
    return rx.el.tr(cell(whole, content, phone="whole", whole=columns), role="row", class_name="sel")


def _answer(
    head: str, body: rx.Component, right: Any = None, note: Any = "", *, is_likely: Any = False
) -> rx.Component:
    marks = [right_or_wrong(right, is_likely)] if right is not None else []
    under = [rx.el.div(note, class_name="meta", style={"margin_top": "6px"})] if right is not None else []
    return rx.el.div(rx.el.div(head, *marks, class_name="h"), body, *under)


def _marked(spans: Any) -> rx.Component:
    return marked_answer(spans)


def _given(text: rx.Var[str], is_right: rx.Var[bool]) -> rx.Component:
    return rx.el.div(rx.cond(is_right, rx.el.span(text), rx.el.mark(text)), class_name="ans")
