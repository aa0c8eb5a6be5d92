"""The GPUs in Configure: what can start now with its price and its cap, why the others cannot, kept fresh while one looks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Any

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.buttons import button
from tensorant_app.components.callouts import callout
from tensorant_app.components.cards import fold, row
from tensorant_app.components.choices import Choice, Option
from tensorant_app.components.links import link
from tensorant_app.components.texts import meta
from tensorant_app.components.values import if_, if_text
from tensorant_app.domain.connections import RUNPOD
from tensorant_app.domain.errors import TensorantError
from tensorant_app.domain.members import Caller
from tensorant_app.domain.offers import Judged, Problem, Stock
from tensorant_app.pages.frame import segment
from tensorant_app.pages.launch_words import say_money
from tensorant_app.pages.lists import put
from tensorant_app.pages.words import ago
from tensorant_app.services import drafts, estimates, gpus, offers
from tensorant_app.services.estimates import Estimate
from tensorant_app.services.gpus import GpuListView
from tensorant_app.services.sessions import as_caller
from tensorant_app.state import AppState, id_of

_LOOK_SECONDS = 5.0
_SAY_LOOKING_SECONDS = 30.0
_STOCK = {Stock.HIGH: "High stock", Stock.MEDIUM: "Medium stock", Stock.LOW: "Low stock"}
_CHEAPEST = "Orientation: 0.5–1B on 16–24 GB, 3–7B on 24–48 GB, 7–13B on 80 GB."


@dataclass(frozen=True)
class RentedCost:
    """The price of what is chosen, beside the form; dashes while nothing that can be rented is."""

    price: str = "–"
    cap: str = "–"
    expected: str = "–"


class GpuListState(AppState):
    choices: list[Choice] = []
    """Those that could start now."""
    others: list[Choice] = []
    """Each with its reason."""
    further: list[Option] = []
    """What may be asked for where the chosen one cannot be had: also what nobody has free now."""
    is_connected: bool = False
    is_rented: bool = False
    """The form says RunPod."""
    age: str = ""
    trouble: str = ""
    cost: RentedCost = RentedCost()
    count: int = 1
    _said_at: float = 0.0

    @rx.event
    async def load(self):
        found = await self._see(_look(segment(self, "projects")))
        if found is None:
            return None
        self._show(found)
        return GpuListState.watch

    @rx.event
    async def show(self) -> None:
        """The form changed: judge anew."""
        found = await self._see(_look(segment(self, "projects")))
        if found is not None:
            self._show(found)

    @rx.event(background=True)
    async def watch(self) -> None:
        """Prices and stock change while the form is open; that somebody looks keeps them fresh."""
        await self._watch(_look(segment(self, "projects")), self._follow, every=_LOOK_SECONDS)

    @rx.event
    async def refresh(self) -> None:
        """Ask RunPod anew now; the answer appears by itself."""
        count = self.count
        await self._do(lambda session, caller: offers.refresh_offers(session, caller, count))
        if not self.error:
            self.age = "Asking RunPod …"

    async def _follow(self, found: tuple[GpuListView, Estimate | None, bool]) -> bool:
        self._show(found)
        if self.is_rented and monotonic() - self._said_at >= _SAY_LOOKING_SECONDS:
            self._said_at = monotonic()
            count, cookie = self.count, self.router.headers.cookie
            try:
                await asyncio.to_thread(
                    as_caller, cookie, lambda session, caller: offers.note_looking(session, caller, count)
                )
            except TensorantError:
                return False
        return True

    def _show(self, found: tuple[GpuListView, Estimate | None, bool]) -> bool:
        view, estimate, is_rented = found
        if view.count != self.count:
            self._said_at = 0.0
        put(
            self,
            choices=[_choice(one, view) for one in view.judged if one.problem is None],
            others=[_choice(one, view) for one in view.judged if one.problem is not None],
            further=[_option(one) for one in view.judged if one.problem in (None, Problem.NO_STOCK)],
            is_connected=view.is_connected,
            is_rented=is_rented,
            age=_age(view),
            trouble=view.trouble,
            cost=_cost(view, estimate) if is_rented else RentedCost(),
            count=view.count,
        )
        return True


def _look(project: str) -> Any:
    def look(session: Any, caller: Caller) -> tuple[GpuListView, Estimate | None, bool]:
        typed = drafts.show_form(session, caller, id_of(project)).typed
        view = gpus.list_gpus(session, caller, id_of(project), typed)
        estimate = estimates.estimate_form(session, caller, id_of(project), typed)
        return view, estimate, typed.get("provider") == RUNPOD

    return look


def _choice(one: Judged, view: GpuListView) -> Choice:
    cap = one.rate.cost_of(view.runtime)
    memory = f"{one.offer.memory_bytes / 2**30:.0f} GB"
    return Choice(
        one.offer.gpu_type,
        one.offer.label,
        _note(one),
        (memory, str(one.rate.per_hour), f"Cap (est.) {cap}"),
        one.problem is not None,
    )


def _option(one: Judged) -> Option:
    return Option(one.offer.gpu_type, f"{one.offer.label}, {one.rate}")


def _note(one: Judged) -> str:
    if one.problem is not None:
        return one.sentence
    stock = _STOCK.get(one.stock, "Stock not told")
    return f"{stock} · Recommended: {one.why[:1].lower()}{one.why[1:]}" if one.why else stock


def _age(view: GpuListView) -> str:
    if not view.is_connected:
        return ""
    if view.seen_at is None:
        return "Asking RunPod for its offers …"
    return f"{len(view.judged)} types, prices of {ago(view.seen_at)}"


def _cost(view: GpuListView, estimate: Estimate | None) -> RentedCost:
    if view.chosen is None:
        return RentedCost()
    rate, expected = view.chosen.rate, "–"
    if estimate and estimate.shortest is not None and estimate.longest is not None:
        expected = say_money(rate.cost_of(estimate.shortest), rate.cost_of(estimate.longest))
    return RentedCost(str(rate), str(view.cap), expected)


def rented_list(chosen: Any, choose: Any, error: Any) -> rx.Component:
    """The list for a form that says RunPod; `choose` gets the type that is clicked."""
    state = GpuListState

    def lines(some: rx.Var[list[Choice]]) -> rx.Component:
        return rx.el.div(rx.foreach(some, lambda one: _line(one, chosen, choose)), class_name="pick")

    folded = fold(
        rx.fragment(f"{state.others.length()} more ", meta("cannot be chosen now; each says why")),
        rx.el.div(lines(state.others), style={"margin_top": "8px"}),
    )
    head = row(
        meta(state.age),
        button("Refresh", size="sm", kind="ghost", on_click=state.refresh, disabled=~AppState.me.may_prepare),
        between=True,
    )
    listed = rx.el.div(
        head,
        if_text(state.trouble, callout(state.trouble, tone="amber")),
        if_(state.choices.length() > 0, lines(state.choices)),
        if_(state.others.length() > 0, rx.el.div(folded, style={"margin_top": "10px"})),
        if_text(error, rx.el.p(error, class_name="hint e", role="alert")),
        rx.el.p(_CHEAPEST, class_name="meta", style={"margin_top": "8px"}),
        role="radiogroup",
        custom_attrs={"aria-label": "Training GPU"},
    )
    none = callout(
        "RunPod is not connected. The owner connects it under ", link("Connections", routes.CONNECTIONS), "."
    )
    return rx.cond(state.is_connected, listed, none)


def _line(one: rx.Var[Choice], chosen: Any, choose: Any) -> rx.Component:
    return rx.el.label(
        rx.el.input(
            type="radio",
            name="gpu_type",
            value=one.value,
            checked=one.value == chosen,
            disabled=one.disabled | ~AppState.me.may_prepare,
            on_change=choose(one.value),
        ),
        rx.el.span(rx.el.span(one.title, class_name="strong"), " ", rx.el.span(one.note, class_name="meta")),
        *(rx.el.span(one.columns[n]) for n in range(3)),
        class_name="o c5",
    )
