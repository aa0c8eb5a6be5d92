"""A unit of work commits whole or not at all, and values come back as they went in."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from tensorant_app.db import session as sessions
from tensorant_app.db.promise import Promise, promise
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.db.types import HourlyRateType, JsonType, MoneyType, word_type
from tensorant_app.domain.money import HourlyRate, Money
from tests.conftest import NOON, Clock


class Colour(StrEnum):
    RED = "red"
    DEEP_BLUE = "deep blue"


@pytest.fixture
def hints() -> list[tuple[str, UUID]]:
    sent: list[tuple[str, UUID]] = []
    sessions.set_hint_sender(lambda kind, subject_id: sent.append((kind, subject_id)))
    return sent


def promised() -> set[str]:
    with reading() as session:
        return set(session.scalars(sa.select(Promise.kind)))  # type: ignore[call-overload]


@pytest.mark.usefixtures("database")
class TestUnitOfWork:
    def test_it_commits_at_the_end(self) -> None:
        with unit_of_work() as session:
            promise(session, "a", uuid4())
        assert promised() == {"a"}

    def test_an_error_leaves_nothing_and_hints_at_nothing(self, hints: list[tuple[str, UUID]]) -> None:
        def fail() -> None:
            with unit_of_work() as session:
                promise(session, "a", uuid4())
                session.add(Promise(kind="b", subject_id=uuid4(), due_at=NOON, written_at=NOON))
                session.flush()
                raise LookupError

        with pytest.raises(LookupError):
            fail()

        assert promised() == set()
        assert hints == []

    def test_what_is_due_at_once_is_hinted_at_after_the_commit(self, clock: Clock) -> None:
        seen: list[tuple[str, set[str]]] = []
        sessions.set_hint_sender(lambda kind, _: seen.append((kind, promised())))

        with unit_of_work() as session:
            promise(session, "now", uuid4())
            promise(session, "later", uuid4(), at=clock.at + timedelta(seconds=1))

        assert seen == [("now", {"now", "later"})]

    def test_a_broker_that_is_gone_breaks_nothing(self) -> None:
        def refuse(kind: str, subject_id: UUID) -> None:
            raise ConnectionError(kind, subject_id)

        sessions.set_hint_sender(refuse)
        with unit_of_work() as session:
            promise(session, "a", uuid4())
        assert promised() == {"a"}

    def test_it_has_one_time(self, clock: Clock) -> None:
        with unit_of_work() as session:
            clock.advance(seconds=5)
            assert now_of(session) == NOON
        with unit_of_work(NOON + timedelta(days=1)) as session:
            assert now_of(session) == NOON + timedelta(days=1)

    def test_one_inside_another_is_a_bug_that_shows_at_once(self) -> None:
        with unit_of_work(), pytest.raises(RuntimeError, match="open in this thread"), unit_of_work():
            pass
        with unit_of_work() as session:
            promise(session, "afterwards", uuid4())
        assert promised() == {"afterwards"}

    def test_reading_cannot_write(self) -> None:
        row = Promise(kind="a", subject_id=uuid4(), due_at=NOON, written_at=NOON)
        with pytest.raises(DBAPIError), reading() as session:  # noqa: PT012
            session.add(row)
            session.flush()
        assert promised() == set()

    def test_only_a_unit_of_work_promises(self) -> None:
        with reading() as session, pytest.raises(RuntimeError, match="unit of work"):
            promise(session, "a", uuid4())

    def test_writers_that_read_first_wait_for_each_other(self) -> None:
        subject = uuid4()
        with unit_of_work() as session:
            session.add(Promise(kind="count", subject_id=subject, due_at=NOON, written_at=NOON, tries=0))

        def count() -> None:
            for _ in range(25):
                with unit_of_work() as session:
                    row = session.get_one(Promise, ("count", subject), with_for_update=True)
                    row.tries += 1

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        with reading() as session:
            assert session.get_one(Promise, ("count", subject)).tries == 100


@pytest.mark.usefixtures("database")
class TestValues:
    def test_a_time_comes_back_aware_and_in_utc(self) -> None:
        in_delhi = datetime(2026, 12, 1, 17, 30, 0, 123456, timezone(timedelta(hours=5, minutes=30)))
        subject = uuid4()
        with unit_of_work() as session:
            session.add(Promise(kind="a", subject_id=subject, due_at=in_delhi, written_at=NOON))

        with reading() as session:
            due_at = session.get_one(Promise, ("a", subject)).due_at

        assert due_at == in_delhi
        assert due_at.tzinfo is UTC

    def test_a_time_without_a_zone_is_refused(self) -> None:
        naive = NOON.replace(tzinfo=None)
        with pytest.raises(sa.exc.StatementError, match="timezone"), unit_of_work() as session:
            session.add(Promise(kind="a", subject_id=uuid4(), due_at=naive, written_at=NOON))

    @pytest.mark.parametrize(
        ("column_type", "value"),
        [
            (MoneyType(), Money(-(2**53) - 1)),
            (HourlyRateType(), HourlyRate.dollars("0.39")),
            (word_type(Colour), Colour.DEEP_BLUE),
            (JsonType, {"a": [1, 2.5, None, "ä"], "b": {}}),
        ],
    )
    def test_a_value_of_ours_comes_back_as_it_went_in(
        self, column_type: sa.types.TypeEngine[object], value: object
    ) -> None:
        table = sa.Table("thing", sa.MetaData(), sa.Column("value", column_type))
        with sessions.engines().write.begin() as connection:
            table.create(connection)
            connection.execute(table.insert(), [{"value": value}, {"value": None}])

        with sessions.engines().read.begin() as connection:
            found = list(connection.scalars(sa.select(table.c.value)))

        assert found == [value, None]
        assert type(found[0]) is type(value)

    def test_a_word_lies_there_as_its_value(self) -> None:
        table = sa.Table("thing", sa.MetaData(), sa.Column("value", word_type(Colour)))
        with sessions.engines().write.begin() as connection:
            table.create(connection)
            connection.execute(table.insert().values(value=Colour.DEEP_BLUE))
            assert connection.exec_driver_sql("SELECT value FROM thing").scalar_one() == "deep blue"

    def test_the_database_adds_money(self) -> None:
        table = sa.Table("thing", sa.MetaData(), sa.Column("value", MoneyType()))
        with sessions.engines().write.begin() as connection:
            table.create(connection)
            connection.execute(table.insert(), [{"value": Money(1)}, {"value": Money(2)}])
            assert connection.scalar(sa.select(sa.func.sum(table.c.value))) == Money(3)
