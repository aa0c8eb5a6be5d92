"""Evaluation so far on a run's page: what each checkpoint measured, and what it answered to the pinned prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import reflex as rx

from tensorant_app.components.cards import card, fold
from tensorant_app.components.chats import answer
from tensorant_app.components.tables import Column, cell, data_table, table_row
from tensorant_app.components.texts import meta
from tensorant_app.components.values import if_
from tensorant_app.services.metrics import Checkpoint
from tensorant_app.services.samples import PromptAnswers, Samples

_COLUMNS = [
    Column("Checkpoint", phone="lead"),
    Column("Validation loss", number=True),
    Column("Exact match", number=True, phone="aside"),
    Column("Token F1", number=True),
]


@dataclass(frozen=True)
class CheckpointRow:
    step: str
    loss: str
    exact: str
    f1: str


@dataclass(frozen=True)
class AnswerRow:
    step: str
    words: str


@dataclass(frozen=True)
class PromptRow:
    prompt: str
    newest: AnswerRow
    earlier: list[AnswerRow] = field(default_factory=list)


def checkpoints_of(found: Sequence[Checkpoint]) -> list[CheckpointRow]:
    return [
        CheckpointRow(
            f"Step {one.step:,}", f"{one.validation_loss:.3f}", _percent(one.exact_match), _percent(one.token_f1)
        )
        for one in found
    ]


def prompts_of(found: Samples) -> list[PromptRow]:
    return [_prompt(one) for one in found.prompts if one.answers]


def evaluation_so_far(checkpoints: rx.Var[list[CheckpointRow]], prompts: rx.Var[list[PromptRow]]) -> rx.Component:
    """Nothing before the first checkpoint."""
    table = data_table(_COLUMNS, checkpoints, _draw, caption="Measured at each checkpoint", in_card=False, tall=False)
    measured = card(table, title="Evaluation so far", right=[meta("Up to 32 validation rows")], padded=False)
    answered = card(
        rx.el.div(rx.foreach(prompts, _draw_prompt), class_name="stack"),
        title="Sample answers",
        right=[meta("To the project's pinned prompts")],
    )
    return rx.fragment(if_(checkpoints.length() > 0, measured), if_(prompts.length() > 0, answered))


def _prompt(found: PromptAnswers) -> PromptRow:
    newest, *earlier = [
        AnswerRow(f"Step {one.step:,}", one.answer + ("" if one.stopped else " …")) for one in found.answers
    ]
    return PromptRow(found.prompt, newest, earlier)


def _draw(row: rx.Var[CheckpointRow]) -> rx.Component:
    return table_row(
        cell(row.step, phone="lead"),
        cell(row.loss, number=True),
        cell(row.exact, number=True, phone="aside"),
        cell(row.f1, number=True),
    )


def _draw_prompt(row: rx.Var[PromptRow]) -> rx.Component:
    earlier = fold(meta("Earlier answers"), rx.el.div(rx.foreach(row.earlier, _draw_answer), class_name="stack tight"))
    return rx.el.div(
        rx.el.div(row.prompt, class_name="strong"),
        _draw_answer(row.newest),
        if_(row.earlier.length() > 0, earlier),
        class_name="stack tight",
    )


def _draw_answer(row: rx.Var[AnswerRow]) -> rx.Component:
    return rx.el.div(meta(row.step), answer(row.words))


def _percent(value: float | None) -> str:
    return f"{100 * value:.1f} %" if value is not None else "–"
