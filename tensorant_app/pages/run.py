"""The page of one run: where it stands, what it costs in time, its curves, its log, and the way out."""

from __future__ import annotations

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.cards import columns
from tensorant_app.components.skeletons import skeleton_page
from tensorant_app.components.tabs import Tab, tabs
from tensorant_app.components.topbar import Crumb
from tensorant_app.components.values import if_text
from tensorant_app.pages import run_parts as parts
from tensorant_app.pages.frame import ENTER, ProjectState, framed
from tensorant_app.pages.recovery import trouble
from tensorant_app.pages.run_actions import RunActions, run_dialogs
from tensorant_app.pages.run_state import RunPageState
from tensorant_app.pages.scorings import ScoringState, scoring_dialog


@rx.page(
    route=routes.RUN,
    title="Run · Tensorant",
    on_load=[*ENTER, RunActions.close, ScoringState.close, RunPageState.load],
)
def run_page() -> rx.Component:
    run = RunPageState.head
    body = rx.fragment(
        rx.el.span(hidden=True, custom_attrs={"data-title": run.said}),
        run_dialogs(),
        scoring_dialog(),
        parts.head(),
        parts.phases(),
        trouble(),
        columns(
            [
                rx.cond(run.state == "draft", parts.configuration(), _tabs()),
            ],
            parts.side(),
        ),
    )
    return framed(
        "runs",
        if_text(run.id, body, if_text(RunPageState.error, rx.fragment(), skeleton_page())),
        crumbs=[Crumb("Runs", routes.runs(ProjectState.project.id)), Crumb(run.name, "")],
        said=run.said,
    )


def _tabs() -> rx.Component:
    return tabs(
        [
            Tab("overview", "Overview", parts.overview()),
            Tab("logs", "Logs", parts.logs("whole-log")),
            Tab("configuration", "Configuration", parts.configuration()),
            Tab("events", "Events", parts.events(), count=RunPageState.events.length()),
        ]
    )
