"""A longer maximum runtime: typed while the run works, or where it has stopped at its limit."""

from __future__ import annotations

from typing import Any

import reflex as rx

from tensorant_app.components.buttons import button
from tensorant_app.components.cards import fold, row
from tensorant_app.components.forms import field, text_input
from tensorant_app.components.texts import meta
from tensorant_app.components.values import if_
from tensorant_app.pages.frame import fault, segment
from tensorant_app.pages.run_state import RunPageState as S
from tensorant_app.services import recoveries
from tensorant_app.state import AppState, id_of

_HOURS = "maximum_runtime_hours"


class LimitState(AppState):
    """What its button does; the page itself looks once a second and shows what came of it."""

    @rx.event
    async def extend(self, form: dict[str, Any]) -> None:
        run, hours = segment(self, "runs"), _number(str(form.get(_HOURS, "")))
        await self._do(lambda session, caller: recoveries.extend_run(session, caller, id_of(run), hours))


def _number(typed: str) -> float:
    """What is no number is refused by the service like any other hours out of range."""
    try:
        return float(typed.strip().replace(",", "."))
    except ValueError:
        return 0.0


def longer_limit_form(label: str, kind: Any) -> rx.Component:
    box = field(
        _HOURS,
        "Maximum runtime",
        text_input(
            _HOURS,
            default_value="",
            end="h",
            input_mode="decimal",
            disabled=~S.me.may_spend,
            error=fault(_HOURS),
            required=True,
        ),
        hint=f"Above {S.ways.least} h, for all attempts together",
        error=fault(_HOURS),
    )
    send = button(label, kind=kind, submits=True, disabled=~S.me.may_spend)
    return rx.el.form(row(box, send, wraps=True), on_submit=LimitState.extend, style={"margin_top": "8px"})


def longer_limit() -> rx.Component:
    """Folded beside the times of a run at work; its trainer is told, and nothing is interrupted."""
    price = if_(S.machine.is_rented, meta("Each further hour costs ", S.machine.price, ". Cap (est.) grows with it."))
    shown = S.head.is_live & (S.ways.extend == "") & S.me.may_spend
    return if_(shown, fold("Longer limit", longer_limit_form("Set limit", "outline"), price))
