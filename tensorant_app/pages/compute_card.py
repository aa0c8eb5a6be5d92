"""The overview's cards of what is rented: the account and its slots, and what the month has taken."""

from __future__ import annotations

from dataclasses import dataclass

import reflex as rx

from tensorant_app import routes
from tensorant_app.components.badges import connection_badge
from tensorant_app.components.cards import card
from tensorant_app.components.links import link
from tensorant_app.components.stats import Fact, big_number, data_list
from tensorant_app.components.values import if_, if_text
from tensorant_app.services.overview import OverviewView


@dataclass(frozen=True)
class Compute:
    is_connected: bool = False
    state: str = "unchecked"
    sentence: str = ""
    """Why the account does not work; empty while it does."""
    slots: str = ""
    waiting: str = ""


@dataclass(frozen=True)
class Month:
    """What the project's machines have taken of the month, and may still take until their deadlines."""

    taken: str = "$0.00"
    limit: str = ""
    is_free: bool = True


def compute_of(found: OverviewView) -> Compute:
    compute, slots = found.compute, found.slots
    waiting = f"{slots.waiting} waiting" if slots.waiting else ""
    used = f"{len(slots.held_by)} of {slots.slots}"
    if compute is None:
        return Compute(slots=used, waiting=waiting)
    sentence = compute.sentence if compute.state.value == "failed" else ""
    return Compute(True, compute.state.value, sentence, used, waiting)


def month_of(found: OverviewView) -> Month:
    budget = found.budget
    limit = str(budget.limit) if budget.limit is not None else ""
    return Month(str(budget.taken), limit, is_free=found.compute is None and not budget.taken)


def compute_card(compute: rx.Var[Compute]) -> rx.Component:
    account = rx.cond(compute.is_connected, connection_badge(compute.state), rx.el.span("Not connected"))
    return card(
        data_list(
            Fact("RunPod", account),
            Fact("Run slots in use", compute.slots, under=compute.waiting),
            Fact("This computer", "Free"),
        ),
        if_text(compute.sentence, rx.el.p(compute.sentence, class_name="meta")),
        title="Compute",
        right=[link("Connections", routes.CONNECTIONS)],
    )


def month_card(month: rx.Var[Month]) -> rx.Component:
    limit = if_text(month.limit, rx.fragment(f"of {month.limit}. "))
    rented = rx.fragment(limit, "Machines by their bill or an estimate; those that run, up to their deadline.")
    free = rx.fragment("Runs and evaluations use this computer; nothing is rented and nothing is billed.")
    return card(big_number("Spend this month", month.taken, under=if_(month.is_free, free, rented)))
