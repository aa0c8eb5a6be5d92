"""What is drawn where a machine may exist that nobody answers for: a run's page and an evaluation's show the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import reflex as rx

from tensorant_app.components.buttons import button, copy_button
from tensorant_app.components.cards import row
from tensorant_app.components.dialogs import named_dialog
from tensorant_app.components.links import out_link
from tensorant_app.components.texts import meta, mono
from tensorant_app.components.values import each, if_
from tensorant_app.pages.machine_actions import MachineActions
from tensorant_app.pages.machine_card import PODS, machine_name
from tensorant_app.pages.run_actions import READ_ONLY
from tensorant_app.state import AppState


def cleanup_panel(
    machine: Any, name: Any, *, is_rented: Any, may_retry: Any = True, more: Sequence[rx.Component] = ()
) -> rx.Component:
    """`more`: what else could be done, in the same row."""
    retry = button(
        "Retry cleanup",
        kind="solid",
        size="sm",
        on_click=MachineActions.retry_cleanup(machine),
        disabled=~AppState.me.may_spend,
    )
    acts = row(if_(may_retry, retry), *more, _open_pod(is_rented), _viewer_reason(), wraps=True)
    return rx.fragment(_named(name), acts)


def checking_panel(name: Any, why_not: Any, twins: Any, *, is_rented: Any, on_confirm: Any, end: str) -> rx.Component:
    """Whether it exists decides the account's list; what is enabled here only writes down what a person saw there."""
    confirm = named_dialog(
        "Confirm that no Pod was rented?",
        rx.fragment(
            "You looked at RunPod's list of Pods and found none named ",
            mono(name),
            f". {end} A Pod that appears later all the same is deleted.",
        ),
        confirm_label="Confirm absent Pod",
        cancel_label="Keep looking",
        is_open=False,
        on_open_change=None,
        on_confirm=on_confirm,
        error=AppState.error,
        reasons=AppState.reasons,
        trigger=button(
            "Confirm absent Pod", kind="solid", size="sm", disabled=(why_not != "") | ~AppState.me.may_spend
        ),
    )
    several = rx.el.div(
        rx.el.p("RunPod lists several Pods of this name. Delete all but one of them there; the last one is taken."),
        rx.el.ul(*each(twins, lambda one: rx.el.li(mono(one))), class_name="reasons"),
    )
    acts = row(confirm, _open_pod(is_rented), meta(why_not), _viewer_reason(), wraps=True)
    return if_(is_rented, rx.fragment(_named(name), if_(twins.length() > 0, several), acts))


def _named(name: Any) -> rx.Component:
    return rx.el.div(machine_name(name), copy_button(name, label="Copy name", words=True), class_name="row wrap")


def _open_pod(is_rented: Any) -> rx.Component:
    return if_(is_rented, out_link("Open Pod in RunPod", PODS))


def _viewer_reason() -> rx.Component:
    return if_(AppState.me.may_spend, rx.fragment(), meta(READ_ONLY))
