"""Which faults of the provider strike a history: how often each, where, and for how long."""

from __future__ import annotations

import random
from collections.abc import Mapping

from tests.runpod_emulator import Fault
from tests.runpod_emulator.faults import Faults

_OPERATIONS = (
    "pods.create",
    "pods.create",
    "pods.create",
    "pods.list",
    "pods.list",
    "pods.delete",
    "billing.pods",
    "gpus.list",
)
_OFTEN = {
    Fault.ANSWER_LOST: 3,
    Fault.ERROR_AFTER: 3,
    Fault.HIDDEN: 2,
    Fault.TWIN: 6,
    Fault.HOST_LOST: 2,
    Fault.CRASHED: 2,
    Fault.RESTARTED: 2,
    Fault.DELETE_DENIED: 4,
    Fault.NO_MONEY: 0.6,
    Fault.KEY_REVOKED: 0.3,
}
"""How much more often than the others: those that cost most where they are got wrong."""
WITH_OWN_DISKS = {Fault.STOP_REFUSED: 8, Fault.NO_STOP: 4}
"""Where machines keep their files to themselves they are stopped; elsewhere they are deleted."""
WHERE_THEY_DELETE_THEMSELVES = {Fault.SELF_DELETE_REFUSED: 10}
_AMID = (65, 85, 105, 125, 240)
"""Seconds after a machine's creation: it prepares, is between two checkpoints, packs, or has ended its work."""
_LASTS = {
    **dict.fromkeys((Fault.HOST_LOST, Fault.HOST_ERROR, Fault.CRASHED, Fault.RESTARTED, Fault.DELETED_BY_HAND), _AMID),
    # It may come back long after it was proved gone.
    Fault.DELETE_DENIED: (90, 90, 400, 1500),
}
"""Seconds, where a fault of another length is another fault."""


def arm_some(draw: random.Random, faults: Faults, here: Mapping[Fault, float]) -> list[str]:
    """At once or after a few fitting moments; faults that strike everywhere at one of many places. What was armed.

    `here`: how often those come that this history can meet and most others cannot.
    """
    told = []
    odds = _OFTEN | dict(here)
    for fault in draw.choices(list(Fault), [odds.get(fault, 1) for fault in Fault], k=draw.choice([1, 2, 3])):
        on = None
        if fault.value.effect.startswith("*") and not fault.value.on.startswith("s3"):
            on = draw.choice(_OPERATIONS)
        seconds = draw.choice(_LASTS[fault]) if fault in _LASTS else None
        faults.arm(fault, on=on, seconds=seconds, skip=draw.choice([0, 0, 0, 1, 3]))
        told.append(f"  armed {fault.name} on {on or fault.value.on}")
    return told
