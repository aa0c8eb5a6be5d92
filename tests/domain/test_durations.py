"""Spans in words, and the phases of a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tensorant_app.domain.durations import phase_times, say_seconds
from tensorant_app.domain.runs import RunState

NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (5280, "1 h 28")]
)
def test_a_span_is_said_in_whole_units(seconds: float, said: str) -> None:
    assert say_seconds(seconds) == said


def phases(*states: RunState) -> dict[str, tuple[str, float | None]]:
    changes = [(NOON + timedelta(minutes=n), state) for n, state in enumerate(states)]
    found = phase_times(changes, NOON + timedelta(minutes=len(states)))
    return {phase.state.value: (phase.stand, phase.seconds) for phase in found}


def test_a_run_that_trains_has_its_earlier_phases_behind_it() -> None:
    found = phases(RunState.QUEUED, RunState.LAUNCHING, RunState.PREPARING, RunState.TRAINING)

    assert found["preparing"] == ("done", 60.0)
    assert found["training"] == ("now", 60.0)
    assert found["packaging"] == ("todo", None)


@pytest.mark.parametrize(
    ("state", "stand"), [(RunState.FAILED, "fail"), (RunState.NEEDS_RECOVERY, "stop"), (RunState.CANCELLED, "end")]
)
def test_where_it_stopped_is_marked(state: RunState, stand: str) -> None:
    assert phases(RunState.QUEUED, RunState.LAUNCHING, state)["launching"] == (stand, 60.0)


def test_both_attempts_count_together() -> None:
    found = phases(RunState.QUEUED, RunState.LAUNCHING, RunState.QUEUED, RunState.LAUNCHING)

    assert found["queued"] == ("done", 120.0)
    assert found["launching"] == ("now", 120.0)


def test_a_draft_has_no_phase_behind_it() -> None:
    assert {stand for stand, _ in phases(RunState.DRAFT).values()} == {"todo"}
