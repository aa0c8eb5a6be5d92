"""Renting, watching and giving back a machine. It knows no user of a machine: after each step it promises `<use>s.react`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db import clock
from tensorant_app.db.machines import Machine, MachineEvent
from tensorant_app.db.promise import ensure, promise
from tensorant_app.db.session import now_of
from tensorant_app.db.steps import begin, note
from tensorant_app.domain import watching
from tensorant_app.domain.errors import DenialReason, Denied, ProviderError
from tensorant_app.domain.machines import LATE as LATE
from tensorant_app.domain.machines import (
    LIFECYCLE,
    LISTED,
    MachineReason,
    MachineState,
    Presence,
    ProofRules,
    Sighting,
    Use,
    decide,
    machine_name,
)
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.steps import Cause, Move
from tensorant_app.providers.base import FileStore, Rented, Storage
from tensorant_app.services.machine_steps import MOST_PATIENCE, facts_of, next_look, reanchor, take, take_all, tell_user
from tensorant_app.services.machine_steps import TEND as TEND
from tensorant_app.services.machine_views import MachineView as MachineView
from tensorant_app.services.machine_views import as_text
from tensorant_app.services.machine_views import machine_of as machine_of
from tensorant_app.services.machine_views import read_report as read_report
from tensorant_app.services.machine_views import see_machine as see_machine
from tensorant_app.services.machine_views import view as view
from trainer.contract import CONSOLE, JOB, Ask, AttemptKeys, Result, Status, Words

POLL = "accounts.poll"
"""The look at a whole account; here, because a lost answer wants one soon."""


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
    connection_id: UUID | None = None
    gpu_count: int = 1
    rate: HourlyRate | None = None
    """Of the whole machine, as it was offered."""
    rate_limit: HourlyRate | None = None
    data_center: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """What else the create call says: `image`, `volume_id`, `disk_gb`, `min_cuda`, `storage`."""

    @property
    def keys(self) -> AttemptKeys:
        return AttemptKeys.of(self.use.plural, str(self.subject_id), self.attempt)

    @property
    def storage(self) -> Storage:
        return Storage(self.options.get("storage", Storage.VOLUME))

    @property
    def name(self) -> str:
        return machine_name(self.use, str(self.subject_id), self.attempt)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a machine: the provider's word and what lies on the volume; None where it was not read."""

    sighting: Sighting
    status: Status | None
    result: Result | None
    is_read: bool = True
    log: str = ""
    """The provider's own last words on a machine that does not start."""


def stage(volume: FileStore, order: Order, job: Any) -> None:
    """Write what the machine will read; the same files again after a crash."""
    volume.put(f"{order.keys.inputs}/{CONSOLE}", as_text(Words(1, Ask.NONE, order.deadline.isoformat())))
    volume.put(f"{order.keys.inputs}/{JOB}", as_text(job))


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
        connection_id=order.connection_id,
        gpu_type=order.gpu_type,
        gpu_count=order.gpu_count,
        rate=order.rate,
        rate_limit=order.rate_limit,
        data_center=order.data_center,
        options=dict(order.options),
        state=MachineState.ASKED,
        command=_command(order, subcommand),
        inputs_key=order.keys.inputs,
        outputs_key=order.keys.outputs,
        deadline=order.deadline,
        words_seq=1,
        words_sent=1,
    )
    begin(session, machine, MachineEvent, verb="ask", cause=Cause.WORKER)
    promise(session, TEND, machine.id)
    if order.connection_id is not None:
        promise(session, POLL, order.connection_id, at + watching.POLL)


def _command(order: Order, subcommand: str) -> list[str]:
    """Arguments of the trainer; on several GPUs it becomes one process for each."""
    command = [subcommand, "--volume", ".", "--job", f"{order.keys.inputs}/{JOB}"]
    trains_on_several = order.gpu_count > 1 and subcommand != "evaluate"
    return [*command, "--processes", str(order.gpu_count)] if trains_on_several else command


def want_release(session: Session, use: Use, subject_id: UUID, *, but_stop: int | None = None) -> None:
    """Give back every machine of a subject; one whose create call is in flight is caught when it appears.

    Of the attempt `but_stop` a disk that ends with its machine is kept: only the computing ends.
    """
    found = select(Machine).where(Machine.use == use, Machine.subject_id == subject_id)
    for machine in session.exec(found):
        if machine.attempt == but_stop and view(machine).keeps_files_to_itself:
            want_stop(session, machine)
            continue
        if machine.state is MachineState.ASKED and machine.release_wanted_at is None:
            machine.release_wanted_at = now_of(session)
            promise(session, TEND, machine.id)
        elif machine.state in {MachineState.HELD, MachineState.STOPPED}:
            take(session, machine, Move("release", MachineReason.USE_ENDED))
            promise(session, TEND, machine.id)


def want_stop(session: Session, machine: Machine) -> None:
    """End the computing and keep the disk, until somebody decides."""
    if machine.state is MachineState.HELD and machine.stop_wanted_at is None:
        machine.stop_wanted_at = now_of(session)
        promise(session, TEND, machine.id)


def note_stop_problem(session: Session, machine_id: UUID, problem: str) -> None:
    """It goes on costing what it costs: everybody sees it, and until when. It is asked again."""
    machine = session.get_one(Machine, machine_id)
    if machine.state is not MachineState.HELD or machine.release_wanted_at is not None:
        return
    until = machine.deadline + LATE
    sentence = (
        f"It could not be stopped: {problem} It costs on until {until:%H:%M} UTC, when it is deleted with its disk."
    )
    if machine.sentence != sentence:
        machine.sentence = sentence
        note(session, machine, MachineEvent, verb="stop_failed", sentence=sentence)


def say(session: Session, use: Use, subject_id: UUID, attempt: int, *, ask: Ask, deadline: datetime | None) -> None:
    """Tell the trainer something new; `machines.tend` writes it where the trainer reads it. No deadline: the same."""
    found = select(Machine).where(Machine.use == use, Machine.subject_id == subject_id, Machine.attempt == attempt)
    machine = session.exec(found).one_or_none()
    if machine is None or machine.state in LIFECYCLE.final:
        return
    machine.deadline = deadline or machine.deadline
    machine.words_ask = ask.value
    machine.words_seq += 1
    promise(session, TEND, machine.id)


def words_of(machine: MachineView) -> Words:
    return Words(machine.words_seq, Ask(machine.words_ask), machine.deadline.isoformat())


def write_words(volume: FileStore, machine: MachineView) -> None:
    volume.put(f"{machine.inputs_key}/{CONSOLE}", as_text(words_of(machine)))


def note_words(session: Session, machine: MachineView) -> None:
    row = session.get_one(Machine, machine.id)
    row.words_sent = max(row.words_sent, machine.words_seq)


def take_ask(session: Session, machine_id: UUID, *, may_ask_again: bool) -> bool:
    """The right to make the create call. Committed before the call, so that it is never made twice."""
    machine = session.get_one(Machine, machine_id)
    is_asked = machine.state is MachineState.ASKED and machine.release_wanted_at is None
    if not is_asked or (machine.ask_sent_at is not None and not may_ask_again):
        return False
    machine.ask_sent_at = now_of(session)
    return True


def note_rented(session: Session, machine_id: UUID, rented: Rented, rules: ProofRules) -> None:
    """The provider gave it. Where it is dearer than its limit, it goes back in the same breath."""
    machine = session.get_one(Machine, machine_id)
    at = now_of(session)
    machine.presence, machine.seen_at, machine.provider_ids = Presence.PRESENT, at, [rented.provider_id]
    machine.provider_id, machine.provider_status = rented.provider_id, rented.provider_status
    machine.billed_ids = sorted({*machine.billed_ids, rented.provider_id})
    # An answer of zero is one that does not know yet, not a gift.
    machine.rate = rented.rate if rented.rate else machine.rate
    sighting = Sighting(at, Presence.PRESENT, (rented.provider_id,), rented.provider_status, machine.rate)
    take_all(session, machine, sighting, rules, log="", is_young=True)
    promise(session, TEND, machine.id)
    tell_user(session, machine)


def note_answer_lost(session: Session, machine_id: UUID) -> None:
    """It may exist: from here on it is only looked for."""
    machine = session.get_one(Machine, machine_id)
    if machine.state is MachineState.ASKED and machine.answer_lost_at is None:
        machine.answer_lost_at = now_of(session)
        note(session, machine, MachineEvent, verb="answer_lost", sentence="The answer was lost; it is looked for.")
    if machine.connection_id is not None:
        promise(session, POLL, machine.connection_id, now_of(session) + timedelta(seconds=1))
    tell_user(session, machine)


def note_denied(session: Session, machine_id: UUID, refusal: ProviderError) -> None:
    machine = session.get_one(Machine, machine_id)
    if machine.state is MachineState.ASKED:
        machine.retry_at = now_of(session) + refusal.retry_after if refusal.retry_after else None
        take(session, machine, Move("deny", _reason_of(refusal), refusal.message))
    tell_user(session, machine)


def note_never_asked(session: Session, machine_id: UUID) -> None:
    """Its release was wanted before the create call was made: there is nothing to give back."""
    machine = session.get_one(Machine, machine_id)
    if machine.state is MachineState.ASKED and machine.ask_sent_at is None:
        take(session, machine, Move("deny", MachineReason.USE_ENDED))
        tell_user(session, machine)


def note_patience(session: Session, machine_id: UUID, retry_after: timedelta | None) -> None:
    """How long the answer to a delete call asks to wait."""
    machine = session.get_one(Machine, machine_id)
    machine.retry_at = now_of(session) + min(retry_after, MOST_PATIENCE) if retry_after else None


def note_release_sent(
    session: Session, machine_id: UUID, *, problem: str | None, rules: ProofRules, was_known: bool = False
) -> None:
    """A delete call was made; one that failed is said aloud and repeated for ever.

    `was_known`: the provider had it, so it cannot be one that is only not shown yet.
    """
    machine = session.get_one(Machine, machine_id)
    if was_known and rules.by_account:
        machine.known_at = machine.known_at or now_of(session)
    machine.release_sent_at = now_of(session)
    machine.release_tries += 1
    machine.release_problem = problem
    if machine.release_tries == 1 and machine.presence is not Presence.GONE:
        # Only looks after the delete count as proof.
        machine.absent_since, machine.absent_looks = None, 0
    most = 1 if rules.by_account else _LOCAL_TRIES
    is_stuck = machine.release_tries >= most if problem else machine.release_tries > _UNCONFIRMED_TRIES
    if is_stuck and machine.state is MachineState.RELEASING:
        take(session, machine, Move("stick", MachineReason.UNCONFIRMED, problem))
        tell_user(session, machine)


_LOCAL_TRIES = 3
_UNCONFIRMED_TRIES = 3
_PROVIDER_ID = re.compile("[A-Za-z0-9_-]{1,64}")


def note_look(session: Session, machine_id: UUID, look: Look, rules: ProofRules) -> datetime | None:
    """Write one look down and take at most two steps; when to look next, or None where the story has ended."""
    machine = session.get_one(Machine, machine_id)
    reanchor(machine, now_of(session))
    before = (machine.state, machine.boots)
    changed = _note_report(machine, look, now_of(session)) if look.is_read else False
    if not rules.by_account:
        facts = facts_of(machine)
        _note_presence(machine, look.sighting)
        if move := decide(facts, look.sighting, rules, now_of(session)):
            take(session, machine, move)
    else:
        if machine.presence is Presence.ABSENT and look.sighting.presence in LISTED:
            # The list hides it: asked for by its id it is there, and costs.
            machine.gone_since = None
        take_all(session, machine, look.sighting, rules, log=look.log)
    if machine.boots != before[1]:
        note(
            session,
            machine,
            MachineEvent,
            verb="restarted",
            sentence=f"Its container began again; this is start {machine.boots} of this machine.",
        )
    if changed or (machine.state, machine.boots) != before:
        tell_user(session, machine)
    return next_look(machine, now_of(session), rules)


def note_report(session: Session, machine_id: UUID, status: Status | None, result: Result | None) -> None:
    """What its user read for itself."""
    machine = session.get_one(Machine, machine_id)
    _note_report(machine, Look(Sighting(now_of(session), Presence.UNKNOWN), status, result), now_of(session))


def promise_all(session: Session) -> None:
    """What the rows call for, whatever became of the promises."""
    live = col(Machine.state).not_in(list(LIFECYCLE.final))
    ensure(session, TEND, session.exec(select(Machine.id).where(live)))


def take_step(session: Session, machine: Machine, move: Move, cause: Cause) -> None:
    """A step that a person, or the sweep, causes."""
    take(session, machine, move, cause)
    promise(session, TEND, machine.id)
    tell_user(session, machine)


def _note_report(machine: Machine, look: Look, now: datetime) -> bool:
    """Whether its user has reason to look: a new phase, or the end. Mere progress is not one."""
    machine.read_at = now
    before = machine.status["phase"] if machine.status else None
    had_result = machine.result is not None
    if look.status is not None:
        machine.status = asdict(look.status)
        machine.started_at = machine.started_at or now
        machine.boots = max(machine.boots, look.status.boot)
        _learn_id(machine, look.status.provider_id)
    if look.result is not None:
        machine.result = asdict(look.result)
        machine.started_at = machine.started_at or now
    after = machine.status["phase"] if machine.status else None
    return before != after or had_result != (machine.result is not None)


def _learn_id(machine: Machine, told: str) -> None:
    """Of one that the provider has not listed: its bill can be read by the id that it tells itself.

    Never deleted by it: a file on a volume must not name what is deleted.
    """
    if machine.connection_id is not None and machine.provider_id is None and _PROVIDER_ID.fullmatch(told):
        machine.provider_id = told
        machine.billed_ids = sorted({*machine.billed_ids, told})


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


def _reason_of(refusal: ProviderError) -> MachineReason:
    if not isinstance(refusal, Denied):
        return MachineReason.DENIED
    if refusal.is_capacity:
        return MachineReason.NO_CAPACITY
    if refusal.reason is DenialReason.PRICE:
        return MachineReason.TOO_DEAR
    return MachineReason.BUSY if refusal.may_pass else MachineReason.DENIED
