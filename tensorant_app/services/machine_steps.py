"""The steps of a machine's row, and when to look at it next."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from sqlmodel import Session

from tensorant_app.db.machines import Machine, MachineEvent
from tensorant_app.db.promise import promise
from tensorant_app.db.session import now_of
from tensorant_app.db.steps import step
from tensorant_app.domain import spend, watching
from tensorant_app.domain.machines import (
    LATE,
    LIFECYCLE,
    MachineFacts,
    MachineReason,
    MachineState,
    Presence,
    ProofRules,
    Sighting,
    cannot_start,
    decide,
)
from tensorant_app.domain.steps import Cause, Move
from tensorant_app.services.audit import write_finding
from tensorant_app.services.machine_prices import note_stopped
from tensorant_app.services.machine_views import MachineView, view
from trainer.contract import Ask, Phase

TEND = "machines.tend"
BILL = "spend.sync"
_ASKS_BILL = {"appear": spend.SYNC, "catch": spend.SYNC, "confirm": spend.SOON}
_CLOCK_SLACK = timedelta(seconds=5)
_PAST = (
    "ask_sent_at",
    "answer_lost_at",
    "held_at",
    "started_at",
    "seen_at",
    "known_at",
    "container_began_at",
    "read_at",
    "stop_wanted_at",
    "release_wanted_at",
    "release_sent_at",
    "absent_since",
    "gone_since",
)
"""Times of a row that can only lie in the past."""
MOST_PATIENCE = timedelta(minutes=10)
"""No longer than this a delete call waits, whatever the provider asks for: the machine costs."""
_KEEPS_REASON = frozenset({"confirm", "stick", "retry", "stop", "appear"})
"""Steps that don't change why the machine ends."""


def facts_of(machine: Machine | MachineView) -> MachineFacts:
    return MachineFacts(
        machine.state,
        machine.ask_sent_at,
        machine.release_wanted_at,
        machine.absent_since,
        machine.absent_looks,
        has_result=machine.result is not None,
        held_at=machine.held_at,
        has_started=machine.started_at is not None,
        boots=machine.boots,
        rate_limit=machine.rate_limit,
        deadline=machine.deadline,
        stop_wanted=machine.stop_wanted_at is not None,
        was_known=machine.known_at is not None,
    )


def take(session: Session, machine: Machine, move: Move, cause: Cause = Cause.WORKER) -> None:
    at = now_of(session)
    if move.verb == "reappear":
        _audit_return(session, machine)
    if move.verb not in _KEEPS_REASON:
        machine.reason, machine.sentence = move.reason, move.sentence
    match move.verb:
        case "appear":
            machine.held_at = at
        case "release" | "lose" | "catch" | "reappear":
            machine.release_wanted_at = machine.release_wanted_at or at
            machine.held_at = machine.held_at or at
            machine.release_sent_at, machine.release_tries, machine.release_problem = None, 0, None
            machine.retry_at = None
        case "retry":
            machine.release_sent_at = machine.retry_at = None
        case "stop":
            machine.stopped_at, machine.sentence = at, None
            note_stopped(machine, at)
        case "confirm":
            machine.released_at, machine.release_problem = _ended_at(machine, at), None
    step(
        session,
        machine,
        LIFECYCLE,
        MachineEvent,
        verb=move.verb,
        cause=cause,
        reason=move.reason,
        sentence=move.sentence,
    )
    if machine.connection_id is not None and move.verb in _ASKS_BILL:
        promise(session, BILL, machine.id, at + _ASKS_BILL[move.verb])


def _ended_at(machine: Machine, now: datetime) -> datetime:
    """The moment that was proved now."""
    return min(machine.gone_since or now, now)


def _audit_return(session: Session, machine: Machine) -> None:
    """One that was proved gone, or that a person confirmed absent, and is there all the same: it may have cost money."""
    write_finding(
        session,
        "machines.came_back",
        machine.id,
        machine.organization_id,
        machine=machine.name,
        was=machine.state.value,
        why=machine.reason,
        provider_ids=" ".join(machine.provider_ids),
    )


def reanchor(machine: Machine, now: datetime) -> None:
    """The clock went back: what was written by it begins now, or every pause and grace would last that much longer."""
    ahead = machine.ask_sent_at - now if machine.ask_sent_at else timedelta(0)
    if ahead > _CLOCK_SLACK:
        # The maximum runtime counts from the launch.
        machine.deadline -= ahead
        machine.words_seq += 1
    if machine.retry_at is not None and machine.retry_at - now > MOST_PATIENCE:
        machine.retry_at = None
    for name in _PAST:
        at = getattr(machine, name)
        if at is not None and at - now > _CLOCK_SLACK:
            setattr(machine, name, now)


def tell_user(session: Session, machine: Machine) -> None:
    promise(session, f"{machine.use.plural}.react", machine.subject_id)


def take_all(
    session: Session, machine: Machine, sighting: Sighting, rules: ProofRules, *, log: str, is_young: bool = False
) -> None:
    """Every step that the last look at the account calls for; the looks were counted when they were made.

    `is_young`: it was created this moment, so it cannot have left anything yet.
    """
    while True:
        facts = replace(_before_last_look(machine), cannot_start=cannot_start(log))
        move = decide(facts, sighting, rules, now_of(session))
        if move is None:
            return
        if move.reason is MachineReason.NOT_STARTED and log:
            move = Move(move.verb, move.reason, f"{move.sentence} The provider's log says: {log}")
        take(session, machine, move)
        # The delete call comes first, whatever the same look would prove; and of one that was found, what it has done.
        if move.verb in {"lose", "release", "catch"} or (move.verb == "appear" and not is_young):
            promise(session, TEND, machine.id)
            return


def _before_last_look(machine: Machine) -> MachineFacts:
    """`decide` counts the look that it is given: leave the last one to it."""
    facts = facts_of(machine)
    looks = facts.absent_looks - 1 if machine.presence is Presence.ABSENT else facts.absent_looks
    return replace(facts, absent_looks=looks)


def next_release(machine: Machine | MachineView) -> datetime | None:
    """When the next delete call is due; None: now."""
    if machine.release_sent_at is None:
        return None
    pause = watching.release_pause(machine.release_tries, was_taken=machine.release_problem is None)
    return max(machine.release_sent_at + pause, machine.retry_at or machine.release_sent_at)


def next_read(machine: Machine | MachineView, now: datetime) -> datetime | None:
    """When heartbeat and result are read next; None: now. A status that changed since is read at once."""
    if machine.read_at is None or (machine.seen_at is not None and machine.seen_at > machine.read_at):
        return None
    status = view(machine).status if isinstance(machine, Machine) else machine.status
    elapsed = status.elapsed if status else 0.0
    left = None
    if status is not None:
        left = watching.time_left(status.step or status.done, status.total_steps or status.total, elapsed)
    pause = watching.read_pause(
        is_watched=machine.watched_until is not None and machine.watched_until > now,
        has_started=machine.started_at is not None,
        is_ending=status is not None and status.phase in {Phase.PACKAGING, Phase.ENDED},
        time_left=left,
        elapsed=timedelta(seconds=elapsed),
    )
    is_awaited = machine.words_ask != Ask.NONE.value and machine.result is None
    return machine.read_at + (min(pause, watching.OFTEN) if is_awaited else pause)


def next_look(machine: Machine, now: datetime, rules: ProofRules) -> datetime | None:
    if machine.state in LIFECYCLE.final:
        return None
    if not rules.by_account:
        is_slow = machine.state is MachineState.RELEASE_FAILED
        return max(next_release(machine) or now, now + watching.LOCAL) if is_slow else now + watching.LOCAL
    match machine.state:
        case MachineState.HELD | MachineState.STOPPED:
            starts_by = None
            if rules.provisioning is not None and machine.started_at is None and machine.held_at is not None:
                starts_by = machine.held_at + rules.provisioning
            late = machine.deadline + LATE if machine.state is MachineState.HELD else None
            if machine.state is MachineState.HELD and machine.stop_wanted_at is not None:
                late = min(machine.deadline + LATE, now + watching.OFTEN)
            due = watching.earliest(next_read(machine, now) or now, starts_by, late)
        case MachineState.RELEASING | MachineState.RELEASE_FAILED:
            due = next_release(machine)
        case _:
            due = now + watching.RARELY
    return max(due or now, now + watching.LOCAL)
