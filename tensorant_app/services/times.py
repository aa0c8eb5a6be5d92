"""What time it is, for pages, which know no database."""

from __future__ import annotations

from datetime import datetime

from tensorant_app.db import clock


def now() -> datetime:
    return clock.now()
