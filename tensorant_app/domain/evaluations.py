"""What an evaluation can be: scoring the base, or the base with an adapter, on rows never trained on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tensorant_app.domain.machines import BROKEN, MachineReason, MachineState
from tensorant_app.domain.runs import CHECKPOINT_TIME, Work
from tensorant_app.domain.steps import Cause, Lifecycle, Move, step


class EvaluationState(StrEnum):
    QUEUED = "queued"
    LAUNCHING = "launching"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class EvaluationKind(StrEnum):
    BASELINE = "baseline"
    ADAPTER = "adapter"


class EvaluationReason(StrEnum):
    NO_CAPACITY = "no_capacity"
    DENIED = "denied"
    BUSY = "busy"
    MACHINE_FAILED = "machine_failed"
    PRICE = "price"
    NO_LAUNCH = "no_launch"
    MACHINE_LOST = "machine_lost"
    LOST_TWICE = "lost_twice"
    DEADLINE = "deadline"
    TRAINER_FAILED = "trainer_failed"
    ANSWERS_UNVERIFIED = "answers_unverified"
    BY_MEMBER = "by_member"


_FAILED = EvaluationReason.MACHINE_FAILED
_REFUSALS: dict[MachineReason | None, EvaluationReason] = {
    MachineReason.NO_CAPACITY: EvaluationReason.NO_CAPACITY,
    MachineReason.BUSY: EvaluationReason.BUSY,
}
_S = EvaluationState
_LIVE = frozenset({_S.QUEUED, _S.LAUNCHING, _S.RUNNING})

LIFECYCLE = Lifecycle(
    noun="evaluation",
    states=EvaluationState,
    steps={
        "create": step((), _S.QUEUED, Cause.MEMBER, Cause.WORKER),
        "ask": step({_S.QUEUED}, _S.LAUNCHING),
        "start": step({_S.LAUNCHING}, _S.RUNNING),
        "finish": step({_S.RUNNING}, _S.COMPLETED),
        "lose": step({_S.LAUNCHING, _S.RUNNING}, _S.QUEUED),
        "wait": step({_S.LAUNCHING}, _S.QUEUED),
        "fail": step(_LIVE, _S.FAILED),
        "cancel": step(_LIVE, _S.CANCELLED, Cause.MEMBER, Cause.OPERATOR),
    },
    final=frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELLED}),
)

KEEPS_MACHINE = frozenset({_S.LAUNCHING, _S.RUNNING})
"""Entering any other state asks for the machine's release in the same transaction."""


@dataclass(frozen=True, slots=True)
class EvaluationFacts:
    """An evaluation and its current attempt's machine, as one look found them."""

    state: EvaluationState
    machine: MachineState | None
    machine_reason: MachineReason | None
    machine_sentence: str | None
    work: Work
    failure: str | None
    losses: int
    deadline: datetime
    are_answers_verified: bool | None
    answers_trouble: str | None = None
    """Why they could not be looked at, where they were not taken for that."""
    waits_for_capacity: bool = False
    """A refused machine is asked for again later, as another one."""


def decide(facts: EvaluationFacts, now: datetime) -> Move | None:
    """The next step of an evaluation that has a machine; None to keep watching."""
    if facts.state not in KEEPS_MACHINE or facts.machine is None:
        return None
    if facts.state is _S.LAUNCHING and facts.work is not Work.NONE:
        return Move("start")
    if facts.work is Work.NONE and facts.machine is MachineState.ABSENT:
        return _not_given(facts)
    match facts.work:
        case Work.DONE:
            return _finish(facts)
        case Work.FAILED:
            return Move(
                "fail", EvaluationReason.TRAINER_FAILED, facts.failure or "The evaluation failed; read its logs."
            )
        case Work.OVERRUN:
            return _out_of_time()
    if facts.machine_reason in BROKEN and facts.machine is not MachineState.HELD:
        reason = EvaluationReason.PRICE if facts.machine_reason is MachineReason.TOO_DEAR else _FAILED
        return Move("fail", reason, facts.machine_sentence or "The machine did not start.")
    is_lost = facts.machine_reason is MachineReason.LOST or facts.work in {Work.STOPPED, Work.PAUSED}
    if is_lost or facts.machine in {MachineState.RELEASED, MachineState.ABSENT}:
        return _lost(facts)
    patience = timedelta(0) if facts.work is Work.NONE else CHECKPOINT_TIME
    return _out_of_time() if now >= facts.deadline + patience else None


def _not_given(facts: EvaluationFacts) -> Move:
    """The provider refused the machine, or it never came."""
    reason = _REFUSALS.get(facts.machine_reason, EvaluationReason.DENIED)
    is_passing = reason is not EvaluationReason.DENIED
    verb = "wait" if is_passing and facts.waits_for_capacity else "fail"
    return Move(verb, reason, facts.machine_sentence or "The provider gave no machine.")


def _finish(facts: EvaluationFacts) -> Move | None:
    if facts.are_answers_verified is None:
        return None
    if facts.are_answers_verified:
        return Move("finish")
    sentence = "The answers do not match their hash. Evaluate again."
    if facts.answers_trouble:
        sentence = f"{facts.answers_trouble} Evaluate again when that is mended."
    return Move("fail", EvaluationReason.ANSWERS_UNVERIFIED, sentence)


def _lost(facts: EvaluationFacts) -> Move:
    if facts.losses >= 1:
        return Move("fail", EvaluationReason.LOST_TWICE, "The machine was lost for the second time. Evaluate again.")
    return Move(
        "lose", EvaluationReason.MACHINE_LOST, "The machine was lost. The evaluation starts again on another one."
    )


def _out_of_time() -> Move:
    return Move(
        "fail", EvaluationReason.DEADLINE, "The evaluation reached its time limit. Evaluate again with a longer one."
    )
