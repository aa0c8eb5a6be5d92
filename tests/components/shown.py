"""A state with one variable of every kind of value, and every component drawn from plain values and from variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import reflex as rx

from tensorant_app.components import (
    badges,
    buttons,
    callouts,
    cards,
    charts,
    chats,
    checks,
    choices,
    dialogs,
    empty,
    forms,
    logs,
    navigation,
    scorecards,
    shell,
    skeletons,
    sparks,
    stats,
    steppers,
    tables,
    tabs,
    texts,
    topbar,
)
from tensorant_app.components.figures import loss_figure

FIGURE = loss_figure([(0, 2.0), (10, 1.0)], [(0, 2.0), (10, 1.0)], [(10, 1.1)], total_steps=20)


class Shown(rx.State):
    """What a page's state would hold."""

    text: str = "triage-v7-r16"
    number: int = 2
    yes: bool = True
    no: bool = False
    words: list[str] = ["L40S costs more than the limit.", "No stock."]
    run_state: str = "training"
    machine_state: str = "asked"
    evaluation_state: str = "running"
    version_state: str = "frozen"
    import_state: str = "receiving"
    deployment_state: str = "serving"
    connection_state: str = "failed"
    change: str = "gained"
    viewer: topbar.Viewer = topbar.Viewer("Mira Okafor", "MO", "mira@halden.example", "Halden", "Owner")
    projects: list[navigation.ProjectLink] = [navigation.ProjectLink("p1", "Support triage", "Qwen3-8B")]
    phases: list[steppers.Phase] = [
        steppers.Phase("Queued", "done", "0 min"),
        steppers.Phase("Training", "now", "52 min · $0.75", 61),
        steppers.Phase("Evaluating", "todo", "about 14 min"),
    ]
    checks: list[checks.CheckLine] = [
        checks.CheckLine("refuse", "L40S costs more than your limit", "$0.86/h", "Raise the limit", "price"),
        checks.CheckLine("pass", "RunPod can create machines"),
    ]
    lines: list[logs.LogLine] = [logs.LogLine("14:30:14", "info", "step 1380 loss 0.458")]
    bubbles: list[chats.Bubble] = [chats.Bubble("assistant", "Assistant", "P1", True)]
    turns: list[chats.Turn] = [chats.Turn("User", [chats.Span("<|im_start|>", "sp"), chats.Span("Hello", "t")])]
    spans: list[chats.Span] = [chats.Span("tracking", "r"), chats.Span(" and")]
    spark: sparks.Spark = sparks.spark([3.0, 2.0, 1.0])
    interval: sparks.Interval = sparks.interval(3.4, 6.1, 8.7)
    counts: scorecards.Counts = scorecards.Counts(542, 78, 32, 108)
    options: list[choices.Option] = [choices.Option("7", "tickets v7")]
    gpus: list[choices.Choice] = [choices.Choice("l40s", "L40S", "Recommended", ("48 GB", "$0.86/h", "$1.46"))]
    points: list[list[str]] = [["10", "1.1"]]
    figure: dict[str, Any] = FIGURE

    @rx.event
    def press(self) -> None:
        """A click."""

    @rx.event
    def take(self, value: str) -> None:
        """A value of a control."""

    @rx.event
    def turn(self, value: bool) -> None:
        """A switch, a dialog."""


def plain() -> dict[str, Any]:
    """The same values, not as variables."""
    return {name: getattr(Shown(_reflex_internal_init=True), name) for name in Shown.base_vars if name != "is_hydrated"}


class Values:
    """Reads a value by attribute, from the state's class or from a dictionary of plain ones."""

    def __init__(self, source: dict[str, Any] | None) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(Shown, name) if self._source is None else self._source[name]


def _row(v: Values) -> Callable[[Any], rx.Component]:
    return lambda word: tables.table_row(
        tables.select_cell(v.yes, Shown.turn, word),
        tables.name_cell(word, "/projects/1/runs/2", v.text),
        tables.cell(badges.run_badge(v.run_state), phone="lead"),
        is_selected=v.yes,
        is_marked=v.no,
    )


_COLUMNS = [tables.Column("Select", hidden_label=True), tables.Column("Name", sort="name"), tables.Column("Status")]

COMPONENTS: dict[str, Callable[[Values], rx.Component]] = {
    "run_badge": lambda v: badges.run_badge(v.run_state, v.number),
    "machine_badge": lambda v: badges.machine_badge(v.machine_state, v.yes),
    "machine_state_badge": lambda v: badges.machine_state_badge(v.machine_state),
    "evaluation_badge": lambda v: badges.evaluation_badge(v.evaluation_state, v.number),
    "version_badge": lambda v: badges.version_badge(v.version_state),
    "import_badge": lambda v: badges.import_badge(v.import_state, v.number),
    "deployment_badge": lambda v: badges.deployment_badge(v.deployment_state),
    "connection_badge": lambda v: badges.connection_badge(v.connection_state),
    "gate_badge": lambda v: badges.gate_badge(v.yes),
    "change_badge": lambda v: scorecards.change_badge(v.change),
    "label": lambda v: badges.label(v.text),
    "button": lambda v: buttons.button(
        v.text, kind="solid", icon_name="plus", on_click=Shown.press, busy=v.no, key="n"
    ),
    "link_button": lambda v: buttons.button(v.text, href=f"/projects/{v.text}"),
    "download": lambda v: buttons.download_button("Job files", f"/api/runs/{v.text}/job-files.zip"),
    "icon_button": lambda v: buttons.icon_button("More", "ellipsis", on_click=Shown.press, disabled=v.no),
    "copy": lambda v: buttons.copy_button(v.text, words=True),
    "with_reason": lambda v: buttons.action_with_reason(buttons.button("Launch", disabled=v.yes), v.text),
    "callout": lambda v: callouts.callout(v.text, tone="amber"),
    "banner": lambda v: callouts.banner(v.text, actions=[buttons.button("Retry", kind="amber")]),
    "refusal": lambda v: callouts.refusal(v.text, v.words),
    "error_panel": lambda v: callouts.error_panel(v.text, v.text, error_id=v.text, details=v.text),
    "head": lambda v: cards.page_head(cards.title_with(v.text), sub=[v.text], actions=[buttons.button("Pause")]),
    "card": lambda v: cards.card(v.text, title=v.text, right=[v.text]),
    "columns": lambda v: cards.columns([v.text], [v.text]),
    "list_row": lambda v: cards.list_row(v.text, v.text, href=f"/{v.text}", color="red"),
    "choice": lambda v: cards.choice(1, v.text, v.text, buttons.button("Verify"), state="cur"),
    "group": lambda v: cards.group(
        v.text, v.text, v.number, cards.group_row("1", v.text, is_chosen=v.yes), is_open=v.yes
    ),
    "fold": lambda v: cards.fold(v.text, v.text),
    "dock": lambda v: cards.phone_dock(v.text),
    "chart": lambda v: charts.chart_card(
        v.text, v.figure, v.text, table=charts.points_table(["Step", "Loss"], v.points), has_points=v.yes
    ),
    "bubbles": lambda v: chats.bubbles(v.bubbles),
    "tokens": lambda v: chats.token_turns(v.turns),
    "answer": lambda v: chats.marked_answer(v.spans),
    "readiness": lambda v: checks.readiness(v.checks, v.checks, v.text, Shown.take),
    "readiness_badge": lambda v: checks.readiness_badge(v.number, v.text),
    "select": lambda v: choices.select("version", v.options, value="7", on_change=Shown.take, error=v.text),
    "switch": lambda v: choices.switch("wait", v.text, checked=v.yes, on_change=Shown.turn),
    "segmented": lambda v: choices.segmented([choices.Option("a", "A", "3")], v.text, Shown.take, label="Status"),
    "choice_list": lambda v: choices.choice_list("gpu", v.gpus, "l40s", Shown.take, label="GPU", columns=3),
    "paid_dialog": lambda v: dialogs.paid_dialog(
        v.text,
        v.text,
        price=[stats.Stat("Price", v.text, "/h")],
        facts=[stats.Fact("Queue", v.text, shown=v.yes)],
        confirm_label=v.text,
        is_open=v.no,
        on_open_change=Shown.turn,
        on_confirm=Shown.press,
        busy=v.no,
        disabled=v.no,
        error=v.text,
        reasons=v.words,
        must_tick=v.yes,
        ticked=v.no,
        on_tick=Shown.turn,
    ),
    "named_dialog": lambda v: dialogs.named_dialog(
        v.text,
        v.text,
        confirm_label="Delete",
        is_open=v.no,
        on_open_change=Shown.turn,
        on_confirm=Shown.press,
        must_type=v.text,
        typed=v.text,
        on_type=Shown.take,
    ),
    "form_dialog": lambda v: dialogs.form_dialog(
        v.text,
        v.text,
        forms.text_input("name"),
        actions=[buttons.button("Save")],
        is_open=v.no,
        on_open_change=Shown.turn,
    ),
    "empty": lambda v: empty.empty_state(v.text, v.text, actions=[buttons.button("New")], command=v.text),
    "nothing_found": lambda v: empty.nothing_found(v.text, buttons.button("Clear")),
    "field": lambda v: forms.field(
        "epochs",
        v.text,
        forms.text_input("epochs", value=v.text, on_change=Shown.take, error=v.text, end=v.text),
        hint=v.text,
        error=v.text,
        why=v.text,
        is_default=v.yes,
        on_reset=Shown.press,
        locked=v.no,
    ),
    "search": lambda v: forms.search_input("filter", "Filter", value=v.text, on_change=Shown.take),
    "text_area": lambda v: forms.text_area("notes", value=v.text, on_change=Shown.take),
    "log": lambda v: logs.log_view(v.text, v.lines, follows=v.yes, on_follow=Shown.turn),
    "verdict": lambda v: scorecards.verdict(v.yes, v.text, v.text, v.interval),
    "ratio": lambda v: scorecards.ratio(v.counts, v.text),
    "three_answers": lambda v: scorecards.three_answers(
        v.text, v.text, v.text, baseline_right=v.no, adapter_right=v.yes
    ),
    "skeleton": lambda v: skeletons.skeleton_page(),
    "spark": lambda v: sparks.sparkline(v.spark, is_live=v.yes),
    "interval": lambda v: sparks.interval_cell(v.interval),
    "stats": lambda v: stats.stats(stats.Stat("Ready", v.text, v.text)),
    "big": lambda v: stats.big_number("Spend", v.text, unit=v.text, under=v.text),
    "facts": lambda v: stats.data_list(stats.Fact("Step", v.text, v.text, under=v.text, shown=v.yes)),
    "progress": lambda v: stats.progress(v.number, v.text),
    "memory": lambda v: stats.memory_bar(v.text, [stats.Share(v.text, v.number)]),
    "stepper": lambda v: steppers.stepper(v.phases, summary=v.text, detail=v.text),
    "table": lambda v: tables.data_table(
        _COLUMNS,
        v.words,
        _row(v),
        caption="Runs",
        empty=empty.empty_state("None", "Nothing yet."),
        is_loading=v.no,
        sorting=tables.Sorting(v.text, v.yes, Shown.take),
        select_all=tables.select_box(v.no, Shown.turn, "Select all"),
        foot=tables.paging(v.text, 1, v.number, v.number, has_next=v.yes, on_next=Shown.press, on_previous=Shown.press),
    ),
    "selection": lambda v: tables.selection_bar(v.number, buttons.button("Compare"), on_clear=Shown.press),
    "tabs": lambda v: tabs.tabs([tabs.Tab("a", "Overview", v.text, v.text)], value="a", on_change=Shown.take),
    "when": lambda v: texts.when(v.text, v.text),
    "twice": lambda v: texts.twice(texts.mono(v.text), texts.dash_if_empty(v.text)),
    "frame": lambda v: shell.page_frame(
        v.text,
        here="runs",
        groups=navigation.project_groups(v.text, v.text, runs=v.text),
        crumbs=[topbar.Crumb(v.text, f"/projects/{v.text}"), topbar.Crumb("Runs")],
        viewer=v.viewer,
        switcher=navigation.project_switcher(v.text, v.text, v.projects, v.text),
        running=topbar.running_cost(v.text, v.text, v.text, v.text, href="/runs"),
        said=v.text,
    ),
}
