"""The kit's lower half: tables, steppers, charts, logs, rows and scorecards as an example project fills them."""

from __future__ import annotations

import math

import reflex as rx

from tensorant_app.components.badges import label, run_badge
from tensorant_app.components.buttons import button, download_button, icon_button
from tensorant_app.components.cards import card, choice, columns, grid, group, group_row, list_row, rule
from tensorant_app.components.charts import chart_card, points_table
from tensorant_app.components.chats import (
    Bubble,
    Span,
    Turn,
    answer,
    bubbles,
    marked_answer,
    token_turns,
    trained_legend,
)
from tensorant_app.components.checks import CheckLine, readiness, readiness_badge
from tensorant_app.components.dialogs import named_dialog, paid_dialog
from tensorant_app.components.figures import loss_figure, metric_figure
from tensorant_app.components.icons import icon
from tensorant_app.components.logs import LogLine, log_view
from tensorant_app.components.scorecards import Counts, change_badge, ratio, three_answers, verdict
from tensorant_app.components.skeletons import skeleton_card
from tensorant_app.components.sparks import interval, interval_cell, signed, spark, sparkline
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
from tensorant_app.components.texts import meta, mono, phone_only, quantity, when


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
        _recover(),
        grid(_groups(), _tokens()),
        card(bubbles(_CHAT), title="Row 1,204 as a conversation", padded=False),
        _scorecard(),
        grid(skeleton_card(), skeleton_card()),
        _dialogs(),
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
            name_cell(name, f"/projects/support/runs/{name}", "01a22ca8-cec6"),
            cell(
                run_badge(state, 61),
                rx.el.div(reason, class_name="meta", style={"margin_top": "4px"}),
                *bar,
                phone="lead",
            ),
            cell("v7"),
            cell("LoRA r16"),
            cell(sparkline(spark(_LOSS), is_live=state == "training"), phone_only("val. loss "), loss, number=True, phone="aside"),
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
            Fact("Step", "1,428", " of 2,340"),
            Fact("Base model", "Qwen/Qwen3-8B", under=mono("b968826d9c46", small=True)),
            Fact("GPU memory", "32.4", " of 44.7 GiB"),
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


def _recover() -> rx.Component:
    return card(
        choice(
            1,
            "Verify adapter on RunPod",
            "No completed adapter manifest is on the volume.",
            button("Verify again"),
            state="done",
            badges=[label("Not found, 14:36")],
        ),
        choice(
            2,
            "Resume with a longer limit",
            "Continues from the verified checkpoint at step 1,800.",
            button("Resume run", kind="solid"),
            state="cur",
        ),
        choice(
            3,
            "Cancel run",
            "Ends the run and keeps its 9 checkpoints and logs. Spent so far: $4.21.",
            button("Cancel run", kind="red"),
        ),
        list_row(
            "triage-v7-ctx8k needs recovery",
            "Reached its 3 h limit at step 1,890",
            button("Recover", kind="soft", size="sm"),
            href="/projects/support/runs/1",
            drawing=icon("triangle_alert"),
            color="amber",
        ),
        title="Recover this run",
        right=[meta("The machine is released; nothing is on it.")],
        padded=False,
    )


def _groups() -> rx.Component:
    return card(
        group("No assistant reply", "The last message is from the user; nothing to learn", "31"),
        group(
            "Same as a test row of v7",
            "Training on it would spoil the evaluation",
            "13",
            group_row("1,204", "Our container is still at the quay in Gdansk, the agent says", is_chosen=True),
            group_row("1,377", "POD for shipment 5521 unreadable, need a better scan"),
            is_open=True,
        ),
        title="Errors by kind",
        right=[meta("74 rows")],
        padded=False,
    )


_CHAT = [
    Bubble("system", "System", "You sort freight tickets."),
    Bubble(
        "user",
        "User",
        "Our container is still at the quay in Gdansk, the agent says the export declaration was rejected twice.",
    ),
    Bubble("assistant", "Assistant", '{"queue": "customs_hold", "priority": "P1"}', True),
]


def _tokens() -> rx.Component:
    turns = [
        Turn(
            "User",
            [
                Span("<|im_start|>user↵\n", "sp"),
                Span("Our container is still at the quay in Gdansk."),
                Span("<|im_end|>↵", "sp"),
            ],
        ),
        Turn(
            "Assistant",
            [
                Span("<|im_start|>assistant↵\n", "sp"),
                Span('{"queue": "customs_hold", "priority": "P1"}<|im_end|>', "t"),
                Span("↵", "sp"),
            ],
        ),
    ]
    return card(
        trained_legend(quantity("16", " of 129 tokens trained")), token_turns(turns), title="Row 1,204", padded=False
    )


def _scorecard() -> rx.Component:
    axis = (-4.0, 10.0)
    metrics = [
        ("Exact match", "Primary", 3.4, 6.1, 8.7),
        ("Queue correct", "", 2.5, 4.9, 7.2),
        ("Exact match, not English", "Guard", -5.2, -1.0, 3.1),
    ]

    def draw(metric: tuple[str, str, float, float, float]) -> rx.Component:
        name, role, low, middle, high = metric
        return table_row(
            cell(rx.el.span(name, class_name="nm")),
            cell(role, gray=True),
            cell(signed(middle), number=True),
            cell(interval_cell(interval(low, middle, high, axis=axis, width=110))),
        )

    table = data_table(
        [Column("Metric"), Column("Role"), Column("Difference", number=True), Column("95 % interval")],
        metrics,
        draw,
        caption="Metrics",
        tall=False,
        phone=False,
    )
    answers = three_answers(
        answer('{"queue": "customs_hold"}'),
        marked_answer([Span('{"queue": '), Span('"tracking"', "r"), Span("}")]),
        marked_answer([Span('{"queue": '), Span('"customs_hold"', "g"), Span("}")]),
        baseline_right=False,
        adapter_right=True,
    )
    return rx.el.div(
        card(
            verdict(
                True,
                "Better than the baseline by 6.1 points",
                "The 95 % interval of the paired difference starts at +3.4, above the margin of 0, and both guard metrics stay within their tolerance.",
                interval(3.4, 6.1, 8.7),
            ),
            rx.el.div(
                ratio(Counts(542, 78, 32, 108), "2,000 resamples, seed 42"),
                style={"border_top": "1px solid var(--gray-a4)", "padding": "16px 22px"},
            ),
            padded=False,
        ),
        card(
            verdict(
                False,
                "Not shown to be better than the baseline",
                "The 95 % interval starts at −1.4, which is not above the margin of 0.",
                interval(-1.4, 0.8, 3.1),
            ),
            rx.el.div(
                change_badge("gained"),
                " ",
                change_badge("lost"),
                " ",
                change_badge("both_wrong"),
                style={"padding": "0 22px 16px"},
            ),
            rx.el.div(answers, style={"padding": "0 16px 16px"}),
            padded=False,
        ),
        table,
        class_name="stack",
    )


def _dialogs() -> rx.Component:
    paid = paid_dialog(
        "Launch GPU for triage-v7-r64?",
        "1 × L40S 48 GB in EU-RO-1, billed by RunPod to account …7f2c.",
        price=[Stat("Price", "$0.86", "/h"), Stat("Expected", "$1.29 – $1.65"), Stat("Cap (est.), 4 h", "$3.44")],
        facts=[
            Fact(
                "At the limit",
                "It saves a checkpoint and stops as Needs recovery. The cap is an estimate, not a billing cap.",
            ),
            Fact("Queue", "2 of 2 slots are in use. The run waits, then price and checks are looked at again."),
            Fact("Budget", "$161.18 of $200 left in November"),
        ],
        confirm_label="Launch GPU · about $3.44 if all time is used",
        is_open=False,
        on_open_change=None,
        on_confirm=rx.console_log("launched"),
        trigger=button("Launch on RunPod", kind="solid"),
    )
    ending = named_dialog(
        "Cancel triage-v7-r16?",
        "It stops at once. Its 7 checkpoints and logs stay; spent so far: $0.85.",
        confirm_label="Cancel run",
        cancel_label="Keep training",
        is_open=False,
        on_open_change=None,
        on_confirm=rx.console_log("cancelled"),
        trigger=button("Cancel run", kind="red"),
    )
    return card(rx.el.div(paid, ending, class_name="row"), title="Dialogs")
