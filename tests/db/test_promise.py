"""Nothing promised is lost, nothing is looked at by two, and clocks may jump."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic, sleep
from uuid import UUID, uuid4

import pytest

from tensorant_app.db import promise as promises
from tensorant_app.db.promise import (
    HIDE,
    LEASE,
    Claim,
    Lease,
    LeaseLost,
    Promise,
    backoff,
    claim_due,
    ensure,
    free_held_by,
    promise,
    take_lease,
)
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.settings import get_settings
from tests.conftest import NOON, Clock

pytestmark = pytest.mark.usefixtures("database", "clock")

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def subject() -> UUID:
    return UUID(int=7)


def ask(subject: UUID, at: datetime | None = None, kind: str = "look") -> None:
    with unit_of_work() as session:
        promise(session, kind, subject, at)


def row(subject: UUID, kind: str = "look") -> Promise | None:
    with reading() as session:
        return session.get(Promise, (kind, subject))


def due_at(subject: UUID) -> datetime | None:
    found = row(subject)
    return found.due_at if found else None


def held(subject: UUID, clock: Clock) -> Lease:
    lease = take_lease("look", subject, clock.at)
    assert lease is not None
    return lease


def end(lease: Lease, again: datetime | None = None) -> None:
    with lease.write() as session:
        lease.again(session, again) if again else lease.done(session)


class TestPromise:
    def test_the_earlier_time_wins_whichever_came_first(self, subject: UUID) -> None:
        ask(subject, NOON + HOUR)
        ask(subject, NOON + MINUTE)
        ask(subject, NOON + 2 * HOUR)

        assert due_at(subject) == NOON + MINUTE

    def test_within_one_unit_of_work_too(self, subject: UUID) -> None:
        with unit_of_work() as session:
            promise(session, "look", subject, NOON + HOUR)
            promise(session, "look", subject, NOON + MINUTE)
            promise(session, "look", subject, NOON + 2 * HOUR)

        assert due_at(subject) == NOON + MINUTE

    def test_without_a_time_it_is_due_now(self, subject: UUID) -> None:
        ask(subject)

        assert claim_due() == [Claim("look", subject)]

    def test_kinds_and_subjects_are_promised_apart(self, subject: UUID) -> None:
        other = uuid4()
        ask(subject)
        ask(subject, kind="bill")
        ask(other)

        assert set(claim_due()) == {Claim("look", subject), Claim("bill", subject), Claim("look", other)}

    def test_units_of_work_that_promise_in_opposite_order_do_not_block_each_other(self) -> None:
        subjects = [uuid4() for _ in range(8)]
        failures: list[BaseException] = []

        def ask_all(order: list[UUID]) -> None:
            try:
                for _ in range(15):
                    with unit_of_work() as session:
                        for subject in order:
                            promise(session, "look", subject)
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=ask_all, args=(order,)) for order in (subjects, subjects[::-1])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert failures == []
        assert len(claim_due()) == 8


class TestClaim:
    def test_nothing_is_claimed_before_its_time(self, subject: UUID, clock: Clock) -> None:
        ask(subject, NOON + MINUTE)

        assert claim_due() == []
        clock.advance(minutes=1)
        assert claim_due() == [Claim("look", subject)]

    def test_what_is_claimed_is_hidden_for_a_while_and_then_sent_again(self, subject: UUID, clock: Clock) -> None:
        ask(subject)

        assert claim_due() == [Claim("look", subject)]
        assert claim_due() == []
        clock.at += HIDE
        assert claim_due() == [Claim("look", subject)]

    def test_the_oldest_come_first_when_there_are_too_many(self) -> None:
        subjects = [uuid4() for _ in range(5)]
        for minutes, subject in enumerate(subjects):
            ask(subject, NOON - minutes * MINUTE)

        assert {claim.subject_id for claim in claim_due(2)} == set(subjects[-2:])
        assert {claim.subject_id for claim in claim_due(2)} == set(subjects[1:3])

    def test_a_new_promise_of_something_hidden_is_sent_at_once(self, subject: UUID) -> None:
        ask(subject)
        claim_due()

        ask(subject)

        assert claim_due() == [Claim("look", subject)]

    def test_two_claimers_share_the_work(self) -> None:
        for _ in range(60):
            ask(uuid4())
        claimed: list[Claim] = []

        def claim_all() -> None:
            while claims := claim_due(5):
                claimed.extend(claims)

        threads = [threading.Thread(target=claim_all) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        claimed.extend(claim_due())

        assert len(claimed) == len(set(claimed)) == 60

    def test_what_is_held_is_not_claimed_until_its_lease_ran_out(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        held(subject, clock)

        clock.at += LEASE - SECOND
        assert claim_due() == []
        clock.at += SECOND
        assert claim_due() == [Claim("look", subject)]


class TestLease:
    def test_a_message_that_comes_twice_is_looked_at_once(self, subject: UUID, clock: Clock) -> None:
        ask(subject)

        lease = held(subject, clock)
        assert take_lease("look", subject, clock.at) is None
        end(lease)

        assert take_lease("look", subject, clock.at) is None
        assert row(subject) is None

    def test_a_late_message_does_not_look_before_the_next_time(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        end(held(subject, clock), again=NOON + MINUTE)

        assert take_lease("look", subject, clock.at) is None

    def test_a_message_of_a_worker_whose_clock_is_ahead_is_looked_at(self, subject: UUID, clock: Clock) -> None:
        ask(subject, NOON + 5 * SECOND)
        claim_due(now=NOON + 5 * SECOND)

        assert take_lease("look", subject, NOON) is not None

    def test_nothing_promised_is_no_lease(self, clock: Clock) -> None:
        assert take_lease("look", uuid4(), clock.at) is None

    def test_again_sets_the_next_time(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        end(held(subject, clock), again=NOON + MINUTE)

        assert due_at(subject) == NOON + MINUTE

    @pytest.mark.parametrize("again", [None, NOON + MINUTE])
    def test_what_is_asked_while_it_is_held_survives(self, subject: UUID, clock: Clock, again: datetime | None) -> None:
        ask(subject)
        lease = held(subject, clock)
        ask(subject)

        end(lease, again)

        assert claim_due() == [Claim("look", subject)]

    @pytest.mark.parametrize(
        ("asked", "again", "due"),
        [
            (NOON + HOUR, None, NOON + HOUR),
            (NOON + HOUR, NOON + MINUTE, NOON + MINUTE),
            (NOON + MINUTE, NOON + HOUR, NOON + MINUTE),
        ],
    )
    def test_what_is_asked_for_later_while_it_is_held_keeps_its_own_time(
        self, subject: UUID, clock: Clock, asked: datetime, again: datetime | None, due: datetime
    ) -> None:
        ask(subject)
        lease = held(subject, clock)
        ask(subject, asked)

        end(lease, again)

        assert due_at(subject) == due

    def test_what_the_write_itself_promises_survives_done(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        lease = held(subject, clock)

        with lease.write() as session:
            promise(session, "look", subject, NOON + MINUTE)
            lease.done(session)

        assert due_at(subject) == NOON + MINUTE

    def test_a_write_that_says_neither_keeps_the_lease_and_renews_it(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        lease = held(subject, clock)
        clock.at += LEASE - SECOND

        with lease.write() as session:
            promise(session, "other", subject)

        assert lease.is_open
        clock.at += LEASE - SECOND
        assert take_lease("look", subject, clock.at) is None
        end(lease)
        assert not lease.is_open

    def test_a_lost_lease_writes_nothing(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        slow = held(subject, clock)
        clock.at += LEASE
        quick = held(subject, clock)

        with pytest.raises(LeaseLost), slow.write() as session:  # noqa: PT012
            promise(session, "other", subject)
            slow.done(session)
        with pytest.raises(LeaseLost):
            slow.renew()
        slow.release_after_error(OSError("late"))

        assert row(subject, "other") is None
        end(quick, again=NOON + HOUR)
        found = row(subject)
        assert found is not None
        assert (found.due_at, found.tries) == (NOON + HOUR, 0)

    def test_a_lease_lost_during_the_write_takes_everything_back(
        self, subject: UUID, clock: Clock, database: str
    ) -> None:
        if database.startswith("sqlite"):
            pytest.skip("SQLite has one writer: nobody can come in between.")
        ask(subject)
        slow = held(subject, clock)

        with pytest.raises(LeaseLost), slow.write() as session:  # noqa: PT012
            promise(session, "other", subject)
            slow.done(session)
            thief = threading.Thread(target=take_lease, args=("look", subject, clock.at + LEASE))
            thief.start()
            thief.join()

        assert row(subject, "other") is None
        assert row(subject) is not None

    def test_an_error_inside_the_write_keeps_the_lease(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        lease = held(subject, clock)

        with pytest.raises(LookupError), lease.write() as session:  # noqa: PT012
            lease.done(session)
            raise LookupError

        assert lease.is_open
        end(lease)
        assert row(subject) is None

    def test_done_belongs_inside_the_write(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        lease = held(subject, clock)

        with unit_of_work() as session, pytest.raises(RuntimeError, match="write"):
            lease.done(session)

    def test_an_unexpected_error_is_kept_and_tried_again_ever_later(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        for tries in (1, 2, 3):
            held(subject, clock).release_after_error(OSError("no route"))

            found = row(subject)
            assert found is not None
            assert (found.tries, found.reason, found.due_at) == (tries, "OSError: no route", clock.at + backoff(tries))
            clock.at = found.due_at

        end(held(subject, clock), again=clock.at + MINUTE)
        found = row(subject)
        assert found is not None
        assert (found.tries, found.reason) == (0, None)


class TestClock:
    def test_a_promise_written_before_the_clock_went_back_is_due(self, subject: UUID, clock: Clock) -> None:
        ask(subject, NOON + MINUTE)
        clock.advance(hours=-1)

        assert claim_due() == [Claim("look", subject)]
        assert take_lease("look", subject, clock.at) is not None

    def test_a_later_promise_does_not_hide_it(self, subject: UUID, clock: Clock) -> None:
        ask(subject, NOON + MINUTE)
        clock.advance(hours=-1)
        ask(subject, clock.at + 10 * MINUTE)

        assert claim_due() == [Claim("look", subject)]

    def test_a_far_promise_by_a_right_clock_is_not_due(self, subject: UUID) -> None:
        ask(subject, NOON + timedelta(days=300))

        assert claim_due() == []

    def test_a_small_step_back_only_waits_that_much_longer(self, subject: UUID, clock: Clock) -> None:
        ask(subject, NOON + MINUTE)
        clock.advance(seconds=-30)

        assert claim_due() == []

    def test_a_lease_that_ends_implausibly_late_is_broken(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        held(subject, clock)
        clock.advance(hours=-1)

        assert claim_due() == [Claim("look", subject)]
        assert take_lease("look", subject, clock.at) is not None

    def test_what_is_hidden_implausibly_long_is_sent_again(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        claim_due()
        clock.advance(hours=-1)

        assert claim_due() == [Claim("look", subject)]

    def test_a_holder_with_a_fast_clock_that_dies_leaves_it_due_whoever_asked_meanwhile(
        self, subject: UUID, clock: Clock
    ) -> None:
        ask(subject)
        held(subject, clock)
        clock.advance(hours=-1)
        ask(subject)

        assert claim_due() == [Claim("look", subject)]

    def test_what_was_asked_while_held_by_a_clock_that_was_ahead_is_due(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        lease = held(subject, clock)
        ask(subject, NOON + MINUTE)
        clock.advance(hours=-1)

        end(lease)

        assert due_at(subject) == clock.at


class TestKeeping:
    def test_a_kept_lease_outlives_its_time_and_ends_with_the_block(
        self, subject: UUID, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(promises, "KEEP_EVERY", timedelta(milliseconds=10))
        ask(subject)
        lease = held(subject, clock)
        before = row(subject)
        assert before is not None

        with lease.kept():
            clock.at += LEASE - SECOND
            wait_for_renewal(subject, before.lease_until)
            clock.at += LEASE - SECOND
            assert take_lease("look", subject, clock.at) is None
            end(lease)

        assert row(subject) is None
        assert not any(thread.name == "keeper" for thread in threading.enumerate())

    def test_a_lost_lease_is_not_taken_back(self, subject: UUID, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(promises, "KEEP_EVERY", timedelta(milliseconds=1))
        ask(subject)
        slow = held(subject, clock)
        clock.at += LEASE
        quick = held(subject, clock)

        with slow.kept():
            sleep(0.05)

        with pytest.raises(LeaseLost), slow.write():
            pass
        end(quick)


class TestEnsuring:
    def test_what_is_promised_for_later_is_not_brought_forward(self, subject: UUID) -> None:
        ask(subject, NOON + HOUR)

        with unit_of_work() as session:
            ensure(session, "look", [subject])

        assert due_at(subject) == NOON + HOUR

    def test_what_is_not_promised_is_due_at_once(self, subject: UUID) -> None:
        other = uuid4()
        ask(subject, NOON + HOUR)

        with unit_of_work() as session:
            ensure(session, "look", [other, subject])

        assert claim_due() == [Claim("look", other)]

    def test_what_is_held_stays_with_its_holder(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        lease = held(subject, clock)

        with unit_of_work() as session:
            ensure(session, "look", [subject])

        end(lease)
        assert row(subject) is None


class TestADeadWorker:
    @pytest.fixture
    def as_worker(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
        def become(name: str) -> None:
            monkeypatch.setenv("TENSORANT_WORKER", name)
            get_settings.cache_clear()

        return become

    def test_its_leases_alone_are_given_up(self, subject: UUID, clock: Clock, as_worker: Callable[[str], None]) -> None:
        other = uuid4()
        ask(subject)
        ask(other)
        as_worker("dead")
        held(subject, clock)
        as_worker("alive")
        held(other, clock)

        free_held_by("dead")

        assert claim_due() == [Claim("look", subject)]
        assert take_lease("look", other, clock.at) is None

    def test_what_it_would_write_later_is_lost(
        self, subject: UUID, clock: Clock, as_worker: Callable[[str], None]
    ) -> None:
        ask(subject)
        as_worker("dead")
        lease = held(subject, clock)

        free_held_by("dead")

        with pytest.raises(LeaseLost), lease.write():
            pass

    def test_leases_of_processes_without_a_name_stay(self, subject: UUID, clock: Clock) -> None:
        ask(subject)
        lease = held(subject, clock)

        free_held_by("dead")

        end(lease)


def wait_for_renewal(subject: UUID, before: datetime | None) -> None:
    give_up_at = monotonic() + 5
    while (found := row(subject)) is None or found.lease_until == before:
        assert monotonic() < give_up_at, "It was not renewed."
        sleep(0.005)


def test_backoff_starts_at_a_second_and_stops_at_five_minutes() -> None:
    assert [backoff(tries).total_seconds() for tries in (1, 2, 3, 9, 10, 10_000)] == [1, 2, 4, 256, 300, 300]
