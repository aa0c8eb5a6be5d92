"""What a rented machine writes as it works, brought home by its job, so that pages never ask a provider for it."""

from __future__ import annotations

from tensorant_app.providers.base import FileStore
from tensorant_app.services.connections import home_volume
from trainer.contract import EVENTS, LOG, METRICS, SAMPLES

_FILES = (LOG, EVENTS, METRICS, SAMPLES)
_MOST = 8 << 20
"""Bytes of each file that one look brings; the next goes on."""


def bring_home(volume: FileStore, outputs_key: str) -> None:
    """Add what is new to the copies under the same keys here. Raises what the volume raises; nothing is half written."""
    home = home_volume()
    for name in _FILES:
        key = f"{outputs_key}/{name}"
        there, here = volume.size(key), home.size(key) or 0
        if there is None or there == here:
            continue
        # A shorter file is another one: its container began again on an empty disk.
        start = here if there > here else 0
        with volume.open(key, start, _MOST) as file:
            home.write_on(key, start, file.read(_MOST))
