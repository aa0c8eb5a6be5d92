"""The panel of a run's page that asks for a person: what happened, that nothing is lost, and one obvious next step."""

from __future__ import annotations

from typing import Any

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.buttons import action_with_reason, button
from tensorant_app.components.callouts import callout, error_panel
from tensorant_app.components.cards import card, choice
from tensorant_app.components.checks import checks
from tensorant_app.components.dialogs import named_dialog
from tensorant_app.components.links import out_link
from tensorant_app.components.texts import meta
from tensorant_app.components.uploads import upload_field
from tensorant_app.components.values import if_, if_text, pick
from tensorant_app.pages.frame import segment
from tensorant_app.pages.machine_card import PODS
from tensorant_app.pages.machine_panels import checking_panel, cleanup_panel
from tensorant_app.pages.run_actions import READ_ONLY, RunActions
from tensorant_app.pages.run_limit import longer_limit_form
from tensorant_app.pages.run_state import RunPageState as S
from tensorant_app.services import machine_actions, recoveries
from tensorant_app.state import AppState, id_of


class RecoveryState(AppState):
    """What its buttons do; the page itself looks once a second and shows what came of it."""

    @rx.event
    async def pause(self) -> None:
        run = segment(self, "runs")
        await self._do(lambda session, caller: recoveries.pause_run(session, caller, id_of(run)))

    @rx.event
    async def resume(self) -> None:
        run = segment(self, "runs")
        await self._do(lambda session, caller: recoveries.resume_run(session, caller, id_of(run)))

    @rx.event
    async def verify(self) -> None:
        run = segment(self, "runs")
        await self._do(lambda session, caller: recoveries.verify_run(session, caller, id_of(run)))

    @rx.event
    async def confirm_absent(self) -> None:
        run = segment(self, "runs")
        await self._do(lambda session, caller: machine_actions.confirm_run_absent(session, caller, id_of(run)))


def pause_button() -> rx.Component:
    """Beside Cancel, while there is a machine at work."""
    act = button("Pause", icon_name="pause", on_click=RecoveryState.pause, disabled=~S.me.may_spend)
    off = button("Pausing …", icon_name="pause", disabled=True)
    return if_(S.ways.pause == "", act, if_(S.ways.is_pausing & S.head.is_live, off))


def trouble() -> rx.Component:
    """Nothing while all goes well; the machine's first, for it may cost money."""
    quiet = rx.fragment()
    shown = rx.match(
        S.trouble.kind,
        ("needs_recovery", _recovery()),
        ("failed", _failed()),
        ("paused", _waits(S.trouble, _resume())),
        ("lost_machine", _waits(S.trouble, _lost_machine())),
        ("unscored", _waits(S.trouble)),
        ("cancelled", callout(rx.el.b(S.trouble.what, class_name="strong"), " ", S.trouble.lost)),
        ("draft", card(checks(S.findings), title=S.trouble.what, right=[meta(S.trouble.story)])),
        quiet,
    )
    machine = rx.match(
        S.machine_trouble.kind,
        (
            "release_failed",
            _waits(S.machine_trouble, cleanup_panel(S.machine.id, S.machine.name, is_rented=S.machine.is_rented)),
        ),
        ("checking", _waits(S.machine_trouble, _checking())),
        quiet,
    )
    space = {"margin_bottom": "16px"}
    return rx.fragment(
        if_text(S.machine_trouble.kind, rx.el.div(machine, style=space)),
        if_text(S.trouble.kind, rx.el.div(shown, style=space)),
    )


def cancel_dialog(kind: Any = "red", size: Any = "md") -> rx.Component:
    """The way out of anything that runs or waits."""
    return named_dialog(
        f"Cancel {S.head.name}?",
        S.head.cancel_lead,
        confirm_label="Cancel run",
        cancel_label="Keep training",
        is_open=False,
        on_open_change=None,
        on_confirm=S.cancel,
        error=S.error,
        reasons=S.reasons,
        trigger=button("Cancel run", kind=kind, size=size, disabled=~S.me.may_stop),
    )


def retry_draft_button() -> rx.Component:
    """Waits, like the service behind it, until no machine of this run can still work: the second badge is gone.

    Solid once its machine is accounted for: until then there is something more urgent to press.
    """
    waits = ~S.me.may_prepare | (S.head.machine != "")

    def draw(kind: Any) -> rx.Component:
        return button("Create retry draft", kind=kind, on_click=RunActions.retry(S.head.id), disabled=waits)

    return rx.cond(S.machine_trouble.kind == "", draw("solid"), draw("outline"))


def another_button() -> rx.Component:
    return button("Configure another like this", on_click=RunActions.copy(S.head.id), disabled=~S.me.may_prepare)


def _recovery() -> rx.Component:
    """Three ways out; the sensible one is marked and owns the solid button."""
    return card(
        rx.cond(S.ways.is_pod_local, _hand_in(), _verify()),
        rx.cond(S.ways.next == "extend", _extend("cur"), _extend("")),
        rx.cond(S.ways.next == "cancel", _give_up("cur"), _give_up("")),
        title=S.trouble.what,
        right=[meta("Nothing is lost.")],
        padded=False,
    )


def _verify() -> rx.Component:
    text = "Looks for a finished adapter among the run's files, without a GPU. Its manifest and hashes decide."

    def way(kind: Any, state: Any) -> rx.Component:
        act = button("Verify adapter", kind=kind, on_click=RecoveryState.verify, disabled=~S.me.may_spend)
        busy = button("Looking …", disabled=True)
        return choice(1, "Verify the adapter", text, if_(S.ways.is_verifying, busy, act), _reason(""), state=state)

    return rx.cond(S.ways.next == "verify", way("solid", "cur"), way("outline", ""))


def _hand_in() -> rx.Component:
    """Its files lie on the Pod's own disk: a person fetches the zip there and hands it in here."""
    file = upload_field(
        S.head.id, of="run", label="adapter.zip", accept=".zip,application/zip", disabled=~S.me.may_spend
    )
    says = rx.cond(S.ways.was_refused, callout(S.ways.uploaded, tone="red"), callout(S.ways.uploaded))
    return choice(
        1,
        "Verify and recover the adapter",
        S.ways.hand_in,
        out_link("Open Pod in RunPod", PODS),
        rx.el.div(file, if_text(S.ways.uploaded, says), class_name="stack", style={"margin_top": "10px"}),
        _reason(""),
        state="cur",
    )


def _extend(state: Any) -> rx.Component:
    form = longer_limit_form("Resume run", "solid" if state else "outline")
    return choice(
        2,
        "Resume with a longer limit",
        "Goes on from the last verified checkpoint, on a new machine at the price of the day.",
        rx.fragment(),
        if_text(S.ways.extend, meta(S.ways.extend), form),
        state=state,
    )


def _give_up(state: Any) -> rx.Component:
    return choice(
        3,
        "Cancel run",
        rx.fragment("Ends the run. ", S.trouble.lost),
        if_(S.head.may_cancel, cancel_dialog()),
        state=state,
    )


def _failed() -> rx.Component:
    return card(
        error_panel(
            S.trouble.what,
            rx.fragment(rx.el.p(S.trouble.story), rx.el.p(S.trouble.lost, class_name="meta")),
            actions=[retry_draft_button(), another_button()],
            error_id=S.head.short_id,
        )
    )


def _waits(trouble: Any, *actions: rx.Component) -> rx.Component:
    return callout(
        rx.el.div(trouble.what, class_name="strong"),
        rx.el.p(trouble.story, " ", trouble.lost),
        *actions,
        tone="amber",
    )


def _lost_machine() -> rx.Component:
    """The machine by its whole name, and what shortens the wait: proof that it is gone, another slot, or an end."""
    more = button("More run slots", size="sm", href=routes.CONNECTIONS)
    return cleanup_panel(
        S.machine.id,
        S.machine.name,
        is_rented=S.machine.is_rented,
        may_retry=S.machine.state == "release_failed",
        more=[more, if_(S.head.may_cancel, cancel_dialog("outline", size="sm"))],
    )


def _resume() -> rx.Component:
    act = button("Resume", kind="solid", size="sm", on_click=RecoveryState.resume, disabled=~S.me.may_spend)
    return _with_reason(act, "Price and checks are looked at anew before a machine is rented.")


def _checking() -> rx.Component:
    return checking_panel(
        S.machine.name,
        S.ways.confirm_absent,
        S.ways.twins,
        is_rented=S.machine.is_rented,
        on_confirm=RecoveryState.confirm_absent,
        end="A run that is being launched ends as cancelled; any other one stays as it is.",
    )


def _reason(calm: str) -> rx.Component:
    return meta(pick(S.me.may_spend, calm, READ_ONLY))


def _with_reason(act: rx.Component, calm: str) -> rx.Component:
    return action_with_reason(act, pick(S.me.may_spend, calm, READ_ONLY))
