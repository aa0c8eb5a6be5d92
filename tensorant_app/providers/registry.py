"""Which providers there are, by the name that machines carry."""

from __future__ import annotations

from collections.abc import Callable

from tensorant_app.providers import runpod
from tensorant_app.providers.base import Provider
from tensorant_app.providers.local import LocalProvider

LOCAL = "local"
RUNPOD = "runpod"

PROVIDERS: dict[str, Callable[..., Provider]] = {LOCAL: LocalProvider, RUNPOD: runpod.connect}
"""This computer: interpreter, folder, installation. RunPod: API key, installation."""
