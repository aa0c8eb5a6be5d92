"""Plays a tape: the real client, services and jobs live through it on a virtual clock, and what a person would see is noted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.session import unit_of_work
from tensorant_app.domain.errors import TensorantError
from tensorant_app.domain.machines import LIFECYCLE as MACHINE
from tensorant_app.domain.machines import MachineState, Presence
from tensorant_app.domain.members import Caller
from tensorant_app.domain.spend import GIVEN_UP
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services import machine_actions, recoveries, runs, strays
from tensorant_app.services.machines import MachineView
from tests.faults.console import Console, open_console, time_zone
from tests.runpod_emulator import VirtualClock
from tests.tapes.acts import Act, act_in
from tests.tapes.entries import Event
from tests.tapes.marks import Played, glance, history, look
from tests.tapes.moments import read_clock, span_in, time_in, times_in
from tests.tapes.stage import accept_key, hours_of, set_up
from tests.tapes.tape import Tape
from tests.tapes.trainer import Trainer
from tests.tapes.wire import TapeTransport

_BETWEEN_WORDS = timedelta(seconds=10)
"""Between two messages of the trainer that name no time."""
_AFTER = timedelta(minutes=45)
"""A tape is played so much longer than the last time that stands on it,"""
_MOST_AFTER = timedelta(hours=12)
"""and while replies are left that were not given, so much longer at most;"""
_MOST_BILLS = timedelta(hours=60)
"""for replies about the bill, which is asked for seldom, this much."""
_PAST_DEADLINE = timedelta(minutes=20)
_WATCHED, _FINISHED = timedelta(seconds=25), timedelta(seconds=8)
"""So long before the time at which a tape says that its machine was released, somebody looks, and its trainer ends."""
_LONGER = 6.0
"""Hours that a person adds who resumes with a longer limit."""
_QUIET = frozenset({"connections.check", "offers.refresh"})
"""Jobs whose calls no tape has replies for."""

_BUTTONS: Mapping[Act, Callable[[Session, Caller, UUID], None]] = {
    Act.CANCEL: runs.cancel_run,
    Act.CONFIRM_ABSENT: machine_actions.confirm_run_absent,
    Act.RESUME: recoveries.resume_run,
    Act.PAUSE: recoveries.pause_run,
    Act.VERIFY: recoveries.verify_run,
}


def play(path: Path, folder: Path, *, until: timedelta | None = None) -> Played:
    """Play one tape in an empty folder; `until` ends it earlier or later than the tape suggests. Raises `BadTape`."""
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
        console.now = lambda: clock() + self.ahead
        self.ahead = timedelta(0)
        """Of the server's own clock."""
        self.off_until: datetime | None = None
        self.cut_until: datetime | None = None
        self.run_id: UUID = set_up(console, tape, wire, volume)
        self.trainer = Trainer(volume, _total_steps(tape))
        self.played = Played(tape.name)
        self.words = list(tape.said)
        self.word_due: datetime | None = None
        self.has_spoken = False
        self.last: tuple[object, ...] = ()

    def play(self, until: timedelta | None) -> Played:
        due, waiting = self._plan()
        self._begin()
        while self.clock() < (ends := self._ends(until)):
            self._to(min([ends, *(event.at for event in due[:1])]), waiting)
            while due and due[0].at <= self.clock():
                self._live(due.pop(0))
        self._note("end")
        self.played.calls = dict(sorted(self.wire.calls.items()))
        self._tell_facts()
        return self.played

    # What comes when.

    def _plan(self) -> tuple[list[Event], list[Event]]:
        """The tape's events, and its own turning points, at which somebody might look; and those that wait for a call."""
        texts = {text for r in self.tape.replies for text in (r.until, r.since) if text}
        turns = [Event(at, text, is_turn=True) for text in texts if (at := time_in(text, self.tape.starts))]
        released = self.tape.run.get("released")
        own = [Event(read_clock(str(released)), "released", is_turn=True)] if released else []
        own += [
            Event(max(event.at - early, self.tape.starts), text)
            for event in own
            for early, text in ((_WATCHED, "somebody looks at the run's page"), (_FINISHED, "finished"))
        ]
        timed = [event for event in self.tape.events if event.after is None]
        waiting = [event for event in self.tape.events if event.after is not None]
        return sorted([*timed, *turns, *own], key=lambda event: event.at), waiting

    def _ends(self, until: timedelta | None) -> datetime:
        """Some time after the last one on the tape; later while it has something left to say, and time to say it."""
        if until is not None:
            return self.tape.starts + until
        last = _last_time(self.tape)
        ends = last + _AFTER
        if self.clock() < ends:
            return ends
        paths = self.tape.goes_on(self.clock())
        machine = self.console.machine(self.run_id)
        is_live = machine is not None and machine.state not in MACHINE.final
        if any("/billing/" in path for path in paths) and machine is not None and machine.ask_sent_at is not None:
            most = last + min(_MOST_BILLS, GIVEN_UP)
        else:
            most = last + _MOST_AFTER if paths and is_live else ends
        return min(most, self.clock() + _AFTER)

    # What happens.

    def _begin(self) -> None:
        if (machine := self.console.machine(self.run_id)) is not None:
            if not self.tape.has_trainer and machine.started_at is not None:
                self._work_on(machine)
        elif not self._launches_itself():
            self._try(self._launch)
        self.console.restart()
        self._note("start")

    def _launches_itself(self) -> bool:
        """Whether the first thing that anybody does on the tape is a launch, and not another one."""
        acts = [(act, event.text.lower()) for event in self.tape.events if (act := act_in(event.text)) is not None]
        return bool(acts) and acts[0][0] is Act.LAUNCH and not re.search(r"\bagain\b|\bretry\b", acts[0][1])

    def _work_on(self, machine: MachineView) -> None:
        """As far as the run's state says, its trainer has come."""
        now, state = self.clock().isoformat(), self.console.run(self.run_id).state.value
        step = next((int(m[1]) for e in self.tape.events if (m := _STEP.search(e.text))), 1)
        if state == "training":
            self.trainer.train(machine, int(self.tape.run.get("step") or step), now)
        elif state == "preparing":
            self.trainer.prepare(machine, now)
        elif state == "packaging":
            self.trainer.pack(machine, now)

    def _to(self, at: datetime, waiting: list[Event]) -> None:
        """Let time pass up to then: the next promise, or the next word of the trainer, one after the other."""
        while self.clock() < at:
            self._speak()
            due = None if self.off_until is not None else self.console.next_due()
            own = None if due is None else due - self.ahead
            times = [at, *(t for t in (own, self.word_due, self.off_until, self.cut_until) if t is not None)]
            self.clock.at = min(at, max(min(times), self.clock() + timedelta(milliseconds=250)))
            self._wake()
            self._speak()
            self._work()
            self._note_change()
            for event in [one for one in waiting if self.tape.has_happened(str(one.after), self.clock())]:
                waiting.remove(event)
                self._live(event)

    def _wake(self) -> None:
        if self.off_until is not None and self.clock() >= self.off_until:
            self.off_until = None
            self.console.restart()
        if self.cut_until is not None and self.clock() >= self.cut_until:
            self.cut_until, self.wire.is_cut = None, False

    def _work(self) -> None:
        if self.off_until is None:
            self.console.work()

    def _live(self, event: Event) -> None:
        """Just before an event, and after it, somebody looks."""
        if event.is_turn:
            self._note(event.text)
            self._work()
            return
        if not self.played.marks or self.played.end.at != self._at():
            self._note("")
        self.tape.note_word(event.text)
        if (act := act_in(event.text)) is not None:
            self._try(lambda: self._do(act, event.text))
        self._work()
        self._note(event.text)

    def _try(self, act: Callable[[], None]) -> None:
        """What the console refuses is a part of what a person sees."""
        try:
            act()
        except TensorantError as error:
            self.played.facts.setdefault("refused", []).append(str(error))

    def _do(self, act: Act, text: str) -> None:
        machine = self.console.machine(self.run_id)
        if act in _BUTTONS:
            self._press(_BUTTONS[act])
        elif act is Act.LAUNCH or (act is Act.DRAFT_AGAIN and "launch" in text.lower()):
            self._launch()
        elif act is Act.EXTEND:
            hours = self.console.run(self.run_id).runtime_limit_hours + _LONGER
            self._press(lambda session, caller, run_id: recoveries.extend_run(session, caller, run_id, min(hours, 72)))
        elif act is Act.RETRY_CLEANUP and machine is not None:
            machine_id = machine.id
            self._press(lambda session, caller, run_id: machine_actions.retry_cleanup(session, caller, machine_id))
        elif act is Act.TERMINATE:
            self._terminate(text)
        elif act is Act.WATCH and machine is not None:
            watched_id = machine.id
            self._press(lambda session, caller, run_id: machine_actions.watch_machine(session, caller, watched_id))
        elif act is Act.SAVE_KEY:
            self.tape.note_word("new key")
            self.console.save_key("rpa_ANOTHERKEY000005678")
            accept_key()
        elif act is Act.FINISH and machine is not None and machine.held_at is not None:
            self.trainer.finish(machine, None, self.clock().isoformat())
        else:
            self._befall(act, text)

    def _terminate(self, text: str) -> None:
        """The unknown machines whose ids the text names; all where it names none."""
        with unit_of_work() as session:
            found = strays.list_strays(session, self.console.caller)
            named = [one for one in found if one.provider_id in text]
            for one in named or found:
                strays.terminate_stray(session, self.console.caller, one.id)

    def _befall(self, act: Act, text: str) -> None:
        """What happens to the server, until a time that the text names; else for the span that it names."""
        named = [at for at in times_in(text, self.tape.starts) if at > self.clock()]
        span = span_in(re.sub(r"\+\S+", "", text))
        ends = named[-1] if named else self.clock() + span if span else datetime.max.replace(tzinfo=self.clock().tzinfo)
        if act is Act.RESTART:
            self.console.restart()
        elif act is Act.OFF:
            self.off_until = ends
        elif act is Act.ON:
            self.off_until, self.cut_until, self.wire.is_cut = None, None, False
            self.console.restart()
        elif act is Act.CUT:
            self.cut_until, self.wire.is_cut = ends, True
        elif act is Act.CLOCK:
            self.ahead += -span if re.search(r"\bback(wards?)?\b", text.lower()) else span

    def _launch(self) -> None:
        state = self.console.run(self.run_id).state
        if state in runs.LIFECYCLE.final:
            self.run_id = self.console.draft(limit=None)
            self.wire.our_name = f"tune-{self.run_id}"
        self.console.launch(self.run_id, evaluates=False)
        self._work()

    def _press(self, button: Callable[[Session, Caller, UUID], None]) -> None:
        with unit_of_work() as session:
            button(session, self.console.caller, self.run_id)

    # The trainer.

    def _speak(self) -> None:
        """The next message, once the machine is there and its time has come; where none are written, a trainer that works."""
        machine = self.console.machine(self.run_id)
        if machine is None or machine.state in {MachineState.ASKED, *MACHINE.final}:
            return
        is_there = machine.state is MachineState.HELD and machine.presence is Presence.PRESENT
        is_up = is_there and machine.container_began_at is not None
        is_alone = not self.words and (not self.tape.has_trainer or machine.attempt > 1)
        if is_alone and is_up and machine.result is None:
            if machine.started_at is None and machine.status is None:
                self.trainer.train(machine, 1, self.console.now().isoformat())
            self.trainer.obey(machine, self.console.now().isoformat())
        if not self.words:
            return
        self.word_due = self.word_due or self.words[0].at or self.clock() + _BETWEEN_WORDS
        if self.clock() >= self.word_due:
            self._say(machine)

    def _say(self, machine: MachineView) -> None:
        says = self.words.pop(0).says
        self.trainer.hear(machine, says, self.console.now().isoformat())
        if re.search(r"container.*(restart|again)|exit", str(says.get("event", "")).lower()):
            # Of a machine that the tape tells nothing else of: its container begins anew.
            self.wire.began |= {pod: self.clock() for pod in self.wire.began}
        self.word_due = (self.words[0].at or self.clock() + _BETWEEN_WORDS) if self.words else None

    # What is seen.

    def _at(self) -> str:
        return self.clock().isoformat(timespec="seconds").replace("+00:00", "Z")

    def _note(self, event: str) -> None:
        self.last = glance(self.run_id)
        self.played.marks.append(look(self.console, self.run_id, self._at(), event))

    def _note_change(self) -> None:
        if glance(self.run_id) != self.last:
            self._note("")

    def _tell_facts(self) -> None:
        machine = self.console.machine(self.run_id)
        calls = self.wire.calls.items()
        self.played.facts |= {
            "posts": self.wire.calls["POST /v2/pods"],
            "deletes": sum(count for call, count in calls if call.startswith("DELETE /v2/pods/")),
            "touched": sorted({match[1] for call, _ in calls if (match := _TOUCHED.match(call))}),
            "attempts": self.console.run(self.run_id).attempt,
            "training_starts": len(self.trainer.starts),
            "steps": [list(step) for step in self.trainer.steps],
            "machine_name": machine.name if machine else None,
            "provider_id": machine.provider_id if machine else None,
            "boots": machine.boots if machine else None,
            "deadline": machine.deadline.isoformat().replace("+00:00", "Z") if machine else None,
            "history": history(self.run_id),
        }


_STEP = re.compile(r"step (\d+)(?: of (\d+))?")
_TOUCHED = re.compile(r"(?:DELETE|POST|PATCH) /v2/pods/([^/]+)")


def _total_steps(tape: Tape) -> int:
    found = [int(m[2]) for e in tape.events if (m := _STEP.search(e.text)) and m[2]]
    return found[0] if found else int(tape.run.get("steps") or 90)


def _last_time(tape: Tape) -> datetime:
    texts = [text for r in tape.replies for text in (r.until, r.since) if text]
    found = [at for text in texts if (at := time_in(text, tape.starts))]
    found += [at for event in tape.events for at in [event.at, *times_in(event.text, tape.starts)]]
    found += [word.at for word in tape.said if word.at is not None]
    if released := tape.run.get("released"):
        found.append(read_clock(str(released)))
    if (hours := hours_of(tape)) is not None and tape.run.get("pod") and not released:
        # A machine at work whose time is told: that time is a part of its story.
        began = read_clock(str(tape.run.get("started") or tape.starts.isoformat()))
        found.append(began + timedelta(hours=hours) + _PAST_DEADLINE - _AFTER)
    return max([tape.starts, *found])
