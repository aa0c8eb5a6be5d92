"""The state tables: complete, connected, and without a trap that keeps a machine."""

from __future__ import annotations

from enum import StrEnum

import pytest

from tensorant_app.domain import deployments, evaluations, imports, machines, runs, versions
from tensorant_app.domain.errors import Conflict
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.runs import RunState
from tensorant_app.domain.steps import Cause, Lifecycle

LIFECYCLES: list[Lifecycle] = [
    machines.LIFECYCLE,
    runs.LIFECYCLE,
    evaluations.LIFECYCLE,
    deployments.LIFECYCLE,
    versions.LIFECYCLE,
    imports.LIFECYCLE,
]
every_lifecycle = pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda lifecycle: lifecycle.noun)

RUN_STEPS = """
enqueue draft>queued MEMBER
return queued>draft WORKER
hold queued>paused WORKER
refuse queued>refused WORKER
launch queued>launching WORKER
wait launching>queued WORKER
prepare launching>preparing WORKER
train preparing>training WORKER
package training>packaging WORKER
ready packaging,needs_recovery>adapter_ready WORKER
lose launching,preparing,training,packaging>queued WORKER
pause launching,preparing,training>paused MEMBER,WORKER
resume paused>queued MEMBER,WORKER
overrun preparing,training,packaging>needs_recovery WORKER
stick packaging>needs_recovery WORKER
extend needs_recovery>queued MEMBER
evaluate adapter_ready>evaluating WORKER
unscore evaluating>adapter_ready WORKER
pass evaluating>completed WORKER
no_gain evaluating>no_gain WORKER
finish_trial adapter_ready>completed WORKER
fail queued,launching,preparing,training,packaging>failed WORKER
cancel queued,launching,preparing,training,paused,packaging,needs_recovery>cancelled MEMBER,OPERATOR
"""
MACHINE_STEPS = """
ask >asked WORKER
appear asked>held WORKER
catch asked>releasing WORKER
deny asked>absent WORKER
confirm_absent asked>absent MEMBER
stop held>stopped WORKER
release held,stopped>releasing WORKER
lose held,stopped>releasing WORKER
stick releasing>release_failed WORKER
retry release_failed>releasing MEMBER
confirm releasing,release_failed>released WORKER
reappear released,absent>releasing WORKER
"""
EVALUATION_STEPS = """
create >queued MEMBER,WORKER
ask queued>launching WORKER
start launching>running WORKER
finish running>completed WORKER
lose launching,running>queued WORKER
wait launching>queued WORKER
fail queued,launching,running>failed WORKER
cancel queued,launching,running>cancelled MEMBER,OPERATOR
"""


def written(lifecycle: Lifecycle) -> set[tuple[str, frozenset[str], str, frozenset[str]]]:
    return {
        (verb, frozenset(s.value for s in step.sources), step.target.value, frozenset(c.name for c in step.causes))
        for verb, step in lifecycle.steps.items()
    }


def read(text: str) -> set[tuple[str, frozenset[str], str, frozenset[str]]]:
    found = set()
    for line in text.strip().splitlines():
        verb, path, causes = line.split()
        sources, target = path.split(">")
        found.add((verb, frozenset(sources.split(",")) - {""}, target, frozenset(causes.split(","))))
    return found


@pytest.mark.parametrize(
    ("lifecycle", "text"),
    [
        (runs.LIFECYCLE, RUN_STEPS),
        (machines.LIFECYCLE, MACHINE_STEPS),
        (evaluations.LIFECYCLE, EVALUATION_STEPS),
    ],
    ids=["run", "machine", "evaluation"],
)
def test_the_table_is_the_one_that_was_agreed(lifecycle: Lifecycle, text: str) -> None:
    assert written(lifecycle) == read(text)


@every_lifecycle
def test_every_state_that_is_not_final_has_a_way_out_to_an_end(lifecycle: Lifecycle) -> None:
    for state in set(lifecycle.states) - lifecycle.final:
        reached, grown = {state}, True
        while grown:
            next_ones = {s.target for s in lifecycle.steps.values() if s.sources & reached}
            grown = not next_ones <= reached
            reached |= next_ones

        assert reached & lifecycle.final, f"{state} never ends"


@every_lifecycle
def test_every_state_can_be_reached(lifecycle: Lifecycle) -> None:
    targets = {step.target for step in lifecycle.steps.values()}

    assert set(lifecycle.states) - targets <= {RunState.DRAFT} - targets


@every_lifecycle
def test_a_step_that_the_table_forbids_is_a_conflict_in_words(lifecycle: Lifecycle) -> None:
    for verb, step in lifecycle.steps.items():
        for state in lifecycle.states:
            for cause in Cause:
                if state in step.sources and cause in step.causes:
                    assert lifecycle.next_state(state, verb, cause) is step.target
                    assert lifecycle.can_step(state, verb, cause)
                else:
                    assert not lifecycle.can_step(state, verb, cause)
                    with pytest.raises(Conflict, match=lifecycle.noun):
                        lifecycle.next_state(state, verb, cause)


@pytest.mark.parametrize(
    ("lifecycle", "keeps"),
    [(runs.LIFECYCLE, runs.KEEPS_MACHINE), (evaluations.LIFECYCLE, evaluations.KEEPS_MACHINE)],
    ids=["run", "evaluation"],
)
def test_no_final_state_keeps_a_machine(lifecycle: Lifecycle, keeps: frozenset[StrEnum]) -> None:
    assert not keeps & lifecycle.final


def test_a_machine_holds_its_slot_until_it_is_proved_gone() -> None:
    assert frozenset(MachineState) - {MachineState.RELEASED, MachineState.ABSENT} == machines.HOLDS_SLOT
