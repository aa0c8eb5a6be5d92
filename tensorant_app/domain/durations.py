"""Spans of time in words, and how long each phase of a run took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tensorant_app.domain.runs import LIFECYCLE, RunState


def say_seconds(seconds: float) -> str:
    """ "34 s", "36 min", "1 h 28": whole units, rounded down."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60:02d}" if whole % 3600 >= 60 else f"{whole // 3600} h"


PHASES = (
    RunState.QUEUED,
    RunState.LAUNCHING,
    RunState.PREPARING,
    RunState.TRAINING,
    RunState.PACKAGING,
    RunState.EVALUATING,
)
_ALL_DONE = frozenset({RunState.COMPLETED, RunState.NO_GAIN})
_WAITS = frozenset({RunState.PAUSED, RunState.NEEDS_RECOVERY})


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """One phase: where it stands (done, now, todo, stop, fail, end) and how long it has taken, all attempts together."""

    state: RunState
    stand: str
    seconds: float | None
    """None where it was never reached."""


def phase_times(
    changes: Sequence[tuple[datetime, RunState]], now: datetime, *, scores: bool = True
) -> tuple[PhaseTime, ...]:
    """From the run's changes of state in their order; without `scores` there is no phase of scoring."""
    spent = _spent(changes, now)
    state = changes[-1][1] if changes else RunState.DRAFT
    reached = [change for _, change in changes if change in PHASES]
    phases = PHASES if scores else PHASES[:-1]
    return tuple(PhaseTime(phase, _stand(phase, state, reached), spent.get(phase)) for phase in phases)


def _spent(changes: Sequence[tuple[datetime, RunState]], now: datetime) -> Mapping[RunState, float]:
    spent: dict[RunState, float] = {}
    ends = [at for at, _ in changes[1:]] + [now]
    for (began, state), ended in zip(changes, ends, strict=True):
        if state not in LIFECYCLE.final:
            spent[state] = spent.get(state, 0.0) + max((ended - began).total_seconds(), 0.0)
    return spent


def _stand(phase: RunState, state: RunState, reached: Sequence[RunState]) -> str:
    if state in _ALL_DONE:
        return "done"
    if not reached:
        return "todo"
    here, at = PHASES.index(phase), PHASES.index(reached[-1])
    if here != at:
        return "done" if here < at else "todo"
    if state is phase:
        return "now"
    if state in {RunState.FAILED, RunState.REFUSED}:
        return "fail"
    if state is RunState.CANCELLED:
        return "end"
    if state is RunState.ADAPTER_READY:
        return "done" if phase is RunState.PACKAGING else "stop"
    return "stop" if state in _WAITS else "todo"
