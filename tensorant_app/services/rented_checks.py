"""The readiness checks of a run that rents its machine: account, volume, GPU, stock, price, budget and image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from sqlmodel import Session

from tensorant_app.db.connections import Connection
from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.projects import Project
from tensorant_app.domain.connections import LOCAL, ConnectionKind, ConnectionState
from tensorant_app.domain.errors import AuthFailed, ProviderError
from tensorant_app.domain.money import Money
from tensorant_app.domain.offers import NEVER, Judged, Problem, Stock, SwitchedOff, Wanted, judge_all
from tensorant_app.domain.place_form import raised_limit
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.readiness import ANSWERING, Check, Finding, gib, passed, refused, warned
from tensorant_app.domain.wording import count
from tensorant_app.providers.base import Provider
from tensorant_app.services.budgets import Budget, budget_of
from tensorant_app.services.connections import find_connection, provider_for
from tensorant_app.services.gpus import pick, want
from tensorant_app.services.offers import catalog_of, switched_off
from tensorant_app.services.own_disk_checks import Carried, check_carried, check_own_disk
from tensorant_app.settings import get_settings

_GB = 10**9


@dataclass(frozen=True, slots=True)
class Account:
    """A connection as the checks see it."""

    state: ConnectionState
    sentence: str
    data_center: str = ""
    size_gb: int | None = None


@dataclass(frozen=True, slots=True)
class RentedFacts:
    """What the database knows of the place that a run is to be trained at."""

    placement: Placement
    compute: Account | None
    storage: Account | None
    carried: Carried | None
    """What a Pod without a network volume would be given; None where there is a volume."""
    is_answering: bool
    """An evaluation's machine, which trains nothing."""
    wanted: Wanted
    off: Mapping[str, SwitchedOff]
    judged: Judged | None
    """The chosen GPU as the catalog has it."""
    further: Sequence[Judged | None]
    """Those that are asked for in turn where it cannot be had."""
    is_catalog_known: bool
    budget: Budget
    provider: Provider | None
    """To ask anew at launch; None where the account does not open."""


def read_rented(
    session: Session, project: Project, version: DatasetVersion, method: str, placement: Placement
) -> RentedFacts | None:
    """None for a run on this computer."""
    if placement.provider in ("", LOCAL):
        return None
    organization_id = project.organization_id
    compute = find_connection(session, organization_id, ConnectionKind.RUNPOD_COMPUTE)
    storage = find_connection(session, organization_id, ConnectionKind.RUNPOD_STORAGE)
    catalog = catalog_of(session, organization_id, placement.gpu_count)
    wanted, off = want(session, project, method, placement), switched_off(session)
    judged, *further = pick(judge_all(catalog.offers if catalog else [], wanted, off), placement)
    return RentedFacts(
        placement,
        _account(compute),
        _account(storage),
        None if storage else Carried.of(project, version),
        method == ANSWERING,
        wanted,
        off,
        judged,
        further,
        catalog is not None and catalog.seen_at is not None,
        budget_of(session, project),
        _provider(session, project) if compute else None,
    )


def ask_anew(facts: RentedFacts) -> RentedFacts:
    """The same with what the provider says this moment, at launch; call it with no transaction open."""
    if facts.provider is None:
        return facts
    try:
        offers = facts.provider.offers(facts.placement.gpu_count)
    except AuthFailed as error:
        return replace(facts, compute=Account(ConnectionState.FAILED, error.message))
    except ProviderError as error:
        return replace(facts, compute=Account(ConnectionState.FAILED, f"{error.message} Try again in a few minutes."))
    judged, *further = pick(judge_all(offers, facts.wanted, facts.off), facts.placement)
    return replace(facts, judged=judged, further=further, is_catalog_known=True)


def check_account(facts: RentedFacts) -> list[Finding]:
    """1 and 2: the key, and the volume where the machine will be; without one, whether a Pod can do with its own disk."""
    compute = _check_connection(Check.COMPUTE, ConnectionKind.RUNPOD_COMPUTE, facts.compute)
    if facts.carried is not None:
        return [compute, *check_carried(facts.carried)]
    return [compute, _check_connection(Check.STORAGE, ConnectionKind.RUNPOD_STORAGE, facts.storage)]


def check_space(facts: RentedFacts, needed: int, checkpoints: int, base_bytes: int) -> Finding:
    """3: against the volume's whole size; what else lies on it RunPod does not tell. Or against the Pod's own disk."""
    if facts.carried is not None:
        return check_own_disk(facts.placement.disk_gb, needed, checkpoints)
    total = needed + base_bytes
    sentence = (
        f"The base model, {count(checkpoints, 'checkpoint')} and the adapter need about {gib(total)} of the volume"
    )
    size = facts.storage.size_gb if facts.storage else None
    if size is None:
        return warned(Check.SPACE, f"{sentence}; its size is not known yet.")
    if total > size * _GB:
        advice = "Make the volume larger at RunPod, lower the rank or save fewer checkpoints."
        return refused(Check.SPACE, f"{sentence}, which has {size:,} GB in all. {advice}")
    return passed(
        Check.SPACE, f"{sentence}, which has {size:,} GB in all. RunPod does not tell how much of it is free."
    )


def check_machine(facts: RentedFacts, runtime: timedelta) -> list[Finding]:
    """4 to 8; only the first that refuses where the later ones would say nothing new."""
    judged = facts.judged
    if judged is None:
        return [_unknown_type(facts)]
    if judged.problem in NEVER:
        what = "answer for an evaluation" if facts.is_answering else "train this run"
        return [refused(Check.GPU, f"{judged.offer.label} cannot {what}. {judged.sentence}")]
    name = f"{facts.placement.gpu_count} × {judged.offer.label}"
    return [
        passed(Check.GPU, f"{judged.offer.label} is an NVIDIA GPU of a kind that can train, on x86-64."),
        _check_stock(facts, judged, name),
        _check_price(facts, judged, name),
        _check_memory(facts, judged),
        *_check_further(facts),
        _check_budget(facts, max(one.rate for one in [judged, *facts.further] if one).cost_of(runtime)),
    ]


def check_image() -> Finding:
    """15: pinned by digest, so that what was tested is what runs."""
    image = get_settings().trainer_image
    if not image:
        return refused(
            Check.TRAINER,
            "No trainer image is set for rented machines. The operator names one by its digest in TENSORANT_TRAINER_IMAGE.",
        )
    return passed(Check.TRAINER, f"The trainer's image is pinned by its digest {image.rpartition('@sha256:')[2][:12]}.")


def _account(row: Connection | None) -> Account | None:
    if row is None:
        return None
    return Account(row.state, row.sentence, row.shown.get("data_center", ""), row.facts.get("size_gb"))


def _provider(session: Session, project: Project) -> Provider | None:
    try:
        return provider_for(session, project.organization_id, ConnectionKind.RUNPOD_COMPUTE.provider)
    except AuthFailed:
        return None


def _check_connection(check: Check, kind: ConnectionKind, account: Account | None) -> Finding:
    if account is None:
        return refused(check, f"{kind.label} is not connected. The owner connects it under Connections.")
    match account.state:
        case ConnectionState.FAILED:
            return refused(check, f"{kind.label} does not work: {account.sentence}")
        case ConnectionState.UNCHECKED:
            return refused(check, f"{kind.label} is being checked. Try again in a few seconds.")
    return passed(check, f"{kind.label}: {account.sentence}")


def _unknown_type(facts: RentedFacts) -> Finding:
    if not facts.is_catalog_known:
        return refused(Check.STOCK, "RunPod's offers are not known yet. Try again in a few seconds.")
    chosen = facts.placement.gpu_types[0] if facts.placement.gpu_types else "no GPU"
    way = "Choose another one" if facts.is_answering else "Configure another run with one of the list"
    return refused(Check.STOCK, f"RunPod no longer offers {chosen}. {way}.")


def _check_stock(facts: RentedFacts, judged: Judged, name: str) -> Finding:
    if judged.problem is Problem.NO_STOCK and facts.placement.wait:
        hours = facts.placement.wait / timedelta(hours=1)
        return warned(Check.STOCK, f"{judged.sentence} The launch waits for one, up to {hours:g} h.")
    if judged.problem in {Problem.NO_STOCK, Problem.TOO_MANY, Problem.OLD_DRIVERS}:
        return refused(Check.STOCK, f"{name} cannot be had: {judged.sentence}")
    if judged.stock is Stock.UNKNOWN:
        return warned(Check.STOCK, f"RunPod does not tell whether {name} is in stock. The launch asks for it.")
    where = f" in {facts.wanted.data_center}" if facts.wanted.data_center else ""
    return passed(Check.STOCK, f"{name} is in stock{where} ({judged.stock.value}). That can change within a minute.")


def _check_price(facts: RentedFacts, judged: Judged, name: str) -> Finding:
    limit = facts.wanted.limit
    if judged.rate > limit:
        return refused(
            Check.PRICE, f"{name} costs {judged.rate}, and the limit is {limit}. Raise it or choose another."
        )
    return passed(Check.PRICE, f"{name} costs {judged.rate}; the limit is {limit}.")


def _check_memory(facts: RentedFacts, judged: Judged) -> Finding:
    needed, have = facts.wanted.memory or 0, judged.offer.memory_bytes
    what, way = ("Answering", "") if facts.is_answering else ("Training", " or QLoRA")
    sentence = f"{what} needs about {gib(needed)} on each GPU; {judged.offer.label} has {gib(have)}."
    if needed > have:
        return refused(Check.MEMORY, f"{sentence} Choose a larger one{way}.")
    return passed(Check.MEMORY, sentence)


def _check_further(facts: RentedFacts) -> list[Finding]:
    """The other choices: each must do for the run and keep within its limit, whatever is in stock now."""
    if not facts.further:
        return []
    for name, one in zip(facts.placement.gpu_types[1:], facts.further, strict=True):
        if one is None:
            return [refused(Check.STOCK, f"RunPod no longer offers {name}, a further choice. Configure another run.")]
        if one.problem not in (None, Problem.NO_STOCK):
            sentence = f"{one.offer.label} cannot be a further choice of this run. {one.sentence}"
            return [refused(Check.PRICE if one.problem is Problem.TOO_DEAR else Check.GPU, sentence)]
    said = ", ".join(f"{one.offer.label} at {one.rate}" for one in facts.further if one)
    return [passed(Check.GPU, f"Where it cannot be had, these are asked for in turn: {said}.")]


def _check_budget(facts: RentedFacts, cap: Money) -> Finding:
    left = facts.budget.left
    if left is None:
        return passed(Check.BUDGET, f"The project has no monthly budget. Cap (est.): {cap}.")
    words = f"Cap (est.) is {cap}; {left} of the project's {facts.budget.limit} are left this month"
    if cap > left:
        return refused(Check.BUDGET, f"{words}. Lower the maximum runtime, or ask an admin to raise the budget.")
    return passed(Check.BUDGET, f"{words}.")


def limit_that_fits(facts: RentedFacts) -> str | None:
    """What one press raises the limit to; None where the price is not what refuses."""
    judged = facts.judged
    return raised_limit(judged.rate) if judged is not None and judged.rate > facts.wanted.limit else None
