"""Hypothesis looks for a story of crashes, lost messages and clock jumps in which a change is never seen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy.sql import visitors

from tensorant_app.db import clock as clocks
from tensorant_app.db import promise_rows
from tensorant_app.db.promise import Claim, Lease, LeaseLost, Promise, claim_due, promise, take_lease
from tensorant_app.db.promise_rows import Prepared
from tensorant_app.db.session import unit_of_work
from tests.conftest import NOON, Clock

SUBJECTS = [UUID(int=n) for n in range(2)]
PATIENCE = timedelta(minutes=15)
"""Within this everything must have been seen, however the clock jumped: leases and hiding end sooner."""

subjects = st.sampled_from(SUBJECTS)
delays = st.sampled_from([0, 1, 30, 90]).map(lambda seconds: timedelta(seconds=seconds))
jumps = st.sampled_from([0, 0, 0, 0, 0, -3600, 3600, -300, -90, 300]).map(lambda seconds: timedelta(seconds=seconds))
crashes = st.sampled_from(["", "", "", "taken", "looked", "writing", "error"])


class Crash(BaseException):
    """The process is gone at this instruction; what was committed stays."""


class Story(RuleBasedStateMachine):
    """Members change rows and promise a look; workers look and write down what they saw."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock(NOON)
        clocks.set_source(self.clock)
        with unit_of_work() as session:
            session.execute(sa.delete(Promise))
        self.changed = dict.fromkeys(SUBJECTS, 0)
        self.seen = dict.fromkeys(SUBJECTS, 0)
        self.messages: list[Claim] = []
        self.holder: dict[UUID, Lease] = {}

    @initialize()
    def begin(self) -> None:
        self.change(SUBJECTS[0], timedelta(0), is_lost=False)

    @rule(subject=subjects, delay=delays, is_lost=st.booleans())
    def change(self, subject: UUID, delay: timedelta, is_lost: bool) -> None:
        """A member changes a row and promises a look in the same transaction, which may not commit."""
        with suppress(Crash), unit_of_work() as session:
            promise(session, "look", subject, self.clock.at + delay)
            if is_lost:
                raise Crash
            self.changed[subject] += 1

    @rule(is_lost=st.booleans(), is_doubled=st.booleans())
    def tick(self, is_lost: bool, is_doubled: bool) -> None:
        """The broker may lose what it was sent, or deliver it twice."""
        claims = claim_due()
        self.messages += [] if is_lost else claims * (2 if is_doubled else 1)

    @rule(
        order=st.integers(0, 100),
        crash=crashes,
        jump=jumps,
        slow=st.sampled_from([0, 0, 20, 80]),
        change=st.one_of(st.none(), delays),
        again=st.one_of(st.none(), delays),
    )
    def work(
        self, order: int, crash: str, jump: timedelta, slow: int, change: timedelta | None, again: timedelta | None
    ) -> None:
        """One message: the crash, the jump and the change in the middle belong to the step."""
        if not self.messages:
            # Else most steps would find nothing to do, and faults would hardly ever meet.
            self.change(SUBJECTS[order % len(SUBJECTS)], timedelta(0), is_lost=False)
            self.tick(is_lost=False, is_doubled=order % 3 == 0)
        if not self.messages:
            return
        subject = self.messages.pop(order % len(self.messages)).subject_id
        lease = take_lease("look", subject, self.clock.at)
        if lease is None:
            return
        self.holder[subject] = lease
        if crash == "taken":
            return
        found = self.changed[subject]
        if change is not None:
            self.change(subject, change, is_lost=False)
        self.clock.at += jump + timedelta(seconds=slow)
        if slow > 60:
            self.tick(is_lost=False, is_doubled=False)
            self.rival(subject, again)
        if crash == "looked":
            return
        if crash == "error":
            lease.release_after_error(OSError("a bug"))
            return
        self.write(lease, found, again, is_lost=crash == "writing")

    def write(self, lease: Lease, found: int, again: timedelta | None, *, is_lost: bool) -> None:
        is_ours = self.holder[lease.subject_id] is lease
        try:
            with lease.write() as session:
                lease.done(session) if again is None else lease.again(session, self.clock.at + again)
                if is_lost:
                    raise Crash
        except Crash:
            return
        except LeaseLost:
            assert not is_ours, "Nobody took the lease, yet it was lost."
            return
        assert is_ours, "Two workers wrote what they found."
        self.seen[lease.subject_id] = found

    def rival(self, subject: UUID, again: timedelta | None) -> None:
        """Another worker, while the first is slow: it looks and writes, if it gets the lease."""
        lease = take_lease("look", subject, self.clock.at)
        if lease is not None:
            self.holder[subject] = lease
            self.write(lease, self.changed[subject], again, is_lost=False)

    @rule(seconds=st.sampled_from([1, 10, 70]), jump=jumps)
    def wait(self, seconds: int, jump: timedelta) -> None:
        self.clock.at += timedelta(seconds=seconds) + jump

    @invariant()
    def nothing_is_seen_before_it_was(self) -> None:
        assert all(self.seen[subject] <= self.changed[subject] for subject in SUBJECTS)

    def teardown(self) -> None:
        """All is well again: every change is seen soon, and then nothing is left to do."""
        self.messages.clear()
        patience = PATIENCE
        while self.seen != self.changed and patience > timedelta(0):
            self.tick(is_lost=False, is_doubled=False)
            for message in self.messages:
                self.rival(message.subject_id, None)
            self.messages.clear()
            patience -= timedelta(seconds=10)
            self.clock.at += timedelta(seconds=10)
        clocks.set_source(None)
        assert self.seen == self.changed


def tell(stories: int) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Story,
        settings=settings(
            max_examples=stories,
            stateful_step_count=25,
            phases=[Phase.generate],
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.usefixtures("sqlite_database")
def test_no_story_ends_with_a_change_that_nobody_saw() -> None:
    tell(stories=80)


def asks_for_no_token(patch: pytest.MonkeyPatch) -> None:
    def put(part: Any, **_: Any) -> sa.ColumnElement[bool] | None:
        return sa.true() if part is promise_rows._IS_OUR_TOKEN else None

    for name in ("IS_OURS", "HOLD", "FREE", "FREE_AS_ASKED", "DELETE"):
        statement = getattr(promise_rows, name).statement
        freed = visitors.replacement_traverse(statement, {}, put)  # type: ignore[call-overload]
        patch.setattr(promise_rows, name, Prepared.of(freed))
    patch.setattr(Lease, "_who", lambda lease: {"the_kind": lease.kind, "the_subject": lease.subject_id})


def takes_a_year(*names: str) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for name in names:
            patch.setitem(promise_rows._OFFSETS, name, timedelta(days=365 * (4 if name.startswith("long") else 1)))

    return plant


def deletes_what_came_meanwhile(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(promise_rows, "DELETE", Prepared.of(sa.delete(Promise).where(promise_rows._IS_LEASED)))


MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "done deletes what was asked meanwhile": deletes_what_came_meanwhile,
    "anybody may write": asks_for_no_token,
    "a fast clock is believed": takes_a_year("after_slack"),
    "a lease is for ever": takes_a_year("after_lease", "long_after_lease"),
    "a message is never sent again": takes_a_year("after_hiding", "long_after_hiding"),
}


@pytest.mark.usefixtures("sqlite_database")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_rule_is_needed(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[mutant](monkeypatch)
    with pytest.raises((AssertionError, sa.exc.SQLAlchemyError)):
        tell(stories=80)
    clocks.set_source(None)
