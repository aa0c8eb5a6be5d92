"""Whatever a job does, its promise is kept."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID, uuid4

import dramatiq
import pytest
import redis

from jobs import broker, worker
from jobs.broker import Job, actor, perform, send, set_up_broker
from jobs.tick import send_due
from tensorant_app.db import session as sessions
from tensorant_app.db.promise import Lease, Promise, backoff, promise, take_lease
from tensorant_app.db.session import reading, unit_of_work
from tests.conftest import NOON, Clock
from tests.jobs.conftest import wait_for

SUBJECT = UUID(int=7)


def ask(kind: str = "test.look", subject: UUID = SUBJECT) -> None:
    with unit_of_work() as session:
        promise(session, kind, subject)


def row(kind: str = "test.look") -> Promise | None:
    with reading() as session:
        return session.get(Promise, (kind, SUBJECT))


@pytest.mark.usefixtures("database", "clock", "no_jobs")
class TestPerform:
    def test_the_function_gets_the_lease_and_comes_back_unchanged(self) -> None:
        seen: list[UUID] = []

        @actor("test.look")
        def look(lease: Lease) -> None:
            seen.append(lease.subject_id)
            with lease.write() as session:
                lease.done(session)

        ask()
        perform("test.look", str(SUBJECT))
        perform("test.look", str(SUBJECT))

        assert seen == [SUBJECT]
        assert row() is None
        assert look.__name__ == "look"

    def test_a_promise_that_another_worker_holds_is_left_to_it(self, clock: Clock) -> None:
        @actor("test.look")
        def look(lease: Lease) -> None:
            raise AssertionError(lease)

        ask()
        take_lease("test.look", SUBJECT, clock.at)
        perform("test.look", str(SUBJECT))

        assert getattr(row(), "tries", None) == 0

    def test_an_unexpected_error_is_logged_under_an_id_and_tried_again(self, caplog: pytest.LogCaptureFixture) -> None:
        @actor("test.look")
        def look(lease: Lease) -> None:
            raise OSError("no route")

        ask()
        perform("test.look", str(SUBJECT))

        found = row()
        assert found is not None
        assert (found.reason, found.due_at) == ("OSError: no route", NOON + backoff(1))
        (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert "test.look" in record.message
        assert record.exc_info is not None

    def test_a_job_that_forgets_to_close_its_lease_is_a_bug_that_shows(self) -> None:
        @actor("test.look")
        def look(lease: Lease) -> None:
            with lease.write():
                pass

        ask()
        perform("test.look", str(SUBJECT))

        found = row()
        assert found is not None
        assert "without saying when to look again" in str(found.reason)
        assert found.lease_token is None

    def test_what_a_job_found_after_it_lost_its_lease_is_thrown_away(self, clock: Clock) -> None:
        @actor("test.look")
        def look(lease: Lease) -> None:
            clock.advance(minutes=2)
            assert take_lease("test.look", SUBJECT, clock.at) is not None
            with lease.write() as session:
                promise(session, "test.other", SUBJECT)
                lease.done(session)

        ask()
        perform("test.look", str(SUBJECT))

        found = row()
        assert found is not None
        assert (found.tries, found.reason) == (0, None)
        assert row("test.other") is None

    def test_an_error_after_the_lease_was_closed_keeps_what_was_written(self) -> None:
        @actor("test.look")
        def look(lease: Lease) -> None:
            with lease.write() as session:
                lease.again(session, NOON + timedelta(hours=1))
            raise OSError("too late to matter")

        ask()
        perform("test.look", str(SUBJECT))

        found = row()
        assert found is not None
        assert (found.due_at, found.tries) == (NOON + timedelta(hours=1), 0)


def test_two_functions_for_one_kind_are_refused(no_jobs: dict[str, Job]) -> None:
    actor("test.look")(print)  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=r"test\.look"):
        actor("test.look")(repr)  # type: ignore[arg-type]


def test_every_actor_of_ours_is_found(data_dir: object) -> None:
    broker.load_actors()

    assert set(broker.JOBS) >= {"machines.tend"}
    assert {job.queue for job in broker.JOBS.values()} <= set(broker.TIME_LIMITS)


@pytest.fixture
def running(
    broker_url: str | None, no_jobs: dict[str, Job], sqlite_database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """Workers at work on two jobs; the list grows as they are done."""
    monkeypatch.setattr(worker, "IDLE_MS", 50)
    done: list[str] = []

    def note(lease: Lease) -> None:
        done.append(lease.kind)
        with lease.write() as session:
            lease.done(session)

    no_jobs["test.quick"] = Job("test.quick", "fast", note)
    no_jobs["test.long"] = Job("test.long", "slow", note)
    running_broker = set_up_broker(broker_url)
    workers = worker.start_workers(running_broker)
    sessions.set_hint_sender(send)
    yield done
    sessions.set_hint_sender(None)
    worker.stop_workers(running_broker, workers)


class TestQueues:
    def test_a_promise_is_looked_at_soon_after_its_commit(self, running: list[str]) -> None:
        ask("test.quick")
        ask("test.long")

        wait_for(lambda: sorted(running) == ["test.long", "test.quick"])

    def test_long_jobs_leave_threads_for_quick_ones(self, running: list[str], no_jobs: dict[str, Job]) -> None:
        gate = threading.Event()

        def block(lease: Lease) -> None:
            gate.wait(10)
            with lease.write() as session:
                lease.done(session)

        no_jobs["test.long"] = Job("test.long", "slow", block)
        for _ in range(20):
            ask("test.long", uuid4())
        ask("test.quick")

        wait_for(lambda: running == ["test.quick"])
        gate.set()

    def test_a_message_about_something_unknown_is_not_sent(self, running: list[str]) -> None:
        ask("test.unknown")
        ask("test.quick")

        wait_for(lambda: running == ["test.quick"])

    def test_a_job_over_its_time_is_stopped_and_promised_again(
        self, running: list[str], no_jobs: dict[str, Job], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def spin(lease: Lease) -> None:
            while True:
                threading.Event().wait(0.01)

        no_jobs["test.quick"] = Job("test.quick", "fast", spin)
        dramatiq.get_broker().get_actor("test.quick").options["time_limit"] = 200
        ask("test.quick")

        wait_for(lambda: "TimeLimitExceeded" in str(getattr(row("test.quick"), "reason", "")))


def test_a_hint_that_cannot_be_sent_breaks_nothing(
    sqlite_database: str, no_jobs: dict[str, Job], tmp_path: object
) -> None:
    no_jobs["test.look"] = Job("test.look", "fast", lambda lease: None)
    lonely = set_up_broker(f"unix://{tmp_path}/nobody.sock")
    sessions.set_hint_sender(send)

    ask()

    assert row() is not None
    lonely.close()


def test_a_flushed_redis_loses_nothing(redis_url: str, running: list[str]) -> None:
    sessions.set_hint_sender(None)
    ask("test.quick")
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()

    assert send_due(send) == 1
    wait_for(lambda: running == ["test.quick"])
