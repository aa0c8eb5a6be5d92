"""What a machine's report means for its run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from tensorant_app.domain.machines import MachineReason, MachineState
from tensorant_app.domain.runs import (
    CHECKPOINT_TIME,
    KEEPS_MACHINE,
    LIFECYCLE,
    PAUSE_PATIENCE,
    RunFacts,
    RunReason,
    RunState,
    Work,
    decide,
)
from tensorant_app.domain.steps import Cause

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
AT_WORK = RunFacts(
    state=RunState.TRAINING,
    machine=MachineState.HELD,
    machine_reason=None,
    machine_sentence=None,
    work=Work.TRAINING,
    failure=None,
    losses=0,
    deadline=NOON + timedelta(hours=1),
    has_time_left=True,
    waits_for_capacity=False,
    wants_pause=False,
    is_adapter_verified=None,
)
LOST = {"machine": MachineState.RELEASING, "machine_reason": MachineReason.LOST}


def path(facts: RunFacts, now: datetime = NOON) -> list[str]:
    """The verbs taken one after the other, as the job takes them."""
    verbs = []
    while move := decide(facts, now):
        verbs.append(move.verb)
        facts = replace(facts, state=LIFECYCLE.next_state(facts.state, move.verb, Cause.WORKER))
    return verbs


@pytest.mark.parametrize("state", RunState)
def test_no_report_leads_to_a_step_the_table_forbids(state: RunState) -> None:
    machines, reasons = [None, *MachineState], [None, *MachineReason]
    for work, machine, reason, losses, flags in product(Work, machines, reasons, [0, 1], range(8)):
        facts = replace(
            AT_WORK,
            state=state,
            work=work,
            machine=machine,
            machine_reason=reason,
            losses=losses,
            has_time_left=bool(flags & 1),
            wants_pause=bool(flags & 2),
            is_adapter_verified=bool(flags & 4),
        )
        for now in (NOON, NOON + timedelta(hours=2)):
            move = decide(facts, now)
            assert move is None or LIFECYCLE.can_step(state, move.verb, Cause.WORKER), facts


@pytest.mark.parametrize("work", [work for work in Work if work is not Work.NONE])
@pytest.mark.parametrize("losses", [0, 1])
def test_the_steps_of_one_look_come_to_an_end(work: Work, losses: int) -> None:
    for state in KEEPS_MACHINE:
        facts = replace(AT_WORK, state=state, work=work, losses=losses, is_adapter_verified=True)

        assert len(path(facts)) <= len(RunState)


def test_a_finished_machine_walks_a_launching_run_to_its_adapter() -> None:
    facts = replace(AT_WORK, state=RunState.LAUNCHING, work=Work.DONE, is_adapter_verified=True)

    assert path(facts) == ["prepare", "train", "package", "ready"]


@pytest.mark.parametrize(
    "facts",
    [
        {"work": Work.OVERRUN},
        {"deadline": NOON - CHECKPOINT_TIME},
        {**LOST, "has_time_left": False},
        {"state": RunState.PACKAGING, "work": Work.DONE, "is_adapter_verified": False},
    ],
    ids=["overrun", "deadline", "lost", "torn adapter"],
)
def test_a_trial_has_nothing_to_recover_so_it_has_failed(facts: dict[str, Any]) -> None:
    trial = replace(AT_WORK, is_trial=True, **facts)

    assert path(trial) == ["fail"]
    assert path(replace(trial, is_trial=False)) in (["overrun"], ["stick"])


def test_an_adapter_that_does_not_match_its_manifest_needs_recovery() -> None:
    facts = replace(AT_WORK, work=Work.DONE, is_adapter_verified=False)

    assert path(facts) == ["package", "stick"]


def test_a_result_counts_even_when_its_machine_is_gone() -> None:
    facts = replace(AT_WORK, work=Work.DONE, is_adapter_verified=True, **LOST)

    assert path(facts) == ["package", "ready"]


def test_the_first_loss_queues_the_next_attempt_and_the_second_fails() -> None:
    assert path(replace(AT_WORK, **LOST)) == ["lose"]

    second = decide(replace(AT_WORK, losses=1, **LOST), NOON)

    assert second is not None
    assert (second.verb, second.reason) == ("fail", RunReason.LOST_TWICE)


def test_a_loss_without_time_for_another_attempt_is_left_to_a_person() -> None:
    assert path(replace(AT_WORK, has_time_left=False, **LOST)) == ["overrun"]
    move = decide(
        replace(AT_WORK, has_time_left=False, where=" at step 3 of 9", **LOST), AT_WORK.deadline - timedelta(hours=1)
    )
    assert move is not None
    assert "disappeared at step 3 of 9" in (move.sentence or "")
    assert path(replace(AT_WORK, state=RunState.LAUNCHING, work=Work.NONE, has_time_left=False, **LOST)) == ["fail"]


def test_a_loss_while_a_pause_is_wanted_pauses() -> None:
    assert path(replace(AT_WORK, wants_pause=True, **LOST)) == ["pause"]


def test_a_trainer_that_was_stopped_from_outside_is_a_loss() -> None:
    assert path(replace(AT_WORK, work=Work.STOPPED)) == ["lose"]


def test_a_trainers_failure_is_shown_in_its_own_words() -> None:
    move = decide(replace(AT_WORK, work=Work.FAILED, failure="The loss was not finite."), NOON)

    assert move is not None
    assert (move.verb, move.sentence) == ("fail", "The loss was not finite.")


@pytest.mark.parametrize(
    ("reason", "waits", "verb"),
    [
        (MachineReason.NO_CAPACITY, True, "wait"),
        (MachineReason.NO_CAPACITY, False, "fail"),
        (MachineReason.DENIED, True, "fail"),
    ],
)
def test_a_refused_machine(reason: MachineReason, waits: bool, verb: str) -> None:
    facts = replace(
        AT_WORK,
        state=RunState.LAUNCHING,
        work=Work.NONE,
        machine=MachineState.ABSENT,
        machine_reason=reason,
        machine_sentence="No.",
        waits_for_capacity=waits,
    )

    move = decide(facts, NOON)

    assert move is not None
    assert (move.verb, move.sentence) == (verb, "No.")


def test_the_consoles_own_deadline_needs_nobodys_report() -> None:
    late = AT_WORK.deadline

    assert path(replace(AT_WORK, state=RunState.LAUNCHING, work=Work.NONE), late) == ["fail"]
    assert path(AT_WORK, late) == [], "a trainer that was heard has time for its last checkpoint"
    assert path(AT_WORK, late + CHECKPOINT_TIME) == ["overrun"]


def test_nothing_new_means_no_step() -> None:
    assert path(AT_WORK) == []


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (MachineReason.NOT_STARTED, RunReason.MACHINE_FAILED),
        (MachineReason.RESTARTED, RunReason.MACHINE_FAILED),
        (MachineReason.TOO_DEAR, RunReason.PRICE),
    ],
)
@pytest.mark.parametrize("machine", [MachineState.RELEASING, MachineState.RELEASE_FAILED, MachineState.RELEASED])
def test_a_machine_that_is_itself_at_fault_is_not_tried_again(
    reason: MachineReason, expected: RunReason, machine: MachineState
) -> None:
    facts = replace(AT_WORK, machine=machine, machine_reason=reason, machine_sentence="No basic auth credentials.")

    move = decide(facts, NOON)

    assert move is not None
    assert (move.verb, move.reason, move.sentence) == ("fail", expected, "No basic auth credentials.")


def test_a_refusal_that_may_pass_waits_as_long_as_it_may() -> None:
    facts = replace(
        AT_WORK,
        state=RunState.LAUNCHING,
        work=Work.NONE,
        machine=MachineState.ABSENT,
        machine_reason=MachineReason.BUSY,
        waits_for_capacity=True,
    )

    assert path(facts) == ["wait"]
    assert path(replace(facts, waits_for_capacity=False)) == ["fail"]


def test_a_pause_waits_for_the_checkpoint_but_not_for_ever() -> None:
    facts = replace(AT_WORK, wants_pause=True, pause_wanted_at=NOON)

    assert path(facts) == []
    assert path(replace(facts, work=Work.PAUSED)) == ["pause"]
    assert path(facts, NOON + PAUSE_PATIENCE) == ["pause"]
    assert path(replace(facts, state=RunState.PACKAGING, work=Work.PACKAGING), NOON + PAUSE_PATIENCE) == []


def test_a_pause_before_anything_was_heard_needs_no_checkpoint() -> None:
    assert path(replace(AT_WORK, state=RunState.LAUNCHING, work=Work.NONE, wants_pause=True)) == ["pause"]


def test_a_loss_says_how_far_it_was() -> None:
    move = decide(replace(AT_WORK, losses=1, where=" at step 31 of 90", **LOST), NOON)

    assert move is not None
    assert move.sentence is not None
    assert "disappeared for the second time at step 31 of 90" in move.sentence
