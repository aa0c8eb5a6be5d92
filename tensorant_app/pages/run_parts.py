"""The pieces of a run's page: head, recovery, charts, side column and tabs; all drawn from its state."""

from __future__ import annotations

from typing import Any

import reflex as rx

from tensorant_app.components.badges import machine_badge, run_badge
from tensorant_app.components.buttons import button, download_button, icon_button
from tensorant_app.components.cards import card, grid, page_head, rule, title_with
from tensorant_app.components.charts import chart_card, points_table
from tensorant_app.components.choices import switch
from tensorant_app.components.links import link
from tensorant_app.components.logs import log_view
from tensorant_app.components.stats import Fact, Stat, data_list, stats
from tensorant_app.components.steppers import stepper
from tensorant_app.components.tables import Column, cell, data_table, table_row
from tensorant_app.components.texts import meta, mono, when
from tensorant_app.components.values import if_, if_text
from tensorant_app.pages.machine_card import cost_card, machine_card
from tensorant_app.pages.recovery import another_button, cancel_dialog, pause_button, retry_draft_button
from tensorant_app.pages.run_actions import READ_ONLY, RunActions
from tensorant_app.pages.run_limit import longer_limit
from tensorant_app.pages.run_samples import evaluation_so_far
from tensorant_app.pages.run_state import RunPageState as S
from tensorant_app.pages.run_trial import full_draft_button, trial_label, trial_report
from tensorant_app.pages.run_words import EventRow, SettingRow
from tensorant_app.pages.scorings import ScoringState

_LEGEND = (("Training", "r"), ("Smoothed", ""), ("Validation", "v"))


def head() -> rx.Component:
    """Badges, where it stands, and by state exactly one primary action."""
    pencil = icon_button(
        "Rename",
        "pencil",
        on_click=RunActions.ask_rename(S.head.id, S.head.name),
        small=True,
        disabled=~S.me.may_prepare,
    )
    return page_head(
        title_with(S.head.name, pencil),
        sub=[
            rx.el.span(
                run_badge(S.head.state, S.head.percent),
                " ",
                machine_badge(S.head.machine, S.head.is_overdue),
                trial_label(S.trial),
                class_name="row",
            ),
            if_text(S.head.line, rx.el.span(S.head.line, class_name="num")),
            if_text(
                S.head.started,
                rx.el.span(
                    S.head.started,
                    if_text(S.origin.created_by, rx.el.span(" by ", S.origin.created_by)),
                    title=S.head.started_exact,
                    class_name="wide-only",
                ),
            ),
            rx.el.span(S.head.short_id, class_name="mono wide-only"),
            if_(S.me.may_prepare, rx.fragment(), rx.el.span(READ_ONLY)),
        ],
        actions=[
            download_button("Job files", S.head.job_files),
            pause_button(),
            if_(S.head.may_cancel & (S.head.state != "needs_recovery"), cancel_dialog("outline")),
            if_((S.head.state == "no_gain") | (S.head.state == "cancelled"), another_button()),
            if_(S.head.has_adapter, _adapter_button()),
            _primary(),
        ],
    )


def phases() -> rx.Component:
    live = stats(
        Stat("Remaining", rx.cond(S.numbers.remaining != "", S.numbers.remaining, "–")),
        Stat("Elapsed", rx.cond(S.numbers.elapsed != "", S.numbers.elapsed, "–")),
        Stat("Validation loss", rx.cond(S.numbers.validation != "", S.numbers.validation, "–")),
        on_phone_only=True,
    )
    return rx.fragment(
        if_(S.head.is_live, live),
        rx.el.div(stepper(S.phases, summary=S.head.summary, detail=S.head.detail), style={"margin_bottom": "16px"}),
    )


def overview() -> rx.Component:
    return rx.el.div(
        trial_report(S.trial),
        loss_chart(),
        grid(
            _small(
                "Gradient norm",
                S.gradient_figure,
                S.gradient,
                "Highest of each stretch. Spikes that stay ask for a lower learning rate.",
            ),
            _small("Tokens per second", S.speed_figure, S.speed, "Lowest of each stretch."),
        ),
        evaluation_so_far(S.checkpoints, S.prompts),
        logs("overview-log"),
        class_name="stack",
    )


def loss_chart() -> rx.Component:
    log = switch("log-axis", rx.el.span("Log", class_name="meta"), checked=S.log_axis, on_change=S.show_log_axis)
    return chart_card(
        "Loss",
        S.loss_figure,
        S.trend,
        legend=_LEGEND,
        controls=[log],
        table=points_table(("Step", "Training", "Smoothed", "Validation"), S.points),
        has_points=S.has_points,
        waiting=S.waiting,
    )


def logs(name: str) -> rx.Component:
    return log_view("Training logs", S.lines + S.fresh, empty="The trainer has not said anything yet.", name=name)


def configuration() -> rx.Component:
    columns = [
        Column("Setting", phone="lead"),
        Column("Value", number=True, phone="aside"),
        Column("Default", number=True),
    ]
    return rx.el.div(
        data_table(columns, S.settings, _setting, caption="Settings beside their defaults", tall=False),
        card(data_list(Fact("Gate", S.origin.gate), full=True), title="Fixed before the run"),
        class_name="stack",
    )


def events() -> rx.Component:
    columns = [Column("Time", width="90px", phone="aside"), Column("What", phone="lead"), Column("Why", phone="whole")]
    return data_table(columns, S.events, _event, caption="Steps of the run and of its machines", tall=False)


def side() -> list[rx.Component]:
    numbers, origin = S.numbers, S.origin
    live = data_list(
        Fact("Remaining", numbers.remaining, shown=numbers.remaining != ""),
        Fact("Elapsed", numbers.elapsed, shown=numbers.elapsed != ""),
        Fact("Maximum runtime", numbers.maximum),
        Fact("Runtime used", numbers.used, shown=numbers.used != ""),
    )
    live = rx.fragment(live, longer_limit())
    figures = data_list(
        Fact("Step", numbers.step, numbers.total, shown=numbers.step != ""),
        Fact("Epoch", numbers.epoch, numbers.epochs, shown=numbers.epoch != ""),
        Fact("Rows", numbers.rows, shown=numbers.rows != ""),
        Fact("Training loss", numbers.loss, shown=numbers.loss != ""),
        Fact("Validation loss", numbers.validation, shown=numbers.validation != ""),
        Fact("Speed", numbers.speed, "tokens/s", shown=numbers.speed != ""),
        Fact("Peak memory", numbers.memory, "GiB", shown=numbers.memory != ""),
        Fact("Exact match", numbers.exact, shown=numbers.exact != ""),
        Fact("Baseline", numbers.baseline_exact, shown=numbers.exact != ""),
        Fact(
            "Baseline, likeliest label",
            numbers.baseline_likely,
            shown=(numbers.exact != "") & (numbers.baseline_likely != ""),
        ),
    )
    return [
        card(live, if_((numbers.step != "") | (numbers.rows != ""), rx.fragment(rule(), figures))),
        cost_card(S.cost),
        if_text(S.machine.name, machine_card(S.machine)),
        card(
            data_list(
                Fact("Dataset version", link(origin.version, href=origin.version_href)),
                Fact("Baseline", link(origin.baseline, href=origin.baseline_href)),
                Fact("Base model", origin.base, under=mono(origin.revision, small=True)),
                Fact("Method", origin.method),
            ),
            title="Made from",
        ),
    ]


def _primary() -> rx.Component:
    """The solid button of the state; a panel that asks for a decision owns it instead."""
    scorecard = if_text(
        S.head.scorecard, button("Open scorecard", kind="solid", icon_name="scale", href=S.head.scorecard)
    )
    start = button(
        if_(S.head.is_rented, "Launch on RunPod", "Start on this computer"),
        kind="solid",
        icon_name="play",
        on_click=RunActions.ask_launch(S.head.id),
        disabled=~S.me.may_spend,
    )
    score = button(
        "Score the adapter",
        icon_name="ruler",
        on_click=ScoringState.ask_adapter(S.head.id),
        disabled=~S.me.may_spend,
    )
    return rx.match(
        S.head.state,
        ("draft", start),
        ("adapter_ready", rx.cond(S.trial.is_one, rx.fragment(), score)),
        ("completed", rx.cond(S.trial.is_one, _full_draft(), scorecard)),
        ("no_gain", scorecard),
        ("evaluating", if_text(S.head.scorecard, button("Follow the scoring", kind="soft", href=S.head.scorecard))),
        ("cancelled", retry_draft_button()),
        rx.fragment(),
    )


def _full_draft() -> rx.Component:
    return full_draft_button(S.trial, RunActions.full_draft(S.head.id), may=S.me.may_prepare, read_only=READ_ONLY)


def _adapter_button() -> rx.Component:
    solid = download_button("Adapter", S.head.adapter, kind="solid")
    full = rx.cond(S.head.state == "adapter_ready", solid, download_button("Adapter", S.head.adapter))
    return rx.cond(S.trial.is_one, download_button("Diagnostic adapter", S.head.adapter), full)


def _small(title: str, figure: Any, last: Any, sentence: str) -> rx.Component:
    return chart_card(title, figure, sentence, has_points=S.has_points, waiting=S.waiting, height=120, right=last)


def _setting(row: rx.Var[SettingRow]) -> rx.Component:
    changed = rx.cond(row.is_changed, rx.el.span(row.value, class_name="strong"), rx.el.span(row.value))
    return table_row(
        cell(row.label, phone="lead"),
        cell(changed, number=True, phone="aside"),
        cell(rx.cond(row.is_changed, row.default, "–"), number=True, gray=True),
    )


def _event(row: rx.Var[EventRow]) -> rx.Component:
    return table_row(
        cell(when(row.time, row.exact), phone="aside", gray=True),
        cell(
            rx.el.b(row.what, class_name="strong"), " ", rx.el.span(row.subject, class_name="mono meta"), phone="lead"
        ),
        cell(if_text(row.sentence, rx.fragment(row.sentence, " ")), meta(row.cause), phone="whole"),
    )
