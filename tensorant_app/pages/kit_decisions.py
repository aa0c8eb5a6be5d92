"""The kit's end: ways out, rows, scorecards and the dialogs of paid and ending acts."""

from __future__ import annotations

import reflex as rx

from tensorant_app.components.badges import label
from tensorant_app.components.buttons import button
from tensorant_app.components.cards import card, choice, grid, group, group_row, list_row
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
from tensorant_app.components.dialogs import named_dialog, paid_dialog
from tensorant_app.components.icons import icon
from tensorant_app.components.scorecards import Counts, change_badge, ratio, three_answers, verdict
from tensorant_app.components.skeletons import skeleton_card
from tensorant_app.components.sparks import interval, interval_cell, signed
from tensorant_app.components.stats import Fact, Stat
from tensorant_app.components.tables import (
    Column,
    cell,
    data_table,
    table_row,
)
from tensorant_app.components.texts import meta, quantity


def decisions() -> list[rx.Component]:
    return [
        _recover(),
        grid(_groups(), _tokens()),
        card(bubbles(_CHAT), title="Row 1,204 as a conversation", padded=False),
        _scorecard(),
        grid(skeleton_card(), skeleton_card()),
        _dialogs(),
    ]


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
        trained_legend(quantity("16", "of 129 tokens trained")), token_turns(turns), title="Row 1,204", padded=False
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
