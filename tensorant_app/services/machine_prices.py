"""Since when a machine costs how much: a price that changes leaves what was spent before as it was."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tensorant_app.db.machines import Machine
from tensorant_app.domain.machines import MachineState, Presence, Sighting
from tensorant_app.domain.money import FREE, ZERO, HourlyRate, Money
from tensorant_app.domain.spend import own_disk_rate
from tensorant_app.providers.base import Storage

RUNS_AGAIN = "Somebody started it again in RunPod: it costs its price until it is stopped again, an hour after that."


_STILL = frozenset({Presence.EXITED, Presence.STOPPED, Presence.GONE})
"""It computes no more, whoever stopped it: a disk of its own is all that is billed."""


def note_price(row: Machine, seen: Sighting, was: Presence | None) -> None:
    """One look's word on what it costs, with all that bear its name. `was` is how it was seen before.

    A stopped machine says zero, and so does one that does not know yet: the last real price stays.
    """
    before, is_offer = _now(row), row.state is MachineState.ASKED and not row.prices
    own = seen.rate if seen.rate is not None and seen.rate.per_hour else row.rate
    if is_offer and seen.twins_rate is None:
        row.rate = own
        return
    earlier = _told(row)
    row.rate = own
    if own is None:
        return
    is_still = seen.presence in _STILL or (row.stopped_at is not None and seen.presence is not Presence.PRESENT)
    total = HourlyRate(
        (_disk(row) if is_still else own).per_hour + (seen.twins_rate.per_hour if seen.twins_rate else ZERO)
    )
    if total != before:
        row.prices = [*earlier, _line(seen.at, total)]
    if row.state is MachineState.STOPPED and seen.presence is not was:
        row.sentence = None if is_still else RUNS_AGAIN


def note_stopped(row: Machine, at: datetime) -> None:
    """From here on it is its disk alone."""
    if row.prices:
        row.prices = [*row.prices, _line(at, _disk(row))]


def prices_of(row: Machine) -> Sequence[tuple[datetime, HourlyRate]]:
    return [(datetime.fromisoformat(at), HourlyRate(Money(micros))) for at, micros in row.prices]


def _now(row: Machine) -> HourlyRate | None:
    """What it is believed to cost before this look."""
    told = _told(row)
    return HourlyRate(Money(told[-1][1])) if told else None


def _told(row: Machine) -> list[list[Any]]:
    """The prices so far; of a row without any, what its own times say."""
    if row.prices or row.rate is None or row.ask_sent_at is None:
        return list(row.prices)
    began = [_line(row.ask_sent_at, row.rate)]
    return [*began, _line(row.stopped_at, _disk(row))] if row.stopped_at is not None else began


def _disk(row: Machine) -> HourlyRate:
    """On a network volume it has none that is kept."""
    if Storage(row.options.get("storage", Storage.VOLUME)) is Storage.VOLUME and row.stopped_at is None:
        return FREE
    return own_disk_rate(int(row.options.get("disk_gb", 0)))


def _line(at: datetime, rate: HourlyRate) -> list[Any]:
    return [at.isoformat(), rate.per_hour.micros]
