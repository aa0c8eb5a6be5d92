"""The groups in which people look for runs: alive, waiting for a person, drafts, ended."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tensorant_app.domain.runs import RunState as S


class RunGroup(StrEnum):
    ALL = "all"
    LIVE = "live"
    NEEDS_YOU = "needs_you"
    DRAFTS = "drafts"
    ENDED = "ended"


STATES: Mapping[RunGroup, frozenset[S]] = {
    RunGroup.ALL: frozenset(S),
    RunGroup.LIVE: frozenset({S.QUEUED, S.LAUNCHING, S.PREPARING, S.TRAINING, S.PACKAGING, S.EVALUATING}),
    RunGroup.NEEDS_YOU: frozenset({S.PAUSED, S.NEEDS_RECOVERY}),
    RunGroup.DRAFTS: frozenset({S.DRAFT}),
    RunGroup.ENDED: frozenset({S.ADAPTER_READY, S.COMPLETED, S.NO_GAIN, S.FAILED, S.REFUSED, S.CANCELLED}),
}
"""Every state stands in `ALL` and in one of the others. A run whose launch is being checked needs somebody as well."""
