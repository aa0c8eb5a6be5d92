"""The list of a project's evaluations: baselines and scored adapters, with their verdicts."""

from __future__ import annotations

from dataclasses import dataclass

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.badges import evaluation_badge, gate_badge
from tensorant_app.components.buttons import button
from tensorant_app.components.cards import page_head
from tensorant_app.components.empty import empty_state
from tensorant_app.components.tables import Column, cell, data_table, name_cell, table_row
from tensorant_app.components.texts import dash_if_empty, meta, phone_only, when
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import if_, if_text
from tensorant_app.domain.evaluations import EvaluationKind
from tensorant_app.pages.frame import ENTER, ProjectState, framed, segment
from tensorant_app.pages.lists import Pages, page_foot, pages_of, start_of
from tensorant_app.pages.words import ago, exact, price_of
from tensorant_app.services import scorecards
from tensorant_app.services.scorecards import ListedEvaluation
from tensorant_app.state import AppState, id_of


@dataclass(frozen=True)
class EvaluationRow:
    href: str
    name: str
    what: str
    state: str
    reason: str
    version: str
    exact_match: str
    f1: str
    has_verdict: bool
    passed: bool
    spent: str
    spent_word: str
    created: str
    created_exact: str


class EvaluationsState(AppState):
    rows: list[EvaluationRow] = []
    pages: Pages = Pages()
    is_loading: bool = True

    @rx.event
    async def load(self) -> None:
        project, start = segment(self, "projects"), start_of(self)
        found = await self._see(
            lambda session, caller: scorecards.list_evaluations(session, caller, id_of(project), start=start)
        )
        if found is None:
            return
        self.is_loading = False
        self.rows = [_row_of(project, one) for one in found[0]]
        self.pages = pages_of(self, len(self.rows), found[1])


def _row_of(project: str, one: ListedEvaluation) -> EvaluationRow:
    is_baseline = one.kind is EvaluationKind.BASELINE
    spent, word = price_of(one.spend)
    return EvaluationRow(
        href=routes.scorecard(project, one.id),
        name="Baseline" if is_baseline else one.run_name,
        what="Base model alone" if is_baseline else "Adapter against its baseline",
        state=one.state.value,
        reason=one.sentence or "",
        version=f"{one.dataset} v{one.version}",
        exact_match=_percent(one.scores.get("exact_match")),
        f1=_percent(one.scores.get("token_f1")),
        has_verdict=one.verdict is not None,
        passed=bool(one.verdict and one.verdict["passed"]),
        spent=spent,
        spent_word=word,
        created=ago(one.created_at),
        created_exact=exact(one.created_at),
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


@rx.page(route=routes.EVALUATIONS, title="Evaluate · Tensorant", on_load=[*ENTER, EvaluationsState.load])
def evaluations_page() -> rx.Component:
    project = ProjectState.project.id
    columns = [
        Column("Evaluation", phone="lead", skeleton=("120px", "160px")),
        Column("Status", phone="aside"),
        Column("Data version"),
        Column("Exact match", number=True, phone="aside"),
        Column("Token F1", number=True),
        Column("Gate"),
        Column("Spend", number=True),
        Column("Created"),
    ]
    empty = empty_state(
        "No evaluation yet",
        "A baseline scores the base model on your test rows; every adapter is then compared with it, row by row.",
        actions=[button("Evaluate the base model", kind="solid", href=routes.baseline(project))],
    )
    return framed(
        "evaluations",
        page_head("Evaluate", sub=["Base model and adapters on test rows that were never trained on"]),
        data_table(
            columns,
            EvaluationsState.rows,
            _row,
            caption="Evaluations",
            empty=empty,
            is_loading=EvaluationsState.is_loading,
            foot=page_foot("", EvaluationsState.pages),
        ),
        crumbs=[Crumb("Evaluate", "")],
    )


def _row(row: rx.Var[EvaluationRow]) -> rx.Component:
    reason = if_text(row.reason, rx.el.div(row.reason, class_name="meta clamp"))
    return table_row(
        name_cell(row.name, row.href, row.what),
        cell(evaluation_badge(row.state), reason, phone="aside"),
        cell(row.version),
        cell(phone_only("exact "), row.exact_match, number=True, phone="aside"),
        cell(row.f1, number=True),
        cell(if_(row.has_verdict, gate_badge(row.passed), rx.el.span("–", class_name="gray"))),
        cell(dash_if_empty(row.spent), if_text(row.spent, meta(" ", row.spent_word)), number=True),
        cell(when(row.created, row.created_exact), gray=True),
    )
