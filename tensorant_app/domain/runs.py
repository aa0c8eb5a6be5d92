"""What a training run can be, who may move it, and what its machine's report means for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from tensorant_app.domain.machines import BROKEN, MachineReason, MachineState
from tensorant_app.domain.steps import Cause, Lifecycle, Move, step


class RunState(StrEnum):
    DRAFT = "draft"
    QUEUED = "queued"
    LAUNCHING = "launching"
    PREPARING = "preparing"
    TRAINING = "training"
    PAUSED = "paused"
    PACKAGING = "packaging"
    ADAPTER_READY = "adapter_ready"
    EVALUATING = "evaluating"
    COMPLETED = "completed"
    NO_GAIN = "no_gain"
    NEEDS_RECOVERY = "needs_recovery"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"


class RunPurpose(StrEnum):
    FULL = "full"
    TRIAL = "trial"


class AdapterUploadState(StrEnum):
    """How far a carried-over `adapter.zip` is."""

    RECEIVING = "receiving"
    CHECKING = "checking"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    CANCELLED = "cancelled"


class RunReason(StrEnum):
    """Why a run moved; shown beside its state, never instead of it."""

    CHECKS_FAILED = "checks_failed"
    SAFETY = "safety"
    NO_CAPACITY = "no_capacity"
    DENIED = "denied"
    BUSY = "busy"
    """The provider took no request; nothing was made."""
    MACHINE_FAILED = "machine_failed"
    """It never started, or its container did not stay up."""
    PRICE = "price"
    NO_LAUNCH = "no_launch"
    """A person confirmed that the machine was never rented."""
    NOT_FOUND = "not_found"
    """There is no finished adapter on the volume."""
    ON_POD = "on_pod"
    """The adapter is finished, and lies on the Pod's own disk."""
    RECOVERED = "recovered"
    MACHINE_LOST = "machine_lost"
    LOST_TWICE = "lost_twice"
    DEADLINE = "deadline"
    TRAINER_FAILED = "trainer_failed"
    ADAPTER_UNVERIFIED = "adapter_unverified"
    BY_MEMBER = "by_member"
    BY_OPERATOR = "by_operator"
    OUT_OF_CREDITS = "out_of_credits"
    EVALUATION_ENDED = "evaluation_ended"
    GATE = "gate"


_S = RunState
_M, _O, _W = Cause.MEMBER, Cause.OPERATOR, Cause.WORKER
_AT_WORK = frozenset({_S.LAUNCHING, _S.PREPARING, _S.TRAINING, _S.PACKAGING})

LIFECYCLE = Lifecycle(
    noun="run",
    states=RunState,
    steps={
        "enqueue": step({_S.DRAFT}, _S.QUEUED, _M),
        "return": step({_S.QUEUED}, _S.DRAFT),
        "hold": step({_S.QUEUED}, _S.PAUSED),
        "refuse": step({_S.QUEUED}, _S.REFUSED),
        "launch": step({_S.QUEUED}, _S.LAUNCHING),
        "wait": step({_S.LAUNCHING}, _S.QUEUED),
        "prepare": step({_S.LAUNCHING}, _S.PREPARING),
        "train": step({_S.PREPARING}, _S.TRAINING),
        "package": step({_S.TRAINING}, _S.PACKAGING),
        "ready": step({_S.PACKAGING, _S.NEEDS_RECOVERY}, _S.ADAPTER_READY),
        "lose": step(_AT_WORK, _S.QUEUED),
        "pause": step({_S.LAUNCHING, _S.PREPARING, _S.TRAINING}, _S.PAUSED, _M, _W),
        "resume": step({_S.PAUSED}, _S.QUEUED, _M, _W),
        "overrun": step({_S.PREPARING, _S.TRAINING, _S.PACKAGING}, _S.NEEDS_RECOVERY),
        "stick": step({_S.PACKAGING}, _S.NEEDS_RECOVERY),
        "extend": step({_S.NEEDS_RECOVERY}, _S.QUEUED, _M),
        "evaluate": step({_S.ADAPTER_READY}, _S.EVALUATING),
        "unscore": step({_S.EVALUATING}, _S.ADAPTER_READY),
        "pass": step({_S.EVALUATING}, _S.COMPLETED),
        "no_gain": step({_S.EVALUATING}, _S.NO_GAIN),
        "finish_trial": step({_S.ADAPTER_READY}, _S.COMPLETED),
        "fail": step({_S.QUEUED, *_AT_WORK}, _S.FAILED),
        "cancel": step({_S.QUEUED, _S.PAUSED, _S.NEEDS_RECOVERY, *_AT_WORK}, _S.CANCELLED, _M, _O),
    },
    final=frozenset({_S.COMPLETED, _S.NO_GAIN, _S.FAILED, _S.REFUSED, _S.CANCELLED}),
)

CHECKPOINT_TIME = timedelta(seconds=45)
"""What a trainer that was heard may take after its deadline to write its last checkpoint."""
PAUSE_PATIENCE = timedelta(minutes=15)
"""A trainer that has not written its checkpoint by then is paused at its last one."""

TRIAL_OVER_TIME = "The trial was not finished within its time limit. Its report holds what was measured."
ON_POD = "The adapter is finished and lies on the Pod's own disk as adapter.zip. Fetch it there and hand it in."
OVER_TIME_ON_POD = (
    "The maximum runtime was reached before the adapter was finished. The checkpoints lie on the Pod's own disk, "
    "from which no other machine can go on. Cancel the run, and launch it again with a longer limit."
)
KEEPS_MACHINE = _AT_WORK
"""Entering any other state asks for the machine's release in the same transaction."""


class Work(StrEnum):
    """How far the machine's own report says the work is."""

    NONE = "none"
    PREPARING = "preparing"
    TRAINING = "training"
    PACKAGING = "packaging"
    DONE = "done"
    FAILED = "failed"
    PAUSED = "paused"
    STOPPED = "stopped"
    OVERRUN = "overrun"


_ENDED = frozenset({Work.DONE, Work.FAILED, Work.PAUSED, Work.STOPPED, Work.OVERRUN})
_HAS_DISK = frozenset({MachineState.HELD, MachineState.STOPPED})
_REACHED_TRAINING = frozenset({Work.TRAINING, Work.PACKAGING, Work.DONE})


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run and its current attempt's machine, as one look found them."""

    state: RunState
    machine: MachineState | None
    machine_reason: MachineReason | None
    machine_sentence: str | None
    work: Work
    failure: str | None
    """The trainer's own sentence where it failed."""
    losses: int
    """Machines lost before this one."""
    deadline: datetime
    has_time_left: bool
    """Enough of the maximum runtime is left for another attempt."""
    waits_for_capacity: bool
    """A refused machine is asked for again later, as another one."""
    wants_pause: bool
    is_adapter_verified: bool | None
    """None while nobody has looked."""
    adapter_trouble: str | None = None
    """Why it could not be looked at, where it was not taken for that."""
    pause_wanted_at: datetime | None = None
    where: str = ""
    """How far it was, such as ` at step 31 of 90`."""
    is_trial: bool = False
    """Then there is nothing to recover: whatever is not finished has failed."""
    is_pod_local: bool = False
    """What it makes lies on the machine's own disk, and ends with it."""


def decide(facts: RunFacts, now: datetime) -> Move | None:
    """The next step of a run that has a machine; None to keep watching."""
    if facts.state not in KEEPS_MACHINE or facts.machine is None:
        return None
    if facts.state is _S.LAUNCHING and facts.work is not Work.NONE:
        return Move("prepare")
    if facts.work is Work.NONE and facts.machine is MachineState.ABSENT:
        return _not_given(facts)
    if facts.work in _ENDED:
        return _ended(facts)
    if facts.machine_reason in BROKEN and facts.machine is not MachineState.HELD:
        return _broken(facts)
    if facts.machine_reason is MachineReason.LOST or facts.machine in {MachineState.RELEASED, MachineState.ABSENT}:
        return _lost(facts)
    if _pauses_now(facts, now):
        return Move("pause", RunReason.BY_MEMBER)
    patience = timedelta(0) if facts.work is Work.NONE or facts.is_trial else CHECKPOINT_TIME
    if now >= facts.deadline + patience:
        return _out_of_time(facts)
    return _progress(facts)


def _pauses_now(facts: RunFacts, now: datetime) -> bool:
    """Nothing is there to be saved, or the trainer does not answer."""
    if not facts.wants_pause or facts.state is _S.PACKAGING:
        return False
    is_overdue = facts.pause_wanted_at is not None and now >= facts.pause_wanted_at + PAUSE_PATIENCE
    return facts.work is Work.NONE or is_overdue


def _broken(facts: RunFacts) -> Move:
    """Another attempt would meet the same, and would cost again: a person decides."""
    reason = RunReason.PRICE if facts.machine_reason is MachineReason.TOO_DEAR else RunReason.MACHINE_FAILED
    return Move("fail", reason, facts.machine_sentence or "The machine did not start.")


def _progress(facts: RunFacts) -> Move | None:
    match facts.state:
        case _S.PREPARING if facts.work in _REACHED_TRAINING:
            return Move("train")
        case _S.TRAINING if facts.work in {Work.PACKAGING, Work.DONE}:
            return Move("package")
        case _S.PACKAGING if facts.work is Work.DONE and facts.is_pod_local:
            return _done_on_pod(facts)
        case _S.PACKAGING if facts.work is Work.DONE and facts.is_adapter_verified is not None:
            if facts.is_adapter_verified:
                return Move("ready")
            return _unverified(facts)
    return None


def _unverified(facts: RunFacts) -> Move:
    """Nothing of it is lost: what lies on the volume can be verified again without a machine."""
    if facts.is_trial:
        sentence = facts.adapter_trouble or "The trial's adapter does not match its manifest."
        return Move("fail", RunReason.ADAPTER_UNVERIFIED, sentence)
    sentence = "The adapter's files do not match its manifest."
    if facts.adapter_trouble:
        sentence = f"{facts.adapter_trouble} The adapter is finished: verify it when that is mended."
    return Move("stick", RunReason.ADAPTER_UNVERIFIED, sentence)


def _done_on_pod(facts: RunFacts) -> Move:
    """Only a person can fetch it. A trial's report was told, and nobody wants its adapter."""
    if facts.is_trial:
        return Move("ready")
    return Move("stick", RunReason.ON_POD, ON_POD) if facts.machine in _HAS_DISK else _lost(facts)


def _ended(facts: RunFacts) -> Move | None:
    match facts.work:
        case Work.DONE:
            return _progress(facts)
        case Work.FAILED:
            return Move(
                "fail", RunReason.TRAINER_FAILED, facts.failure or "The trainer failed; read the training logs."
            )
        case Work.PAUSED if facts.wants_pause and facts.state is not _S.PACKAGING:
            return Move("pause", RunReason.BY_MEMBER)
        case Work.OVERRUN:
            return _out_of_time(facts)
    return _lost(facts)


def _not_given(facts: RunFacts) -> Move:
    """The provider refused the machine, or it never came."""
    sentence = facts.machine_sentence or "The provider gave no machine."
    if facts.machine_reason is MachineReason.NO_CAPACITY:
        return Move("wait" if facts.waits_for_capacity else "fail", RunReason.NO_CAPACITY, sentence)
    if facts.machine_reason is MachineReason.BUSY:
        return Move("wait" if facts.waits_for_capacity else "fail", RunReason.BUSY, sentence)
    return Move("fail", RunReason.DENIED, sentence)


def _lost(facts: RunFacts) -> Move:
    if facts.wants_pause and facts.state is not _S.PACKAGING:
        return Move("pause", RunReason.MACHINE_LOST, "The machine was lost while a pause was wanted.")
    if facts.losses >= 1:
        sentence = (
            f"The machine disappeared for the second time{facts.where}. "
            "Read the training logs, then create a retry draft."
        )
        return Move("fail", RunReason.LOST_TWICE, sentence)
    if not facts.has_time_left:
        return _lost_late(facts)
    goes_on = "begins anew" if facts.is_pod_local else "goes on from the last verified checkpoint"
    sentence = f"The machine disappeared{facts.where}. The next attempt {goes_on}."
    return Move("lose", RunReason.MACHINE_LOST, sentence)


def _lost_late(facts: RunFacts) -> Move:
    """Lost, and another attempt would have no time."""
    move = _out_of_time(facts)
    if facts.is_trial or facts.state is _S.LAUNCHING:
        return move
    sentence = (
        f"The machine disappeared{facts.where}, and the maximum runtime leaves no time for another attempt. "
        "Resume with a longer limit, or cancel the run."
    )
    return replace(move, sentence=sentence)


def _out_of_time(facts: RunFacts) -> Move:
    if facts.state is _S.LAUNCHING:
        return Move("fail", RunReason.DEADLINE, "The machine did not start within the maximum runtime.")
    if facts.is_trial:
        return Move("fail", RunReason.DEADLINE, TRIAL_OVER_TIME)
    if facts.is_pod_local and facts.machine in _HAS_DISK:
        return Move("overrun", RunReason.DEADLINE, OVER_TIME_ON_POD)
    sentence = "The maximum runtime was reached. Resume with a longer limit, or cancel the run."
    return Move("overrun", RunReason.DEADLINE, sentence)
