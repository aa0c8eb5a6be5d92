"""What is due is sent after the commit; the pulse survives every error."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest

from jobs import tick
from jobs.tick import Tick, send_due
from tensorant_app.db.promise import promise
from tensorant_app.db.session import unit_of_work
from tests.conftest import Clock
from tests.jobs.conftest import wait_for


def ask(subject: UUID) -> None:
    with unit_of_work() as session:
        promise(session, "look", subject)


@pytest.fixture
def rederivers(monkeypatch: pytest.MonkeyPatch) -> list[tick.Rederive]:
    monkeypatch.setattr(tick, "REDERIVERS", [])
    return tick.REDERIVERS


@pytest.fixture
def started(sqlite_database: str, rederivers: list[tick.Rederive]) -> Iterator[list[Tick]]:
    """Threads to stop at the end."""
    threads: list[Tick] = []
    yield threads
    for thread in threads:
        thread.stop()
        assert not thread.is_alive()


class TestSendDue:
    def test_what_it_sends_is_claimed_already(self, database: str, clock: Clock) -> None:
        subject = uuid4()
        ask(subject)
        nested: list[int] = []

        def send(kind: str, subject_id: UUID) -> None:
            assert (kind, subject_id) == ("look", subject)
            nested.append(send_due(send))

        assert send_due(send) == 1
        assert nested == [0]

    def test_what_a_broker_that_is_down_did_not_take_is_sent_by_the_next_pulse(
        self, database: str, clock: Clock
    ) -> None:
        for _ in range(3):
            ask(uuid4())
        sent: list[UUID] = []

        def take_one(kind: str, subject_id: UUID) -> None:
            if sent:
                raise ConnectionError
            sent.append(subject_id)

        with pytest.raises(ConnectionError):
            send_due(take_one)

        assert send_due(lambda _, subject_id: sent.append(subject_id)) == 2
        assert len(set(sent)) == 3


class TestTick:
    def test_it_sends_within_a_moment(self, started: list[Tick]) -> None:
        sent: list[UUID] = []
        started.append(Tick(lambda _, subject_id: sent.append(subject_id)))
        started[0].start()
        subject = uuid4()

        ask(subject)

        wait_for(lambda: sent == [subject], seconds=3)

    def test_an_error_does_not_stop_it(self, started: list[Tick]) -> None:
        sent: list[UUID] = []

        def send(_: str, subject_id: UUID) -> None:
            sent.append(subject_id)
            if len(sent) == 1:
                raise ConnectionError

        started.append(Tick(send))
        started[0].start()
        ask(uuid4())
        wait_for(lambda: len(sent) == 1, seconds=3)
        ask(uuid4())

        wait_for(lambda: len(set(sent)) == 2, seconds=3)
        assert len(sent) == 3

    def test_it_rederives_at_its_start_though_one_of_the_functions_fails(
        self, started: list[Tick], rederivers: list[tick.Rederive]
    ) -> None:
        called: list[str] = []

        @tick.rederive
        def fails() -> None:
            called.append("fails")
            raise LookupError

        @tick.rederive
        def works() -> None:
            called.append("works")

        started.append(Tick(lambda kind, subject_id: None))
        started[0].start()

        wait_for(lambda: called == ["fails", "works"], seconds=3)
