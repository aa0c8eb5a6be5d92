"""Which providers and stores there are, by the name that settings and machines carry."""

from __future__ import annotations

from collections.abc import Callable

from tensorant_app.domain.connections import LOCAL, RUNPOD
from tensorant_app.providers import runpod
from tensorant_app.providers.base import FileStore, Provider
from tensorant_app.providers.local import LocalProvider
from tensorant_app.providers.storage_s3 import connect_volume

PROVIDERS: dict[str, Callable[..., Provider]] = {LOCAL: LocalProvider, RUNPOD: runpod.connect}
"""This computer: interpreter, folder, installation. RunPod: API key, installation."""

STORES: dict[str, Callable[..., FileStore]] = {RUNPOD: connect_volume}
"""RunPod: access key, secret key, data center, volume id."""
