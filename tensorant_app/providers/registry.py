"""Which providers and stores there are, by the name that settings and machines carry."""

from __future__ import annotations

from collections.abc import Callable

from tensorant_app.domain.connections import LOCAL
from tensorant_app.providers.base import FileStore, Provider
from tensorant_app.providers.local import LocalProvider

PROVIDERS: dict[str, Callable[..., Provider]] = {LOCAL: LocalProvider}
"""This computer: interpreter, folder. RunPod: API key, installation."""

STORES: dict[str, Callable[..., FileStore]] = {}
"""RunPod: access key, secret key, data center, volume id."""
