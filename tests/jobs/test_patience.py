"""How long a provider asks to be left alone is kept, by every call."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tensorant_app.db.promise import promise
from tensorant_app.db.session import unit_of_work
from tensorant_app.domain.errors import Transient
from tensorant_app.domain.machines import Use
from tensorant_app.services import accounts, machines, spend
from tests import factories
from tests.conftest import Clock
from tests.jobs.renting import Rented


@pytest.fixture
def rented(sqlite_database: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Rented:
    return Rented(factories.make_caller(), clock, monkeypatch)


class TestPatience:
    """How long the provider asks to be left alone is kept, for every call."""

    def test_a_delete_that_is_refused_for_now_is_sent_again_when_it_may(self, rented: Rented) -> None:
        machine_id = rented.ask()
        tries: list[str] = []

        def refuse(name: str) -> None:
            tries.append(name)
            raise Transient("Too many requests.", retry_after=timedelta(minutes=5))

        rented.provider.on_release = refuse
        with unit_of_work() as session:
            machines.want_release(session, Use.RUN, rented.row(machine_id).subject_id)
        rented.after(minutes=14, step=10)

        assert len(tries) == 3
        rented.provider.on_release = lambda name: None
        with unit_of_work() as session:
            accounts.look_again(session, factories.ACCOUNT)
        rented.after(seconds=10)
        assert rented.provider.deleted, "a person, or another key, does not wait"

    def test_the_longest_pause_before_a_delete_is_ten_minutes(self, rented: Rented) -> None:
        machine_id = rented.ask()
        tries: list[str] = []

        def refuse(name: str) -> None:
            tries.append(name)
            raise Transient("Too many requests.", retry_after=timedelta(hours=1))

        rented.provider.on_release = refuse
        with unit_of_work() as session:
            machines.want_release(session, Use.RUN, rented.row(machine_id).subject_id)
        rented.after(minutes=21, step=20)

        assert len(tries) == 3

    def test_the_sweep_and_bills_leave_alone_an_account_whose_list_was_refused_for_now(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.beats(machine_id)
        rented.after(minutes=5, step=10)
        rented.kinds = {*rented.kinds, spend.BILL}
        calls: list[str] = []

        def refuse() -> None:
            calls.append("list")
            raise Transient("Too many requests.", retry_after=timedelta(minutes=20))

        rented.provider.before_listing = refuse
        with unit_of_work() as session:
            promise(session, spend.BILL, machine_id)
        rented.after(minutes=19, step=10)

        assert len(calls) == 1
