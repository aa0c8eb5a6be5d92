"""Every status, control state, and the empty, loading and error forms; routed only where TENSORANT_KIT=1 at build.

Pure: an example project in plain values. The lower half stands in `kit_samples`.
"""

from __future__ import annotations

import os

import reflex as rx

from tensorant_app import routes
from tensorant_app.components import badges, navigation
from tensorant_app.components.badges import label
from tensorant_app.components.buttons import action_with_reason, button, copy_button, icon_button
from tensorant_app.components.callouts import banner, callout, error_panel, refusal
from tensorant_app.components.cards import card, grid, page_head, row, stack
from tensorant_app.components.choices import Choice, Option, choice_list, segmented, select, switch
from tensorant_app.components.empty import empty_state
from tensorant_app.components.forms import field, field_grid, search_input, text_input
from tensorant_app.components.shell import page_frame
from tensorant_app.components.tables import Column, data_table
from tensorant_app.components.texts import mono, when
from tensorant_app.components.topbar import Crumb, Viewer, running_cost
from tensorant_app.pages.kit_samples import samples

_PROJECT = "support"
_VIEWER = Viewer("Mira Okafor", "MO", "mira@halden.example", "Halden Freight", "Owner")
_PROJECTS = (
    navigation.ProjectLink("support", "Support triage", "Qwen/Qwen3-8B"),
    navigation.ProjectLink("invoices", "Invoice fields", "Qwen/Qwen3-4B"),
)


def kit_page() -> rx.Component:
    return page_frame(
        page_head("Kit", sub=["Every status, control state, and the empty, loading and error forms."]),
        stack(_controls(), grid(_empty(), _error()), _loading(), *samples()),
        here="runs",
        groups=navigation.project_groups(_PROJECT, "Halden Freight", runs="14"),
        crumbs=[Crumb("Support triage", routes.overview(_PROJECT)), Crumb("Kit")],
        viewer=_VIEWER,
        switcher=_switcher("projects-menu"),
        phone_switcher=_switcher("projects-menu-phone"),
        running=running_cost("2 GPUs", "$1.35", "$38.62", "$200", href=routes.runs(_PROJECT)),
        banner=banner(
            rx.el.span("1 GPU is not confirmed released. ", class_name="strong"),
            mono("eval-01a22cd5-5016…"),
            " RTX A6000, $0.49/h, asked 6 min ago",
            actions=[button("Retry cleanup", kind="amber", size="sm")],
        ),
    )


def _switcher(menu: str) -> rx.Component:
    return navigation.project_switcher("Support triage", "Qwen/Qwen3-8B", _PROJECTS, _PROJECT, menu=menu)


def _controls() -> rx.Component:
    return card(
        rx.el.div(
            _part("Run status", *[badges.run_badge(state, 61) for state in badges.RUN]),
            _part("Machine, second badge", *[badges.machine_badge(state) for state in badges.MACHINE]),
            _part("Machine, on its own card", *[badges.machine_state_badge(state) for state in badges.MACHINE]),
            _part("Evaluation", *[badges.evaluation_badge(state, 64) for state in badges.EVALUATION]),
            _part(
                "Data",
                *[badges.version_badge(state) for state in badges.VERSION],
                *[badges.import_badge(state, 40) for state in badges.IMPORT],
            ),
            _part("Deployment", *[badges.deployment_badge(state) for state in badges.DEPLOYMENT]),
            _part("Gate", badges.gate_badge(True), badges.gate_badge(False)),
            _part("Plain labels", *[label(word) for word in ("Trial", "Estimated", "Actual", "Overridden")]),
            _buttons(),
            _part(
                "Disabled with its reason",
                action_with_reason(
                    button("Launch on RunPod", kind="solid", disabled=True),
                    "Viewers cannot start machines. Ask Mira Okafor, the owner.",
                ),
            ),
            _fields(),
            _choices(),
            _callouts(),
            class_name="kits",
        )
    )


def _part(title: str, *children: rx.Component) -> rx.Component:
    return rx.el.div(rx.el.h2(title, class_name="h3"), row(*children, wraps=True), class_name="kit")


def _buttons() -> rx.Component:
    return _part(
        "Buttons",
        button("Configure a run", kind="solid", icon_name="plus", key="n", command="Configure a run"),
        button("Pause", kind="soft", icon_name="pause"),
        button("Cancel run"),
        button("Copy name", kind="ghost"),
        button("Cancel run", kind="red"),
        button("Retry cleanup", kind="amber"),
        button("Saving", kind="solid", busy=True),
        button("As a link", href=routes.KIT),
        button("Small", size="sm"),
        icon_button("More", "ellipsis"),
        copy_button("tune-01a22ca8", label="Copy the name"),
        when("59 min", "2026-11-30 13:33:04 UTC"),
    )


def _fields() -> rx.Component:
    fields = field_grid(
        field(
            "epochs",
            "Epochs",
            text_input("epochs", default_value="3"),
            hint="1 – 100",
            is_default=True,
            why="How often each row is seen. Three is enough for most sets of a few thousand rows.",
        ),
        field(
            "epochs-2", "Epochs", text_input("epochs-2", default_value="5"), hint="1 – 100, default 3", is_default=False
        ),
        field(
            "epochs-3",
            "Epochs",
            text_input("epochs-3", default_value="400", error="At most 100"),
            error="At most 100",
            is_default=False,
        ),
        field(
            "epochs-4",
            "Epochs",
            text_input("epochs-4", default_value="3", disabled=True),
            hint="Locked: this run is saved",
            locked=True,
        ),
        field(
            "context",
            "Context length",
            text_input("context", default_value="2,048", end="tokens"),
            hint="128 – 32,768",
            is_default=True,
        ),
        field(
            "version",
            "Dataset version",
            select("version", [Option("7", "tickets v7"), Option("6", "tickets v6")]),
            hint="12,480 training, 640 validation, 800 test rows",
        ),
        columns=4,
    )
    return rx.el.div(rx.el.h2("Fields", class_name="h3"), fields, class_name="kit")


def _choices() -> rx.Component:
    counts = [
        Option("all", "All", "14"),
        Option("live", "Live", "3"),
        Option("you", "Needs you", "1"),
        Option("drafts", "Drafts", "2"),
    ]
    method = [Option("lora", "LoRA"), Option("qlora", "QLoRA"), Option("full", "Full", disabled=True)]
    gpus = [
        Choice("l40s", "L40S", "Recommended, last similar run used it", ("48 GB", "$0.86/h", "about $1.46 · 1 h 42")),
        Choice("a40", "A40", "Recommended", ("48 GB", "$0.44/h", "about $1.57 · 3 h 34")),
        Choice("h100", "H100 SXM", "", ("80 GB", "$3.29/h", "No stock, try later"), disabled=True),
    ]
    return rx.el.div(
        rx.el.h2("Choices", class_name="h3"),
        stack(
            row(
                segmented(counts, "all", None, label="Status"),
                search_input("filter", "Filter by name or id"),
                segmented(method, "lora", None, label="Method", small=True),
                switch("wait", "Wait for capacity", checked=False),
                switch("tell", "Tell me at 50 % of the cap", checked=True),
                wraps=True,
            ),
            choice_list("gpu", gpus, "l40s", None, label="GPU", columns=3),
        ),
        class_name="kit",
    )


def _callouts() -> rx.Component:
    return rx.el.div(
        rx.el.h2("Callouts", class_name="h3"),
        rx.el.div(
            *[
                rx.el.div(callout(words, tone=tone), style={"flex": "1", "min_width": "200px", "display": "grid"})
                for tone, words in (
                    ("gray", "A trial says nothing about quality."),
                    ("amber", "Memory is tight: 41.8 of 44.7 GiB."),
                    ("red", "RunPod refused the key. No machine was asked for."),
                    ("green", "The adapter is verified."),
                )
            ],
            class_name="row wrap top",
        ),
        rx.el.div(
            refusal(
                "This run is not ready to start:",
                ["L40S costs $0.86/h, over the limit of $0.80/h.", "No stock of 2 × L40S."],
            ),
            style={"margin_top": "8px"},
        ),
        class_name="kit",
    )


def _empty() -> rx.Component:
    return card(
        empty_state(
            "No runs yet",
            "A run trains one adapter for Qwen/Qwen3-8B from a frozen dataset version. Saving one is free.",
            actions=[button("Configure a run", kind="solid", icon_name="plus"), button("Load the sample project")],
            command="tensorant runs create --data tickets@v7 --gpu L40S",
        ),
        padded=False,
    )


def _error() -> rx.Component:
    return card(
        error_panel(
            "Diverged at step 412",
            "The smoothed loss was above 3 × its best for 20 steps, so the run was stopped and not tried again. It cost $0.31; the machine is released.",
            actions=[button("Create retry draft", kind="solid"), button("Open logs at step 412")],
            error_id="err 01a2139f",
            details="loss 4.13 at step 412, best 1.21 at step 388",
        )
    )


def _loading() -> rx.Component:
    columns = [
        Column("Name", skeleton=("110px", "92px"), phone="lead"),
        Column("Status", skeleton=("84px", "150px"), phone="lead"),
        Column("Data", skeleton=("22px",)),
        Column("Validation loss", number=True, skeleton=("64px",), phone="aside"),
        Column("Spend", number=True, skeleton=("44px",), phone="aside"),
    ]
    return data_table(columns, [], lambda _: rx.fragment(), caption="Loading runs", is_loading=True)


if os.environ.get("TENSORANT_KIT") == "1":
    rx.page(route=routes.KIT, title="Kit · Tensorant")(kit_page)
