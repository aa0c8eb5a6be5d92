"""Renting, watching and giving back a machine. It knows no user of a machine: after each step it promises `<use>s.react`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db import clock
from tensorant_app.db.machines import Machine, MachineEvent
from tensorant_app.db.promise import ensure, promise
from tensorant_app.db.session import now_of
from tensorant_app.db.steps import begin, step
from tensorant_app.domain.machines import (
    LIFECYCLE,
    MachineFacts,
    MachineReason,
    MachineState,
    Presence,
    ProofRules,
    Sighting,
    Use,
    decide,
    machine_name,
)
from tensorant_app.domain.runs import Work
from tensorant_app.domain.steps import Cause, Move
from tensorant_app.providers.base import FileStore, MachineRequest, Rented
from trainer.contract import (
    CONSOLE,
    JOB,
    RESULT,
    STATUS,
    Ask,
    AttemptKeys,
    Outcome,
    Phase,
    Result,
    Status,
    Words,
    dump,
    load,
)

TEND = "machines.tend"
LATE = timedelta(minutes=10)
"""So long after its deadline a machine is released whatever it says."""
_WATCH = timedelta(seconds=1)
_SLOW_WATCH = timedelta(seconds=10)
_RELEASE_TRIES = 3
_LONGEST_BACKOFF = timedelta(minutes=5)

R = TypeVar("R", Status, Result)


@dataclass(frozen=True, slots=True)
class MachineView:
    """A machine's row as jobs and users of the machine see it."""

    id: UUID
    organization_id: UUID
    use: Use
    subject_id: UUID
    attempt: int
    name: str
    provider: str
    gpu_type: str
    state: MachineState
    reason: MachineReason | None
    sentence: str | None
    command: Sequence[str]
    inputs_key: str
    outputs_key: str
    ask_sent_at: datetime | None
    provider_id: str | None
    provider_status: str
    release_wanted_at: datetime | None
    released_at: datetime | None
    deadline: datetime
    words_seq: int
    status: Status | None
    result: Result | None

    @property
    def work(self) -> Work:
        """How far its work is, by its own words."""
        if self.result is not None:
            return _OUTCOMES[self.result.outcome]
        return _PHASES[self.status.phase] if self.status is not None else Work.NONE

    @property
    def request(self) -> MachineRequest:
        return MachineRequest(self.name, self.gpu_type, self.command, self.outputs_key, {})


_OUTCOMES = {
    Outcome.DONE: Work.DONE,
    Outcome.FAILED: Work.FAILED,
    Outcome.PAUSED: Work.PAUSED,
    Outcome.STOPPED: Work.STOPPED,
    Outcome.OVERRUN: Work.OVERRUN,
}
_PHASES = {
    Phase.PREPARING: Work.PREPARING,
    Phase.TRAINING: Work.TRAINING,
    Phase.PACKAGING: Work.PACKAGING,
    Phase.EVALUATING: Work.TRAINING,
    Phase.ENDED: Work.PACKAGING,
}


@dataclass(frozen=True, slots=True)
class Order:
    """A machine to be asked for: what it works for, and until when."""

    organization_id: UUID
    use: Use
    subject_id: UUID
    attempt: int
    provider: str
    gpu_type: str
    deadline: datetime

    @property
    def keys(self) -> AttemptKeys:
        return AttemptKeys.of(self.use.plural, str(self.subject_id), self.attempt)

    @property
    def name(self) -> str:
        return machine_name(self.use, str(self.subject_id), self.attempt)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a machine: the provider's word and what lies on the volume."""

    sighting: Sighting
    status: Status | None
    result: Result | None


def stage(volume: FileStore, order: Order, job: Any) -> None:
    """Write what the machine will read; the same files again after a crash."""
    volume.put(f"{order.keys.inputs}/{CONSOLE}", dump(Words(1, Ask.NONE, order.deadline.isoformat())).encode())
    volume.put(f"{order.keys.inputs}/{JOB}", dump(job).encode())


def ask_machine(session: Session, order: Order, subcommand: str) -> None:
    """Write the intent down; `machines.tend` makes the call."""
    at = now_of(session)
    machine = Machine(
        id=clock.new_id(at),
        created_at=at,
        organization_id=order.organization_id,
        use=order.use,
        subject_id=order.subject_id,
        attempt=order.attempt,
        name=order.name,
        provider=order.provider,
        gpu_type=order.gpu_type,
        state=MachineState.ASKED,
        command=[subcommand, "--volume", ".", "--job", f"{order.keys.inputs}/{JOB}"],
        inputs_key=order.keys.inputs,
        outputs_key=order.keys.outputs,
        deadline=order.deadline,
        words_seq=1,
    )
    begin(session, machine, MachineEvent, verb="ask", cause=Cause.WORKER)
    promise(session, TEND, machine.id)


def machine_of(session: Session, use: Use, subject_id: UUID, attempt: int) -> MachineView | None:
    found = select(Machine).where(Machine.use == use, Machine.subject_id == subject_id, Machine.attempt == attempt)
    row = session.exec(found).one_or_none()
    return None if row is None else view(row)


def see_machine(session: Session, machine_id: UUID) -> MachineView | None:
    row = session.get(Machine, machine_id)
    return None if row is None else view(row)


def want_release(session: Session, use: Use, subject_id: UUID) -> None:
    """Give back every machine of a subject; one whose create call is in flight is caught when it appears."""
    found = select(Machine).where(Machine.use == use, Machine.subject_id == subject_id)
    for machine in session.exec(found):
        if machine.state is MachineState.ASKED and machine.release_wanted_at is None:
            machine.release_wanted_at = now_of(session)
            promise(session, TEND, machine.id)
        elif machine.state in {MachineState.HELD, MachineState.STOPPED}:
            machine.release_wanted_at = now_of(session)
            _advance(session, machine, Move("release", MachineReason.USE_ENDED))
            promise(session, TEND, machine.id)


def take_ask(session: Session, machine_id: UUID, *, may_ask_again: bool) -> bool:
    """The right to make the create call. Committed before the call, so that it is never made twice."""
    machine = session.get_one(Machine, machine_id)
    is_asked = machine.state is MachineState.ASKED and machine.release_wanted_at is None
    if not is_asked or (machine.ask_sent_at is not None and not may_ask_again):
        return False
    machine.ask_sent_at = now_of(session)
    return True


def note_rented(session: Session, machine_id: UUID, rented: Rented) -> None:
    machine = session.get_one(Machine, machine_id)
    machine.provider_id, machine.provider_status = rented.provider_id, rented.provider_status
    if machine.state is MachineState.ASKED:
        _advance(session, machine, Move("appear" if machine.release_wanted_at is None else "catch"))
    _tell_user(session, machine)


def note_denied(session: Session, machine_id: UUID, sentence: str, *, is_capacity: bool) -> None:
    machine = session.get_one(Machine, machine_id)
    if machine.state is MachineState.ASKED:
        reason = MachineReason.NO_CAPACITY if is_capacity else MachineReason.DENIED
        _advance(session, machine, Move("deny", reason, sentence))
    _tell_user(session, machine)


def note_never_asked(session: Session, machine_id: UUID) -> None:
    """Its release was wanted before the create call was made: there is nothing to give back."""
    machine = session.get_one(Machine, machine_id)
    if machine.state is MachineState.ASKED and machine.ask_sent_at is None:
        _advance(session, machine, Move("deny", MachineReason.USE_ENDED))
        _tell_user(session, machine)


def note_release_sent(session: Session, machine_id: UUID, *, problem: str | None) -> None:
    """A delete call was made; after several that failed the user is told, and it goes on for ever."""
    machine = session.get_one(Machine, machine_id)
    machine.release_sent_at = now_of(session)
    machine.release_tries += 1
    if problem and machine.release_tries >= _RELEASE_TRIES and machine.state is MachineState.RELEASING:
        _advance(session, machine, Move("stick", MachineReason.UNCONFIRMED, problem))
        _tell_user(session, machine)


def note_look(session: Session, machine_id: UUID, look: Look, rules: ProofRules) -> datetime | None:
    """Write one look down and take at most one step; when to look next, or None where the story has ended."""
    machine = session.get_one(Machine, machine_id)
    facts = _facts(machine)
    changed = _note_report(machine, look)
    _note_presence(machine, look.sighting)
    if move := decide(facts if look.result is None else _facts(machine), look.sighting, rules):
        _advance(session, machine, move)
        changed = True
    elif machine.state is MachineState.HELD and now_of(session) >= machine.deadline + LATE:
        machine.release_wanted_at = now_of(session)
        _advance(session, machine, Move("release", MachineReason.USE_ENDED, "It was long past its deadline."))
        changed = True
    if changed:
        _tell_user(session, machine)
    return _next_look(machine, now_of(session))


def read_report(volume: FileStore, machine: MachineView) -> tuple[Status | None, Result | None]:
    """Heartbeat and result, if they are this very machine's: an earlier attempt's files are not its word."""
    status = _read(volume, f"{machine.outputs_key}/{STATUS}", Status, machine)
    result = _read(volume, f"{machine.outputs_key}/{RESULT}", Result, machine)
    return status, result


def promise_all(session: Session) -> None:
    """What the rows call for, whatever became of the promises."""
    live = col(Machine.state).not_in(list(LIFECYCLE.final))
    ensure(session, TEND, session.exec(select(Machine.id).where(live)))


def view(row: Machine) -> MachineView:
    return MachineView(
        id=row.id,
        organization_id=row.organization_id,
        use=row.use,
        subject_id=row.subject_id,
        attempt=row.attempt,
        name=row.name,
        provider=row.provider,
        gpu_type=row.gpu_type,
        state=row.state,
        reason=MachineReason(row.reason) if row.reason else None,
        sentence=row.sentence,
        command=tuple(row.command),
        inputs_key=row.inputs_key,
        outputs_key=row.outputs_key,
        ask_sent_at=row.ask_sent_at,
        provider_id=row.provider_id,
        provider_status=row.provider_status,
        release_wanted_at=row.release_wanted_at,
        released_at=row.released_at,
        deadline=row.deadline,
        words_seq=row.words_seq,
        status=load(Status, json.dumps(row.status)) if row.status else None,
        result=load(Result, json.dumps(row.result)) if row.result else None,
    )


def _read(volume: FileStore, key: str, cls: type[R], machine: MachineView) -> R | None:
    if volume.size(key) is None:
        return None
    with volume.open(key) as file:
        found = load(cls, file.read().decode())
    return found if (found.machine, found.attempt) == (machine.name, machine.attempt) else None


def _facts(machine: Machine) -> MachineFacts:
    return MachineFacts(
        machine.state,
        machine.ask_sent_at,
        machine.release_wanted_at,
        machine.absent_since,
        machine.absent_looks,
        has_result=machine.result is not None,
    )


def _note_report(machine: Machine, look: Look) -> bool:
    """Whether its user has reason to look: a new phase, or the end. Mere progress is not one."""
    before = machine.status["phase"] if machine.status else None
    had_result = machine.result is not None
    if look.status is not None:
        machine.status = asdict(look.status)
    if look.result is not None:
        machine.result = asdict(look.result)
    after = machine.status["phase"] if machine.status else None
    return before != after or had_result != (machine.result is not None)


def _note_presence(machine: Machine, sighting: Sighting) -> None:
    if sighting.presence is Presence.UNKNOWN:
        return
    machine.provider_status = sighting.provider_status
    if sighting.presence is Presence.ABSENT:
        machine.absent_since = machine.absent_since or sighting.at
        machine.absent_looks += 1
        return
    machine.absent_since, machine.absent_looks = None, 0
    if len(sighting.provider_ids) == 1:
        machine.provider_id = sighting.provider_ids[0]


def _advance(session: Session, machine: Machine, move: Move) -> None:
    machine.reason, machine.sentence = move.reason, move.sentence
    if move.verb == "confirm":
        machine.released_at = now_of(session)
    step(
        session,
        machine,
        LIFECYCLE,
        MachineEvent,
        verb=move.verb,
        cause=Cause.WORKER,
        reason=move.reason,
        sentence=move.sentence,
    )


def _tell_user(session: Session, machine: Machine) -> None:
    promise(session, f"{machine.use.plural}.react", machine.subject_id)


def _next_look(machine: Machine, now: datetime) -> datetime | None:
    if machine.state in LIFECYCLE.final:
        return None
    if machine.state is MachineState.RELEASE_FAILED:
        doublings = min(max(machine.release_tries - _RELEASE_TRIES, 0), 10)
        return now + min(_SLOW_WATCH * int(2**doublings), _LONGEST_BACKOFF)
    return now + _WATCH
