"""Once a minute every live row promises its own look again: what was lost comes back from the rows alone."""

from __future__ import annotations

from jobs import tick
from tensorant_app.db.session import unit_of_work
from tensorant_app.services import (
    accounts,
    adapter_uploads,
    connecting,
    deletions,
    evaluations,
    imports,
    leftovers,
    machines,
    offers,
    runs,
    safety,
    spend,
    versions,
)

NOUNS = (
    connecting,
    offers,
    accounts,
    machines,
    spend,
    runs,
    evaluations,
    versions,
    safety,
    imports,
    deletions,
    adapter_uploads,
    leftovers,
)


@tick.rederive
def promise_all() -> None:
    with unit_of_work() as session:
        for noun in NOUNS:
            noun.promise_all(session)
