"""A run's machine and what it costs, as the side of its page shows them."""

from __future__ import annotations

from dataclasses import dataclass

import reflex as rx

from tensorant_app.components.badges import machine_state_badge
from tensorant_app.components.buttons import copy_button
from tensorant_app.components.cards import card
from tensorant_app.components.links import out_link
from tensorant_app.components.stats import Fact, big_number, data_list
from tensorant_app.components.texts import when
from tensorant_app.components.values import if_, if_text
from tensorant_app.domain.spend import SpendState, cap, tell
from tensorant_app.pages.words import ago, exact
from tensorant_app.services.run_details import RunDetails

PODS = "https://console.runpod.io/pods"
"""RunPod's own list, where a Pod is found by its name."""


@dataclass(frozen=True)
class Machine:
    """The machine of the current attempt in words; all empty where there is none."""

    id: str = ""
    name: str = ""
    provider_id: str = ""
    state: str = ""
    place: str = ""
    data_center: str = ""
    status: str = ""
    price: str = ""
    attempt: str = ""
    boots: str = ""
    since: str = ""
    since_exact: str = ""
    deadline: str = ""
    deadline_exact: str = ""
    released: str = ""
    sentence: str = ""
    is_rented: bool = False


@dataclass(frozen=True)
class Cost:
    """What the run's machines cost, all attempts together."""

    amount: str = "$0.00"
    words: str = ""
    cap: str = ""
    """Price × maximum runtime; empty while no price is known."""


def machine_of(run: RunDetails) -> Machine:
    found = run.machine
    if found is None:
        return Machine()
    gpus = found.gpu_type if found.gpu_count == 1 else f"{found.gpu_count} × {found.gpu_type}"
    return Machine(
        id=str(found.id),
        name=found.name,
        provider_id=found.provider_id or "",
        state=found.state.value,
        place="This computer" if found.provider == "local" else gpus,
        data_center=found.data_center or "",
        status=found.provider_status if found.is_rented and not found.released_at else "",
        price=str(found.rate) if found.rate and found.is_rented else "",
        attempt=str(found.attempt),
        boots=str(found.boots) if found.boots > 1 else "",
        since=ago(found.since, run.looked_at),
        since_exact=exact(found.since),
        deadline="" if found.released_at else f"{found.deadline:%H:%M} UTC",
        deadline_exact=exact(found.deadline),
        released=f"{found.released_at:%H:%M} UTC" if found.released_at else "",
        sentence=found.sentence or "",
        is_rented=found.is_rented,
    )


def cost_of(run: RunDetails) -> Cost:
    words = tell(run.spend, run.looked_at)
    if run.spend.state is SpendState.NONE:
        words = "Nothing has been rented yet" if run.is_rented else "Free, on this computer"
    rate = run.machine.rate if run.machine else None
    most = str(cap(rate, run.maximum_runtime)) if rate and run.spend.state is not SpendState.NONE else ""
    return Cost(str(run.spend.shown), words, most)


def machine_card(machine: rx.Var[Machine]) -> rx.Component:
    """Its name stands whole: it is what one looks for at the provider."""
    facts = data_list(
        Fact("Place", machine.place),
        Fact("State", machine_state_badge(machine.state)),
        Fact("Data center", machine.data_center, shown=machine.data_center != ""),
        Fact("RunPod says", machine.status, shown=machine.status != ""),
        Fact("Price", machine.price, shown=machine.price != ""),
        Fact("Attempt", machine.attempt),
        Fact("Container starts", machine.boots, shown=machine.boots != ""),
        Fact("Asked for", when(machine.since, machine.since_exact), shown=machine.since != ""),
        Fact("Deadline", when(machine.deadline, machine.deadline_exact), shown=machine.deadline != ""),
        Fact("Released", machine.released, shown=machine.released != ""),
    )
    return card(
        facts,
        machine_name(machine.name),
        if_text(machine.provider_id, rx.el.div("Pod ", machine.provider_id, class_name="mono meta wrap-any")),
        if_text(machine.sentence, rx.el.p(machine.sentence, class_name="meta")),
        rx.el.div(
            copy_button(machine.name, label="Copy name", words=True),
            if_(machine.is_rented & (machine.released == ""), out_link("Open Pod in RunPod", PODS)),
            class_name="row wrap",
            style={"margin_left": "-8px"},
        ),
        title="Machine",
    )


def machine_name(name: rx.Var[str]) -> rx.Component:
    return rx.el.div(name, class_name="mono meta", style={"overflow_wrap": "anywhere", "margin": "10px 0 6px"})


def cost_card(cost: rx.Var[Cost]) -> rx.Component:
    """The number, which of estimate and bill it is, and the most that the limit lets it become."""
    most = rx.el.div(
        data_list(Fact("Cap (est.)", cost.cap, under="All of the maximum runtime. Not a billing cap.")),
        style={"margin_top": "10px"},
    )
    return card(big_number("Spend", cost.amount, under=cost.words), if_text(cost.cap, most))
