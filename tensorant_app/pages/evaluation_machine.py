"""The machine of an evaluation on its page: nothing while all goes well, else what a person can do; and what it cost."""

from __future__ import annotations

from dataclasses import dataclass

import reflex as rx

from tensorant_app.components.callouts import callout
from tensorant_app.components.texts import meta
from tensorant_app.components.values import if_, if_text
from tensorant_app.domain.spend import SpendState, tell
from tensorant_app.pages.frame import segment
from tensorant_app.pages.lists import put
from tensorant_app.pages.machine_panels import checking_panel, cleanup_panel
from tensorant_app.services import machine_actions, times
from tensorant_app.services.machine_actions import EvaluationMachine
from tensorant_app.state import AppState, Work, id_of


@dataclass(frozen=True)
class Scorer:
    id: str = ""
    name: str = ""
    is_rented: bool = False
    is_checking: bool = False
    confirm_absent: str = "-"
    twins: tuple[str, ...] = ()
    trouble: str = ""
    spend: str = ""
    terms: str = ""
    """GPU, place, price and limit, while a rented one is there."""


class EvaluationMachineState(AppState):
    scorer: Scorer = Scorer()

    @rx.event
    async def load(self):
        found = await self._do_look()
        return EvaluationMachineState.watch if found else None

    @rx.event(background=True)
    async def watch(self) -> None:
        """As long as its machine may still be paid for."""
        async with self:
            here, look = segment(self, "evaluations"), self._look()

        def show(found: EvaluationMachine | None) -> bool:
            if segment(self, "evaluations") != here:
                return False
            self._show(found)
            return found is None or not found.is_gone

        await self._watch(look, show, every=2.0)

    @rx.event
    async def confirm_absent(self) -> None:
        evaluation = segment(self, "evaluations")
        await self._do(
            lambda session, caller: machine_actions.confirm_evaluation_absent(session, caller, id_of(evaluation))
        )
        if not self.error:
            await self._do_look()

    async def _do_look(self) -> bool:
        found = await self._see(self._look())
        self._show(found)
        return not self.error

    def _look(self) -> Work[EvaluationMachine | None]:
        evaluation = segment(self, "evaluations")
        return lambda session, caller: machine_actions.show_evaluation_machine(session, caller, id_of(evaluation))

    def _show(self, found: EvaluationMachine | None) -> None:
        put(self, scorer=_scorer_of(found) if found else Scorer())


def _scorer_of(found: EvaluationMachine) -> Scorer:
    return Scorer(
        id=str(found.id),
        name=found.name,
        is_rented=found.is_rented,
        is_checking=found.checking,
        confirm_absent=found.confirm_absent or "",
        twins=tuple(found.machine_ids) if len(found.machine_ids) > 1 else (),
        trouble=found.trouble or "",
        terms=_terms(found) if found.is_rented and not found.is_gone else "",
        spend=tell(found.spend, times.now()) if found.spend.state is not SpendState.NONE else "",
    )


def _terms(found: EvaluationMachine) -> str:
    place = f" in {found.data_center}" if found.data_center else ""
    price = f" at {found.rate}" if found.rate else ""
    return f"{found.gpu_type}{place}{price}, until {found.deadline:%H:%M} UTC at most"


def evaluation_machine() -> rx.Component:
    one = EvaluationMachineState.scorer
    checking = callout(
        rx.el.div("The launch is being checked.", class_name="strong"),
        rx.el.p(
            "The provider's answer is late or lost. A machine of this name is looked for; none is asked for twice."
        ),
        checking_panel(
            one.name,
            one.confirm_absent,
            one.twins,
            is_rented=one.is_rented,
            on_confirm=EvaluationMachineState.confirm_absent,
            end="The evaluation ends as cancelled.",
        ),
        tone="amber",
    )
    stuck = callout(
        rx.el.div("The machine's release is not confirmed.", class_name="strong"),
        rx.el.p("Its slot stays taken until the release is proved. ", one.trouble),
        cleanup_panel(one.id, one.name, is_rented=one.is_rented),
        tone="amber",
    )
    return rx.fragment(
        if_(one.is_checking, checking),
        if_text(one.trouble, stuck),
        if_text(one.terms, rx.el.p(meta("Machine: ", one.terms))),
        if_text(one.spend, rx.el.p(meta("Spend: ", one.spend))),
    )
