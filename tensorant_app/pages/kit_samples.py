"""The kit's middle: tables, steppers, charts and logs as an example project fills them."""

from __future__ import annotations

import math

import reflex as rx

from tensorant_app.components.badges import label, run_badge
from tensorant_app.components.buttons import button, download_button, icon_button
from tensorant_app.components.cards import card, columns, grid, rule
from tensorant_app.components.charts import chart_card, points_table
from tensorant_app.components.checks import CheckLine, readiness, readiness_badge
from tensorant_app.components.figures import loss_figure, metric_figure
from tensorant_app.components.logs import LogLine, log_view
from tensorant_app.components.sparks import spark, sparkline
from tensorant_app.components.stats import Fact, Share, Stat, big_number, data_list, memory_bar, progress, stats
from tensorant_app.components.steppers import Phase, stepper
from tensorant_app.components.tables import (
    Column,
    Sorting,
    cell,
    data_table,
    name_cell,
    paging,
    select_box,
    select_cell,
    selection_bar,
    table_row,
)
from tensorant_app.components.tabs import Tab, tabs
from tensorant_app.components.texts import meta, mono, phone_only, when
from tensorant_app.pages.kit_decisions import decisions


def samples() -> list[rx.Component]:
    return [
        _runs(),
        stats(
            Stat("tickets-2026-11.jsonl", "4,312", "rows read, 3.1 MB"),
            Stat("Ready", "4,238", "98.3 %"),
            Stat("With errors", "74", "in 5 kinds"),
            Stat("Tokens per row", "409", "median, longest 3,912"),
        ),
        _phases(),
        columns([_tabs()], [_spend(), _checks()]),
        *decisions(),
    ]


_LOSS = [2.2 * math.exp(-n / 18) + 0.46 + 0.01 * math.sin(n) for n in range(60)]
_COLUMNS = [
    Column("Select", hidden_label=True, width="40px"),
    Column("Name", phone="lead", sort="name"),
    Column("Status", phone="lead"),
    Column("Data"),
    Column("Method"),
    Column("Validation loss", number=True, phone="aside"),
    Column("Δ base", number=True),
    Column("Spend", number=True, phone="aside first"),
    Column("Created", number=True, sort="created"),
    Column("Actions", hidden_label=True),
]


def _runs() -> rx.Component:
    rows = [
        ("triage-v7-r16", "training", "Step 1,428 of 2,340 · 36 min left", "0.471", "–", "$0.85", "59 min", False),
        ("triage-v7-r32", "evaluating", "512 of 800 test rows", "0.463", "–", "$1.52", "5 h", True),
        (
            "triage-v7-ctx8k",
            "needs_recovery",
            "Reached its 3 h limit at step 1,890",
            "0.488",
            "–",
            "$4.21",
            "5 h",
            False,
        ),
        ("triage-v6-r16", "completed", "Gate passed, lower bound +3.4", "0.489", "+6.1", "$1.29", "4 d", False),
    ]

    def draw(run: tuple[str, str, str, str, str, str, str, bool]) -> rx.Component:
        name, state, reason, loss, delta, spend, created, chosen = run
        bar = [progress(61, "Progress", in_cell=True)] if state == "training" else []
        return table_row(
            select_cell(chosen, None, f"Select {name}"),
            name_cell(name, f"/projects/support/runs/{name}", mono("01a22ca8-cec6")),
            cell(
                run_badge(state, 61),
                rx.el.div(reason, class_name="meta", style={"margin_top": "4px"}),
                *bar,
                phone="lead",
            ),
            cell("v7"),
            cell("LoRA r16"),
            cell(
                sparkline(spark(_LOSS), is_live=state == "training"),
                phone_only("val. loss "),
                loss,
                number=True,
                phone="aside",
            ),
            cell(rx.el.span(delta, class_name="good" if delta != "–" else "gray"), number=True),
            cell(spend, *([meta(" est.")] if state == "training" else []), number=True, phone="aside first"),
            cell(when(created, "2026-11-30 13:33:04 UTC"), number=True, gray=True),
            cell(icon_button(f"More for {name}", "ellipsis", small=True)),
            is_selected=chosen,
        )

    table = data_table(
        _COLUMNS,
        rows,
        draw,
        caption="Runs",
        sorting=Sorting("created", True, lambda key: rx.console_log(key)),
        select_all=select_box(False, None, "Select all"),
        foot=paging("14 runs · $12.38 in runs this month", 1, 4, 14, has_next=True),
    )
    bar = selection_bar(
        2, button("Compare", kind="solid", icon_name="git_compare", key="c"), button("Archive", icon_name="archive")
    )
    return rx.el.div(table, bar)


def _phases() -> rx.Component:
    done = [
        Phase("Queued", "done", "0 min"),
        Phase("Launching", "done", "1 min · $0.02"),
        Phase("Preparing", "done", "6 min · $0.08"),
    ]
    todo = [Phase("Packaging", "todo", "about 2 min"), Phase("Evaluating", "todo", "about 14 min · $0.12")]
    return rx.el.div(
        stepper(
            [*done, Phase("Training", "now", "52 min · $0.75", 61), *todo],
            summary="Phase 4 of 6, Training",
            detail="52 min · $0.75",
        ),
        stepper(
            [
                *done,
                Phase("Training", "stop", "2 h 49 · $3.92"),
                Phase("Packaging", "todo", "not reached"),
                Phase("Evaluating", "todo", "not reached"),
            ]
        ),
        stepper(
            [
                *done,
                Phase("Training", "fail", "21 min · $0.31"),
                Phase("Packaging", "todo", "not reached"),
                Phase("Evaluating", "todo", "not reached"),
            ]
        ),
        stepper(
            [
                *done,
                Phase("Training", "end", "9 min · $0.13"),
                Phase("Packaging", "todo", "not reached"),
                Phase("Evaluating", "todo", "not reached"),
            ]
        ),
    )


def _tabs() -> rx.Component:
    steps = [n * 24 for n in range(60)]
    noisy = [(float(x), y * (1 + 0.12 * math.sin(x * 7.3))) for x, y in zip(steps, _LOSS, strict=True)]
    smooth = list(zip(map(float, steps), _LOSS, strict=True))
    checked = smooth[8::8]
    chart = chart_card(
        "Loss",
        loss_figure(noisy, smooth, checked, total_steps=2340),
        "Both losses are still falling. Validation fell by 0.007 over the last 200 steps.",
        legend=[("Training", "r"), ("Smoothed", ""), ("Validation", "v")],
        table=points_table(["Step", "Validation loss"], [[f"{x:.0f}", f"{y:.3f}"] for x, y in checked]),
    )
    small = grid(
        chart_card("Gradient norm", metric_figure(noisy, total_steps=2340), "Clipped at 1.0", height=110, right="0.58"),
        chart_card(
            "Tokens per second",
            metric_figure([]),
            "–",
            height=110,
            has_points=False,
            waiting="First step in about 6 min",
        ),
    )
    lines = [
        LogLine("14:30:14", "info", "step 1380 loss 0.458 lr 7.60e-05 grad 0.66 3,008 tok/s 31.9 GiB"),
        LogLine("14:30:38", "warning", "batch 1391 holds one row of 2,031 tokens (limit 2,048)"),
        LogLine("14:31:09", "info", "checkpoint 1400 verified 12 files 178.4 MB sha256 ok"),
        LogLine("14:31:42", "error", "the machine did not answer for 20 s"),
    ]
    log = log_view(
        "Training logs",
        lines,
        on_follow=rx.console_log("follow"),
        tools=[download_button("Log", "/log.txt", size="sm")],
    )
    overview = rx.el.div(chart, small, log, class_name="stack")
    return tabs(
        [
            Tab("overview", "Overview", overview),
            Tab("metrics", "Metrics", ""),
            Tab("samples", "Samples", "", "8"),
            Tab("events", "Events", "", "23"),
        ]
    )


def _spend() -> rx.Component:
    return card(
        big_number("Spend so far", "$0.85", unit="of about $1.36", aside=label("Estimated")),
        rx.el.div(progress(25, "Spend against the cap"), style={"margin": "10px 0 6px"}),
        rx.el.div(meta("Cap (est.) $3.44"), meta("billing pending"), class_name="row between"),
        rule(),
        data_list(
            Fact("Remaining", "36 min"),
            Fact("Step", "1,428", "of 2,340"),
            Fact("Base model", "Qwen/Qwen3-8B", under=mono("b968826d9c46", small=True)),
            Fact("GPU memory", "32.4", "of 44.7 GiB"),
        ),
        rx.el.div(
            memory_bar("32.4 of 44.7 GiB", [Share("Model 23.8", 53), Share("Context 8.6", 19)]),
            style={"margin_top": "8px"},
        ),
    )


def _checks() -> rx.Component:
    open_lines = [
        CheckLine(
            "refuse", "L40S costs more than your limit", "$0.86/h, limit $0.80/h", "Raise the limit to $0.86/h", "price"
        ),
        CheckLine("warn", "Both run slots are in use", "The run will wait as Queued"),
        CheckLine("wait", "Looking for L40S in EU-RO-1"),
    ]
    passed = [CheckLine("pass", "RunPod can create machines"), CheckLine("pass", "Baseline of v7 is complete")]
    return card(
        readiness(open_lines, passed, "10 more passed", lambda key: rx.console_log(key)),
        title="Readiness",
        right=[readiness_badge(1, "16 of 16 passed")],
    )
