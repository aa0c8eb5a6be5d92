"""What a machine's report means for its evaluation."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from tensorant_app.domain.evaluations import (
    KEEPS_MACHINE,
    LIFECYCLE,
    EvaluationFacts,
    EvaluationReason,
    EvaluationState,
    decide,
)
from tensorant_app.domain.machines import MachineReason, MachineState
from tensorant_app.domain.runs import CHECKPOINT_TIME, Work
from tensorant_app.domain.steps import Cause

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
RUNNING = EvaluationFacts(
    state=EvaluationState.RUNNING,
    machine=MachineState.HELD,
    machine_reason=None,
    machine_sentence=None,
    work=Work.TRAINING,
    failure=None,
    losses=0,
    deadline=NOON + timedelta(hours=1),
    are_answers_verified=None,
)
LOST = {"machine": MachineState.RELEASING, "machine_reason": MachineReason.LOST}


def path(facts: EvaluationFacts, now: datetime = NOON) -> list[str]:
    verbs = []
    while move := decide(facts, now):
        verbs.append(move.verb)
        facts = replace(facts, state=LIFECYCLE.next_state(facts.state, move.verb, Cause.WORKER))
    return verbs


@pytest.mark.parametrize("state", EvaluationState)
def test_no_report_leads_to_a_step_the_table_forbids(state: EvaluationState) -> None:
    machines, reasons = [None, *MachineState], [None, *MachineReason]
    for work, machine, reason, verified in product(Work, machines, reasons, [None, False, True]):
        facts = replace(
            RUNNING, state=state, work=work, machine=machine, machine_reason=reason, are_answers_verified=verified
        )
        for now in (NOON, NOON + timedelta(hours=2)):
            move = decide(facts, now)
            assert move is None or LIFECYCLE.can_step(state, move.verb, Cause.WORKER), facts
            assert move is None or state in KEEPS_MACHINE, facts


def test_answers_that_match_their_hash_complete_it() -> None:
    done = replace(RUNNING, state=EvaluationState.LAUNCHING, work=Work.DONE)

    assert path(replace(done, are_answers_verified=True)) == ["start", "finish"]
    assert path(replace(done, are_answers_verified=False)) == ["start", "fail"]
    assert path(replace(done, are_answers_verified=None)) == ["start"]


def test_it_starts_again_once_after_a_loss() -> None:
    assert path(replace(RUNNING, **LOST)) == ["lose"]

    second = decide(replace(RUNNING, losses=1, **LOST), NOON)

    assert second is not None
    assert (second.verb, second.reason) == ("fail", EvaluationReason.LOST_TWICE)


def test_it_fails_at_its_time_limit() -> None:
    assert path(RUNNING, RUNNING.deadline) == []
    assert path(RUNNING, RUNNING.deadline + CHECKPOINT_TIME) == ["fail"]
    assert path(replace(RUNNING, work=Work.OVERRUN)) == ["fail"]
