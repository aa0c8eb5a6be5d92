"""Which providers there are, by the name that machines carry."""

from __future__ import annotations

from tensorant_app.providers.local import LocalProvider

LOCAL = "local"

PROVIDERS = {LOCAL: LocalProvider}
