"""A thread beside the work: writes the heartbeat, hears the console, ends a process that hangs past its deadline."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import FrameType

from trainer.attempt import Attempt, Ending
from trainer.contract import CONSOLE, STATUS, Ask, Failure, Outcome, Phase, Status, Words, dump, load, write_file
from trainer.events import now
from trainer.ranks import lost_rank

TICK = 1.0
"""Seconds between two looks at the console's words, and two heartbeats."""
ALONE = 20.0
"""Seconds that the work has to notice that another process of it is gone."""
HANG = 60.0
"""Seconds after the deadline after which the work is taken to hang."""


class Halt(Exception):
    """The console, or a deadline, wants the process to end now."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(outcome.value)


@dataclass(slots=True)
class Watchdog:
    """`wanted` is asked by the work at each micro batch; nothing else ends it from outside but a hang."""

    attempt: Attempt
    tick: float = TICK
    hang: float = HANG
    leave: Callable[[int], None] = os._exit
    others: int = 1
    """Processes that train together, where this is the first of them."""
    status: Status = field(init=False)
    _words: Words = field(init=False, default_factory=lambda: Words(-1, Ask.NONE, None))
    _deadline: float | None = field(init=False, default=None)
    _signalled: bool = field(init=False, default=False)
    _alone_since: float | None = field(init=False, default=None)
    _ended: threading.Event = field(init=False, default_factory=threading.Event)
    _writing: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        held = self.attempt
        self.status = Status(
            held.machine,
            held.number,
            held.boot,
            Phase.PREPARING,
            now(),
            provider_id=os.environ.get("RUNPOD_POD_ID", ""),
        )

    def start(self) -> None:
        signal.signal(signal.SIGTERM, self._on_signal)
        self._listen()
        self._beat()
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def end(self) -> None:
        self._ended.set()
        self.enter(Phase.ENDED)

    def enter(self, phase: Phase) -> None:
        """A new phase is told at once."""
        self.status = replace(self.status, phase=phase, done=0, total=0)
        self._beat()

    def update(self, **changes: float | int | None) -> None:
        """New figures, told with the next heartbeat."""
        self.status = replace(self.status, **changes)  # type: ignore[arg-type]

    def wanted(self) -> Outcome | None:
        """How the process should end now; None to go on. A deadline outweighs a pause, a stop outweighs both."""
        if self._signalled or self._words.ask is Ask.STOP:
            return Outcome.STOPPED
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return Outcome.OVERRUN
        return Outcome.PAUSED if self._words.ask is Ask.PAUSE else None

    def check(self) -> None:
        """For work that has nothing to save."""
        if outcome := self.wanted():
            raise Halt(outcome)

    def _run(self) -> None:
        while not self._ended.wait(self.tick):
            self._listen()
            self._beat()
            if self._deadline is not None and time.monotonic() >= self._deadline + self.hang:
                self._give_up(Outcome.OVERRUN, None, "The work did not react within its deadline")
            elif (failure := self._neighbour()) is not None:
                self._give_up(Outcome.FAILED, failure, failure.message.rstrip("."))

    def _neighbour(self) -> Failure | None:
        """Why the work waits for another process in vain; it has a while to notice by itself."""
        failure = lost_rank(self.attempt, self.others) if self.others > 1 else None
        self._alone_since = None if failure is None else self._alone_since or time.monotonic()
        waited = 0.0 if self._alone_since is None else time.monotonic() - self._alone_since
        return failure if waited >= ALONE else None

    def _give_up(self, outcome: Outcome, failure: Failure | None, why: str) -> None:
        at = self.status
        if self.attempt.finish(Ending(outcome, failure, step=at.step, total_steps=at.total_steps)):
            print(f"{why}; the watchdog ended it.", file=sys.stderr, flush=True)
            self.leave(0)
        self._ended.set()

    def _listen(self) -> None:
        try:
            words = load(Words, (self.attempt.inputs / CONSOLE).read_text())
        except (OSError, ValueError, TypeError):
            return  # none written yet, or a network volume between two versions: the last words stand
        if words.seq > self._words.seq:
            self._deadline = on_monotonic_clock(words.deadline)
            self._words = words

    def _beat(self) -> None:
        with self._writing:
            elapsed = round(time.monotonic() - self.attempt.began, 1)
            beat = replace(self.status, at=now(), elapsed=elapsed)
            try:
                write_file(self.attempt.outputs / STATUS, dump(beat))
            except OSError as error:  # a full disk ends the work by itself, a missed heartbeat does not
                print(f"The heartbeat could not be written: {error}", file=sys.stderr, flush=True)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signalled = True


def on_monotonic_clock(deadline: str | None) -> float | None:
    """Taken once for each new word, so that a clock set back later does not lengthen a run."""
    if deadline is None:
        return None
    at = datetime.fromisoformat(deadline)
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return time.monotonic() + (at - datetime.now(UTC)).total_seconds()
