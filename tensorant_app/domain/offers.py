"""Which of the machines on offer can train a run: why each other one cannot, and which are the sensible ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tensorant_app.domain.gpus import AMD64, describe_gpu
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.readiness import gib

MIN_CUDA = "12.8"
"""The trainer image's own CUDA: an older driver starts the container for ever, and bills it."""
_LEAST_CAPABILITY = (8, 0)
"""Ampere."""
_RECOMMENDED = 3
_SPARE = 1.2
"""A recommended one has a fifth of memory to spare for what context and batch add."""


class Stock(StrEnum):
    """How likely a machine type is to be had now, in the provider's coarse words."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine type that could be rented."""

    gpu_type: str
    """The provider's own id."""
    label: str
    memory_bytes: int
    """Of one GPU; on this computer what a new process could use now."""
    rate: HourlyRate
    """Of one GPU; the machine costs `rate * count`."""
    reason: str | None = None
    """Why it cannot be chosen, as a sentence; None where it can."""
    max_count: int = 1
    """GPUs of this type in one machine."""
    stock: Stock = Stock.UNKNOWN
    """In the best data center."""
    data_centers: Mapping[str, Stock] = field(default_factory=dict)
    arch: str = AMD64
    """Of the host's processor: amd64 or arm64."""
    is_nvidia: bool = True
    """As the provider tells; a name that says another maker outweighs it."""
    capability: str = ""
    """CUDA compute capability such as 8.9; empty where not known."""
    cuda_versions: Sequence[str] = ()
    """That some host offers now; empty where not told."""


class Problem(StrEnum):
    """Why a machine type cannot be chosen."""

    AMD = "amd"
    ARM64 = "arm64"
    TOO_OLD = "too_old"
    SWITCHED_OFF = "switched_off"
    OLD_DRIVERS = "old_drivers"
    TOO_SMALL = "too_small"
    TOO_MANY = "too_many"
    TOO_DEAR = "too_dear"
    NO_STOCK = "no_stock"


NEVER = frozenset({Problem.AMD, Problem.ARM64, Problem.TOO_OLD, Problem.SWITCHED_OFF})
"""No other count, limit or day changes it: a draft with one of these is not saved."""


@dataclass(frozen=True, slots=True)
class SwitchedOff:
    """The operator's word on a machine type: plan, beta or policy, and whom to ask."""

    sentence: str
    contact: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run asks of its machine."""

    count: int
    limit: HourlyRate
    """For the whole machine."""
    memory: int | None
    """Bytes on each GPU; None where the base model is not known."""
    data_center: str | None
    """Where the network volume lies; None: anywhere."""
    last_type: str | None = None
    """What the last similar run that was completed used."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An offer with the verdict on it."""

    offer: Offer
    rate: HourlyRate
    """Of the whole machine."""
    stock: Stock
    """In the data center that counts."""
    problem: Problem | None = None
    sentence: str = ""
    """Why it cannot be chosen, and what to do."""
    why: str = ""
    """Why it is recommended; empty where it is not."""


def judge_all(offers: Sequence[Offer], wanted: Wanted, off: Mapping[str, SwitchedOff]) -> list[Judged]:
    """Those that could start now first, recommended ones in front, then by price; the others behind them."""
    judged = [judge(offer, wanted, off) for offer in offers]
    reasons = _recommend(judged, wanted)
    marked = [_with_reason(one, reasons.get(one.offer.gpu_type, "")) for one in judged]
    return sorted(marked, key=lambda one: _place(one, wanted))


def judge(offer: Offer, wanted: Wanted, off: Mapping[str, SwitchedOff]) -> Judged:
    rate, stock = offer.rate * wanted.count, stock_in(offer, wanted.data_center)
    found = _lasting_problem(offer, off) or _present_problem(offer, wanted, rate, stock)
    problem, sentence = found or (None, "")
    return Judged(offer, rate, stock, problem, sentence)


def stock_in(offer: Offer, data_center: str | None) -> Stock:
    """Where the provider tells of data centers at all, one that is not named has none."""
    if data_center is None or not offer.data_centers:
        return offer.stock
    return offer.data_centers.get(data_center, Stock.NONE)


def is_arm(offer: Offer) -> bool:
    return offer.arch != AMD64 or describe_gpu(offer.gpu_type).arch != AMD64


def _lasting_problem(offer: Offer, off: Mapping[str, SwitchedOff]) -> tuple[Problem, str] | None:
    if not (offer.is_nvidia and describe_gpu(offer.gpu_type).is_nvidia):
        return Problem.AMD, "The trainer needs an NVIDIA GPU; this one is another maker's."
    if is_arm(offer):
        return Problem.ARM64, "Its processor is arm64; the trainer's image is made for x86-64."
    if (have := _version(offer.capability)) and have < _LEAST_CAPABILITY:
        return Problem.TOO_OLD, "It is older than NVIDIA Ampere, which training needs."
    if (word := off.get(offer.gpu_type)) is not None:
        contact = f" Ask: {word.contact}" if word.contact else ""
        return Problem.SWITCHED_OFF, f"{word.sentence}{contact}"
    return None


def _present_problem(offer: Offer, wanted: Wanted, rate: HourlyRate, stock: Stock) -> tuple[Problem, str] | None:
    if offer.cuda_versions and max(map(_version, offer.cuda_versions)) < _version(MIN_CUDA):
        return (
            Problem.OLD_DRIVERS,
            f"Its hosts' drivers end at CUDA {max(offer.cuda_versions, key=_version)}; {MIN_CUDA} is needed.",
        )
    if wanted.memory is not None and offer.memory_bytes < wanted.memory:
        return (
            Problem.TOO_SMALL,
            f"{gib(wanted.memory)} are needed on each GPU; it has {gib(offer.memory_bytes)}.",
        )
    if wanted.count > offer.max_count:
        return Problem.TOO_MANY, f"At most {offer.max_count} of these fit in one machine."
    if rate > wanted.limit:
        return Problem.TOO_DEAR, f"{rate} is above the limit of {wanted.limit}."
    if stock is Stock.NONE:
        where = f" in {wanted.data_center}" if wanted.data_center else ""
        return Problem.NO_STOCK, f"None is free{where} now. Try later, another type{_or_fewer(wanted)}."
    if offer.reason:
        return Problem.NO_STOCK, offer.reason
    return None


def _or_fewer(wanted: Wanted) -> str:
    return " or fewer GPUs" if wanted.count > 1 else ""


def _recommend(judged: Sequence[Judged], wanted: Wanted) -> dict[str, str]:
    """Type → why, for the cheapest that have memory to spare; what worked last time first."""
    roomy = [one for one in judged if one.problem is None and _is_roomy(one.offer, wanted)]
    cheapest = sorted(roomy, key=lambda one: one.rate)[:_RECOMMENDED]
    reasons = {one.offer.gpu_type: "Among the three cheapest with a fifth of memory to spare" for one in cheapest}
    if cheapest:
        reasons[cheapest[0].offer.gpu_type] = "The cheapest with a fifth of memory to spare"
    if any(one.offer.gpu_type == wanted.last_type and one.problem is None for one in judged):
        reasons[str(wanted.last_type)] = "The last completed run like this one used it"
    return reasons


def _is_roomy(offer: Offer, wanted: Wanted) -> bool:
    return wanted.memory is None or offer.memory_bytes >= wanted.memory * _SPARE


def _with_reason(one: Judged, why: str) -> Judged:
    return replace(one, why=why)


def _place(one: Judged, wanted: Wanted) -> tuple[bool, bool, bool, HourlyRate, str]:
    is_last = one.offer.gpu_type == wanted.last_type
    return one.problem is not None, not one.why, not is_last, one.rate, one.offer.gpu_type


def _version(text: str) -> tuple[int, ...]:
    """ "12.8" → (12, 8); empty where nothing is known."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
