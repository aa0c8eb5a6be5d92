"""The training trial report on a run's page: what was measured, what is missing and why, and the way to the full run."""

from __future__ import annotations

from dataclasses import dataclass, field

import reflex as rx

from tensorant_app.components.badges import label
from tensorant_app.components.buttons import action_with_reason, button
from tensorant_app.components.cards import card
from tensorant_app.components.checks import CheckLine, checks
from tensorant_app.components.stats import Share, memory_bar
from tensorant_app.components.tables import Column, cell, data_table, table_row
from tensorant_app.components.texts import meta
from tensorant_app.components.values import if_, if_text
from tensorant_app.services.trial_words import TrialLine, lines_of, memory_percent, missing_of
from tensorant_app.services.trials import TrialView

_COLUMNS = [
    Column("What", phone="lead"),
    Column("Measured", number=True, phone="aside"),
    Column("How to read it", phone="whole"),
]


@dataclass(frozen=True)
class TrialRow:
    label: str
    value: str
    under: str


@dataclass(frozen=True)
class Trial:
    """Empty for a run that is no trial."""

    is_one: bool = False
    rows: list[TrialRow] = field(default_factory=list)
    memory: str = ""
    memory_percent: int = 0
    advice: list[CheckLine] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Why a measurement is not there, a sentence each."""
    note: str = ""
    refusal: str = ""
    """Why no full draft can be made now."""


def trial_of(view: TrialView | None) -> Trial:
    if view is None:
        return Trial()
    lines, percent = lines_of(view), memory_percent(view)
    advice = view.report.advice if view.report else ()
    return Trial(
        is_one=True,
        rows=[_row(line) for line in lines],
        memory=f"The memory was {percent} % full at its peak" if percent else "",
        memory_percent=percent,
        advice=[CheckLine("warn", sentence) for sentence in advice],
        missing=missing_of(view),
        note=view.report.note if view.report else "",
        refusal=view.refusal,
    )


def trial_report(trial: rx.Var[Trial]) -> rx.Component:
    """Nothing on the page of a full run."""
    table = data_table(
        _COLUMNS, trial.rows, _draw, caption="Measurements of the training trial", in_card=False, tall=False
    )
    report = card(
        if_(trial.rows.length() > 0, table),
        rx.el.div(
            if_text(trial.memory, memory_bar(trial.memory, [Share(trial.memory, trial.memory_percent)])),
            if_(trial.advice.length() > 0, checks(trial.advice)),
            rx.foreach(trial.missing, lambda sentence: rx.el.p(sentence, class_name="gray")),
            if_text(trial.note, rx.el.p(trial.note, class_name="meta")),
            class_name="cb stack tight",
        ),
        title="Training trial report",
        right=[meta("Measured by this trial")],
        padded=False,
    )
    return if_(trial.is_one, report)


def trial_label(trial: rx.Var[Trial]) -> rx.Component:
    return if_(trial.is_one, label("Trial"))


def full_draft_button(trial: rx.Var[Trial], on_click: object, *, may: rx.Var[bool], read_only: str) -> rx.Component:
    """The one thing to do after a trial; where it cannot be done yet, why."""
    words = "Create full training draft"
    off = button(words, kind="solid", disabled=True)
    active = button(words, kind="solid", on_click=on_click)
    ready = if_text(trial.refusal, action_with_reason(off, trial.refusal), active)
    return rx.cond(may, ready, action_with_reason(off, read_only))


def _row(line: TrialLine) -> TrialRow:
    return TrialRow(line.label, line.value, line.under)


def _draw(row: rx.Var[TrialRow]) -> rx.Component:
    return table_row(
        cell(row.label, phone="lead"),
        cell(rx.el.b(row.value, class_name="strong nowrap"), number=True, phone="aside"),
        cell(row.under, gray=True, phone="whole"),
    )
