"""What the launch dialog says: free on this computer, or the price, the cap and who is billed for a rented machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from tensorant_app.domain.durations import say_seconds
from tensorant_app.domain.money import Money
from tensorant_app.domain.trials import TrialSettings
from tensorant_app.pages.words import span
from tensorant_app.services.estimates import Estimate
from tensorant_app.services.launches import LaunchView, RentedLaunch

_MOMENT = timedelta(seconds=1)
_ROUNDS_TO_NOTHING = "$0.00"


@dataclass(frozen=True)
class LaunchCard:
    """The dialog's words; as a rented machine's unless `is_rented` is False."""

    run: str = ""
    project: str = ""
    name: str = ""
    title: str = ""
    lead: str = ""
    price: str = "$0"
    price_micros: int = 0
    """Of an hour, as the person sees it: the server compares it with what holds when it is confirmed."""
    expected: str = ""
    source: str = ""
    limit: str = ""
    cap: str = "$0"
    cost: str = ""
    """Of the expected time; empty where nothing is known or nothing is billed."""
    machine: str = "This computer"
    billed: str = "Nobody"
    at_limit: str = "It saves a checkpoint and stops as Needs recovery. Nothing is lost."
    further: str = ""
    """What is asked for where the machine cannot be had; empty where a refusal ends the launch."""
    queue: str = ""
    plan: str = ""
    confirm: str = "Start on this computer · free"
    is_trial: bool = False
    is_rented: bool = False
    can_confirm: bool = True


def card_of(view: LaunchView) -> LaunchCard:
    plan = view.estimate.plan
    here = LaunchCard(
        run=str(view.run_id),
        project=str(view.project_id),
        name=view.name,
        title=f"Start {view.name} on this computer?",
        lead="It is free: nobody is billed.",
        expected=say_time(view.estimate),
        source=view.estimate.source_words[:1].upper() + view.estimate.source_words[1:],
        limit=say_seconds(view.maximum_runtime.total_seconds()),
        queue=_queue(view),
        plan=f"{plan.total_steps:,} steps over {view.estimate.rows:,} rows, {_times(view.estimate.epochs)}",
    )
    card = here if view.rented is None else _rented(here, view, view.rented)
    return card if view.trial is None else _trial(card, view.trial, view.estimate.rows)


def _times(epochs: int) -> str:
    return "once" if epochs == 1 else "twice" if epochs == 2 else f"{epochs} times"


def _queue(view: LaunchView) -> str:
    used = f"{view.slots_held} of {view.slots} slots are in use."
    if view.not_before is not None:
        return f"It waits as Queued until {view.not_before:%Y-%m-%d %H:%M} UTC, and then for a free slot. {used}"
    is_full = view.slots_held >= view.slots
    waits = "It waits as Queued, then the checks are looked at again." if is_full else "It starts at once."
    return f"{used} {waits}"


def _trial(card: LaunchCard, bounds: TrialSettings, rows: int) -> LaunchCard:
    return replace(
        card,
        expected="–",
        cost="",
        source="What the full run would take is what it measures.",
        plan=f"{bounds.trial_steps} steps over {min(bounds.trial_rows, rows):,} rows, the longest first",
        at_limit="It ends as Failed with a report of what it measured, and its machine is given back.",
        is_trial=True,
    )


def _rented(here: LaunchCard, view: LaunchView, rented: RentedLaunch) -> LaunchCard:
    machine = f"{rented.count} × {rented.label}"
    place = f"{machine} in {rented.data_center}" if rented.data_center else machine
    common = replace(here, is_rented=True, title=f"Launch GPU for {view.name}?", machine=place)
    if rented.rate is None or rented.cap is None:
        lead = (
            f"{machine} is not on offer at RunPod now. Try again in a minute, or configure another run like this one."
        )
        return replace(common, lead=lead, price="–", cap="–", confirm="Launch GPU", can_confirm=False)
    return replace(
        common,
        lead="RunPod bills your account from the moment the machine is asked for until its release is proved.",
        price=str(rented.rate.per_hour),
        price_micros=(rented.dearest or rented.rate).per_hour.micros,
        cap=str(rented.cap),
        further=_further(rented),
        cost=say_cost(view.estimate, rented),
        billed=billed_to(rented),
        at_limit=_at_limit(common.limit, rented),
        confirm=f"Launch GPU · about {rented.cap} if all time is used",
    )


def _further(rented: RentedLaunch) -> str:
    if not rented.wait:
        return ""
    hours = f"for up to {say_seconds(rented.wait.total_seconds())}"
    if not rented.further:
        return f"It is asked for again and again, {hours}; nothing is billed meanwhile."
    others = ", ".join(f"{rented.count} × {label} at {rate}" for label, rate in rented.further)
    return f"Asked for in turn, {hours}: {others}. The cap is the dearest one's."


def _at_limit(limit: str, rented: RentedLaunch) -> str:
    if rented.own_disk_month is None:
        return (
            f"After {limit} it saves a checkpoint, the machine is given back, and the run waits as Needs recovery. "
            "Nothing is lost."
        )
    return (
        "No network volume is connected. At the end of its work, and at the latest "
        f"after {limit}, the Pod is stopped and keeps its disk: you fetch adapter.zip from it and hand it in. "
        f"Until then the disk costs about {rented.own_disk_month} a month."
    )


def billed_to(rented: RentedLaunch) -> str:
    """Whose account, and what its project has left."""
    account = f"RunPod account …{rented.account}" if rented.account else "Your RunPod account"
    left = rented.budget.left
    return account if left is None else f"{account}; {left} of the project's {rented.budget.limit} are left this month"


def say_cost(estimate: Estimate, rented: RentedLaunch) -> str:
    """ "$1.20 – $1.60" for the time that runs like it took."""
    if rented.rate is None or estimate.shortest is None or estimate.longest is None:
        return ""
    return say_money(rented.rate.cost_of(estimate.shortest), rented.rate.cost_of(estimate.longest))


def say_money(low: Money, high: Money) -> str:
    """Never $0.00 for what costs something."""
    if high and str(high) == _ROUNDS_TO_NOTHING:
        return "under $0.01"
    if str(low) == _ROUNDS_TO_NOTHING and high:
        return f"up to {high}"
    return str(low) if str(low) == str(high) else f"{low} – {high}"


def say_time(estimate: Estimate) -> str:
    """ "36 min – 48 min", "up to 3 s"; an en dash where nothing is known. Never 0 s: everything takes its time."""
    if estimate.shortest is None or estimate.longest is None:
        return "–"
    if estimate.longest < _MOMENT:
        return "under 1 s"
    if estimate.shortest < _MOMENT:
        return f"up to {say_span(estimate.longest)}"
    short, long = say_span(estimate.shortest), say_span(estimate.longest)
    return short if short == long else f"{short} – {long}"


def say_span(time: timedelta) -> str:
    """ "1 h 28", "36 min", "42 s"."""
    minutes = round(time.total_seconds() / 60)
    return f"{minutes // 60} h {minutes % 60:02d}" if minutes >= 60 else span(time)
