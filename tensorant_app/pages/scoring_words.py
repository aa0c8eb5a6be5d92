"""What the dialog of an evaluation says: free on this computer, or the price, the cap and who is billed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorant_app.components.choices import Option
from tensorant_app.domain.connections import RUNPOD
from tensorant_app.domain.hyperparameters import show_number
from tensorant_app.domain.readiness import gib
from tensorant_app.pages.launch_words import billed_to
from tensorant_app.services.prices import RentedLaunch
from tensorant_app.services.scorings import ScoringView
from tensorant_app.services.slots import SlotsView


@dataclass(frozen=True)
class ScoringCard:
    title: str = ""
    lead: str = ""
    price: str = "$0"
    per: str = ""
    price_micros: int = 0
    """Of an hour, as the person sees it: the server compares it with what holds when it is confirmed."""
    cap: str = "$0"
    limit: str = ""
    machine: str = "This computer"
    billed: str = "Nobody"
    at_limit: str = ""
    queue: str = ""
    confirm: str = ""
    problem: str = ""
    is_connected: bool = False
    is_rented: bool = False
    can_confirm: bool = False


def scoring_card(view: ScoringView) -> ScoringCard:
    limit = f"{show_number(_number(view.typed['hours']))} h" if "hours" not in view.wrong else "–"
    is_rented = view.typed["provider"] == RUNPOD
    at_limit = f"It ends as failed after {limit}" + (
        "; the machine is given back." if is_rented else "; nothing is billed."
    )
    here = ScoringCard(
        title=f"Score the adapter of {view.name}?" if view.name else "Start a baseline?",
        lead="The adapter answers every test row of its version once, and the gate compares it with the baseline."
        if view.name
        else "The base model answers every test row of the version once. The answers are kept and never computed again.",
        limit=limit,
        at_limit=at_limit,
        queue=_queue(view.slots),
        confirm="Score adapter · $0" if view.name else "Start baseline · $0",
        problem=view.problem,
        is_connected=view.is_connected,
        is_rented=is_rented,
        can_confirm=not view.wrong,
    )
    if not is_rented:
        return here
    unknown = replace(here, price="–", cap="–", billed="–", machine="–", confirm="Launch GPU", can_confirm=False)
    return unknown if view.rented is None else _rented(unknown, view, view.rented)


def gpu_options(view: ScoringView) -> list[Option]:
    """Those that can start now; the chosen one stays, whatever is wrong with it."""
    chosen = view.typed["gpu_type"]
    return [
        Option(one.offer.gpu_type, f"{one.offer.label} · {gib(one.offer.memory_bytes)} · {one.rate}")
        for one in view.offers
        if one.problem is None or one.offer.gpu_type == chosen
    ]


def _rented(unknown: ScoringCard, view: ScoringView, rented: RentedLaunch) -> ScoringCard:
    machine = f"{rented.count} × {rented.label}"
    named = replace(unknown, machine=f"{machine} in {rented.data_center}" if rented.data_center else machine)
    if rented.rate is None or rented.cap is None:
        return replace(named, lead=f"{machine} is not on offer at RunPod now. Choose another GPU.")
    return replace(
        named,
        price=str(rented.rate.per_hour),
        per="/h",
        price_micros=rented.rate.per_hour.micros,
        cap=str(rented.cap),
        billed=billed_to(rented),
        confirm=f"Launch GPU · about {rented.cap} if all time is used",
        can_confirm=not view.problem and not view.wrong,
    )


def _queue(slots: SlotsView) -> str:
    held = len(slots.held_by)
    waits = "It waits as Queued until one is free." if held >= slots.slots else "It starts at once."
    return f"{held} of {slots.slots} slots are in use. {waits}"


def _number(text: str) -> float:
    return float(text.strip().replace(",", "."))
