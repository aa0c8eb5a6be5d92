"""Plays a tape: the real client, services and jobs live through it on a virtual clock, and what a person would see is noted."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlmodel import col

from tensorant_app.db.machines import Machine
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import TensorantError
from tensorant_app.domain.machines import HOLDS_SLOT, Use
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services import machine_actions, recoveries, runs, spend
from tests.faults.console import Console, open_console, time_zone
from tests.runpod_emulator import VirtualClock
from tests.tapes.stage import set_up
from tests.tapes.tape import Event, Tape, time_in
from tests.tapes.trainer import Trainer
from tests.tapes.wire import TapeTransport

_BETWEEN_WORDS = timedelta(seconds=10)
"""Between two messages of the trainer that name no time."""
_AFTER = timedelta(minutes=45)
"""A tape is played so much longer than the last time that stands on it."""
_READ_LATE = timedelta(minutes=6)
"""A result is read at the latest so long after it was written."""
_QUIET = frozenset({"connections.check", "offers.refresh"})
"""Jobs whose calls no tape has replies for."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a person sees at a moment."""

    at: str
    event: str
    run: str
    label: str
    badge: str
    """Of the machine, beside the run's; empty where there is nothing to tell."""
    reason: str
    machine: str
    slot_held: bool
    estimate: str
    actual: str | None
    spend: str
    can_confirm_absent: bool


@dataclass(slots=True)
class Played:
    tape: str
    calls: dict[str, int] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def end(self) -> Mark:
        return self.marks[-1]

    def at(self, words: str) -> Mark:
        """The first mark whose event holds these words."""
        return next(mark for mark in self.marks if words in mark.event)

    def as_values(self) -> dict[str, Any]:
        return {"tape": self.tape, "calls": self.calls, "events": [asdict(m) for m in self.marks], **self.facts}


def play(path: Path, folder: Path, *, until: timedelta | None = None) -> Played:
    """Play one tape in an empty folder; `until` ends it earlier or later than the tape suggests."""
    tape = Tape.read(path)
    clock = VirtualClock(tape.starts)
    wire = TapeTransport(tape, clock)
    volume = FolderStore(folder / "volume")
    with time_zone(tape.time_zone), open_console(folder, clock, wire, lambda *given: volume) as console:
        return _Player(tape, clock, wire, console, volume).play(until)


class _Player:
    def __init__(
        self, tape: Tape, clock: VirtualClock, wire: TapeTransport, console: Console, volume: FolderStore
    ) -> None:
        self.tape, self.clock, self.wire, self.console = tape, clock, wire, console
        console.leaves_out = _QUIET
        self.run_id: UUID = set_up(console, tape, wire, volume)
        self.trainer = Trainer(volume, _total_steps(tape))
        self.played = Played(tape.name)
        self.words = list(tape.said)
        self.word_due: datetime | None = None
        self.has_spoken = False
        self.last: tuple[object, ...] = ()

    def play(self, until: timedelta | None) -> Played:
        ends = self.tape.starts + until if until is not None else _last_time(self.tape) + _AFTER
        due = self._plan()
        self._begin()
        while self.clock() < ends:
            self._to(min([ends, *(event.at for event in due[:1])]))
            while due and due[0].at <= self.clock():
                event = due.pop(0)
                self._mark(event.text)
                self._happen(event.text)
                self.console.work()
        self._mark("end")
        self.played.calls = dict(sorted(self.wire.calls.items()))
        self._tell_facts()
        return self.played

    def _plan(self) -> list[Event]:
        """The tape's events, and its own turning points, at which somebody might look."""
        texts = {text for r in self.tape.replies for text in (r.until, r.since) if text}
        turns = [Event(at, text) for text in texts if (at := time_in(text, self.tape.starts))]
        released = self.tape.run.get("released")
        own = [Event(datetime.fromisoformat(released), "released")] if released else []
        own += [Event(event.at - _READ_LATE, "finished") for event in own]
        return sorted([*self.tape.events, *turns, *own], key=lambda event: event.at)

    def _begin(self) -> None:
        if (machine := self.console.machine(self.run_id)) is not None:
            step = next((int(m[1]) for e in self.tape.events if (m := re.search(r"step (\d+) of", e.text))), 1)
            if not self.words and self.console.run(self.run_id).state in runs.KEEPS_MACHINE:
                self.trainer.train(machine, step, self.clock().isoformat())
        elif not any("launch" in event.text for event in self.tape.events):
            self._launch()
        self.console.restart()
        self._mark("start")

    def _to(self, at: datetime) -> None:
        """Let time pass up to then: the next promise, or the next word of the trainer, one after the other."""
        while self.clock() < at:
            self._speak()
            due = self.console.next_due()
            times = [at, *(t for t in (due, self.word_due) if t is not None)]
            self.clock.at = max(min(times), self.clock() + timedelta(milliseconds=250))
            self._speak()
            self.console.work()
            self._mark("", only_changes=True)

    def _speak(self) -> None:
        """The next message, once the machine is there and its time has come."""
        if self.has_spoken and not self.words:
            return
        machine = self.console.machine(self.run_id)
        if machine is None or machine.held_at is None:
            return
        if not self.tape.said and machine.container_began_at is not None and machine.started_at is None:
            self.trainer.train(machine, 1, self.clock().isoformat())
        self.has_spoken = self.has_spoken or bool(self.tape.said) or machine.started_at is not None
        if not self.words:
            return
        self.word_due = self.word_due or self.clock() + _BETWEEN_WORDS
        if self.clock() >= self.word_due:
            self.trainer.hear(machine, self.words.pop(0), self.clock().isoformat())
            self.word_due = self.clock() + _BETWEEN_WORDS if self.words else None

    def _happen(self, text: str) -> None:
        words = text.lower()
        try:
            if "launch" in words:
                self._launch()
            elif "cancel" in words:
                self._do(runs.cancel_run)
            elif "confirm" in words and "absent" in words:
                self._do(machine_actions.confirm_run_absent)
            elif "resume" in words:
                self._do(recoveries.resume_run)
            elif "pause" in words:
                self._do(recoveries.pause_run)
            elif "verif" in words:
                self._do(recoveries.verify_run)
            elif "retry cleanup" in words:
                self._retry()
            elif "key" in words and re.search(r"stores|saves|new key|write access", words):
                self.tape.happened["new key"] += 1
                self.console.save_key("rpa_ANOTHERKEY000005678")
            elif text == "finished":
                machine = self.console.machine(self.run_id)
                assert machine is not None
                self.trainer.finish(machine, 1, self.clock().isoformat())
        except TensorantError as error:
            self.played.facts.setdefault("refused", []).append(str(error))

    def _launch(self) -> None:
        state = self.console.run(self.run_id).state
        if state in runs.LIFECYCLE.final:
            self.run_id = self.console.draft(limit=None)
        self.console.launch(self.run_id, evaluates=False)
        self.console.work()

    def _do(self, act: Any) -> None:
        with unit_of_work() as session:
            act(session, self.console.caller, self.run_id)

    def _retry(self) -> None:
        machine = self.console.machine(self.run_id)
        assert machine is not None
        with unit_of_work() as session:
            machine_actions.retry_cleanup(session, self.console.caller, machine.id)

    def _mark(self, event: str, *, only_changes: bool = False) -> None:
        from tensorant_app.components import badges

        now = self._glance()
        if only_changes and now == self.last:
            return
        self.last = now
        run, machine = self.console.run(self.run_id), self.console.machine(self.run_id)
        with reading() as session:
            money = spend.machine_spend(session, Use.RUN, run.id)
            recovery = recoveries.show_recovery(session, self.console.caller, run.id)
        is_going = machine is not None and machine.state.value in {"releasing", "release_failed"}
        trouble = machine.trouble if machine else None
        self.played.marks.append(
            Mark(
                at=self.clock().isoformat(timespec="seconds").replace("+00:00", "Z"),
                event=event,
                run=run.state.value,
                label="Checking launch" if recovery.checking else badges.RUN[run.state].word,
                badge=badges.MACHINE[machine.state].word if machine and is_going else "",
                reason=" ".join(part for part in (run.sentence, trouble) if part),
                machine=machine.state.value if machine else "",
                slot_held=machine is not None and machine.state in HOLDS_SLOT,
                estimate=_dollars(money.estimated.micros, 2),
                actual=None if money.actual is None else _dollars(money.actual.micros, 4),
                spend=money.state.value,
                can_confirm_absent=recovery.confirm_absent is None,
            )
        )

    def _glance(self) -> tuple[object, ...]:
        """What a mark depends on, in one query: it is asked at every look of the console."""
        own = sa.and_(
            col(Machine.use) == Use.RUN,
            col(Machine.subject_id) == col(Run.id),
            col(Machine.attempt) == col(Run.attempt),
        )
        columns = sa.select(col(Run.id), col(Run.state), col(Run.sentence), col(Machine.state))
        with reading() as session:
            return tuple(session.execute(columns.outerjoin(Machine, own).where(col(Run.id) == self.run_id)).one())

    def _tell_facts(self) -> None:
        machine = self.console.machine(self.run_id)
        self.played.facts |= {
            "training_starts": len(self.trainer.starts),
            "steps": [list(step) for step in self.trainer.steps],
            "machine_name": machine.name if machine else None,
            "provider_id": machine.provider_id if machine else None,
            "boots": machine.boots if machine else None,
            "deadline": machine.deadline.isoformat().replace("+00:00", "Z") if machine else None,
        }


def _total_steps(tape: Tape) -> int:
    found = [int(m[1]) for e in tape.events if (m := re.search(r"step \d+ of (\d+)", e.text))]
    return found[0] if found else int(tape.run.get("steps", 90))


def _last_time(tape: Tape) -> datetime:
    texts = [text for r in tape.replies for text in (r.until, r.since) if text]
    found = [at for text in texts if (at := time_in(text, tape.starts))]
    released = tape.run.get("released")
    own = [datetime.fromisoformat(released)] if released else []
    return max([tape.starts, *found, *own, *(event.at for event in tape.events)])


def _dollars(micros: int, places: int) -> str:
    """Half rounded away from zero, as the pages show it."""
    unit = 10 ** (6 - places)
    whole = (micros + unit // 2) // unit
    return f"{whole // 10**places}.{whole % 10**places:0{places}d}"
