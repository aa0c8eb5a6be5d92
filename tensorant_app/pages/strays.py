"""Unknown machines: they bear this installation's name, cost money, and belong to nothing here. A person ends them."""

from __future__ import annotations

from dataclasses import dataclass

import reflex as rx

from tensorant_app.components.buttons import button
from tensorant_app.components.cards import card, list_row
from tensorant_app.components.dialogs import named_dialog
from tensorant_app.components.icons import icon
from tensorant_app.components.texts import meta
from tensorant_app.components.values import each, if_, if_text
from tensorant_app.pages.lists import put
from tensorant_app.pages.words import ago
from tensorant_app.services import sessions, strays
from tensorant_app.services.strays import StrayView
from tensorant_app.state import AppState, id_of


@dataclass(frozen=True)
class StrayRow:
    id: str
    name: str
    under: str
    problem: str
    is_ending: bool


class StraysState(AppState):
    rows: list[StrayRow] = []
    ending: str = ""
    """The id of the one that somebody wants to end."""
    ending_name: str = ""

    @rx.event
    async def load(self):
        found = await self._see(strays.list_strays)
        if found is None:
            return None
        put(self, ending="")
        self._show(found)
        return StraysState.watch

    @rx.event(background=True)
    async def watch(self) -> None:
        await self._watch(strays.list_strays, self._show, every=5.0)

    @rx.event
    async def ask_terminate(self, stray: str, name: str) -> None:
        if await self._see(sessions.who_am_i) is not None:
            self.ending, self.ending_name = stray, name

    @rx.event
    async def terminate(self) -> None:
        stray = self.ending
        await self._do(lambda session, caller: strays.terminate_stray(session, caller, id_of(stray)))
        if self.error:
            return
        self.ending = ""
        found = await self._see(strays.list_strays)
        if found is not None:
            self._show(found)

    def _show(self, found: list[StrayView]) -> bool:
        put(self, rows=[_row_of(one) for one in found])
        return True


def _row_of(one: StrayView) -> StrayRow:
    price = str(one.rate) if one.rate else "price not known"
    words = [f"Pod {one.provider_id}", one.provider_status, price, f"first seen {ago(one.first_seen_at)}"]
    return StrayRow(str(one.id), one.name, " · ".join(filter(None, words)), one.problem or "", one.is_ending)


def strays_card() -> rx.Component:
    """Nothing while there are none."""

    def line(one: rx.Var[StrayRow]) -> rx.Component:
        end = button(
            "Terminate",
            kind="red",
            size="sm",
            on_click=StraysState.ask_terminate(one.id, one.name),
            disabled=~AppState.me.may_stop,
        )
        under = rx.fragment(one.under, if_text(one.problem, rx.el.span(" · ", one.problem, class_name="bad")))
        return list_row(
            rx.el.span(one.name, class_name="mono wrap-any"),
            under,
            rx.cond(one.is_ending, meta("Being terminated"), end),
            drawing=icon("triangle_alert"),
            color="amber",
        )

    lead = meta(
        "They bear this installation's name and no run or evaluation knows them. They cost until somebody ends them."
    )
    return if_(
        StraysState.rows.length() > 0,
        card(
            rx.el.div(lead, class_name="cb"),
            *each(StraysState.rows, line),
            title="Unknown machines",
            padded=False,
        ),
    )


def terminate_dialog() -> rx.Component:
    return named_dialog(
        f"Terminate {StraysState.ending_name}?",
        "The machine is deleted at RunPod, with everything on its own disk. What lies on a network volume stays. If you do "
        "not know it, ask first: another database of yours may still use it.",
        confirm_label="Terminate",
        cancel_label="Keep it",
        is_open=StraysState.ending != "",
        on_open_change=lambda is_open: StraysState.ask_terminate("", ""),
        on_confirm=StraysState.terminate,
        error=AppState.error,
        reasons=AppState.reasons,
    )
