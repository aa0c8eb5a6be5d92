"""The provider's bill: late, in pieces, corrected; the ledger's sum is its last word, and no line is ever rewritten."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from sqlmodel import select

from jobs import broker
from tensorant_app.db.machines import Machine
from tensorant_app.db.projects import Project
from tensorant_app.db.promise import promise
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.db.spend import MachineBill, SpendEntry
from tensorant_app.domain.errors import Transient
from tensorant_app.domain.machines import Use
from tensorant_app.domain.money import ZERO, Money
from tensorant_app.domain.spend import Spend, SpendState
from tensorant_app.providers.base import BillInPart, BillLine
from tensorant_app.services import budgets, machines, spend
from tests import factories
from tests.conftest import Clock
from tests.jobs.renting import STOPS, Rented

HOUR = timedelta(hours=1)


@pytest.fixture
def rented(sqlite_database: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Rented:
    rented = Rented(factories.make_caller(), clock, monkeypatch)
    rented.kinds = STOPS | {spend.BILL}
    return rented


def spent(rented: Rented, machine_id: UUID) -> Spend:
    with reading() as session:
        return spend.machine_spend(session, Use.RUN, rented.row(machine_id).subject_id)


def ledger(machine_id: UUID) -> list[SpendEntry]:
    with reading() as session:
        return list(session.exec(select(SpendEntry).where(SpendEntry.machine_id == machine_id)))


def release(rented: Rented, machine_id: UUID) -> None:
    with unit_of_work() as session:
        machines.want_release(session, Use.RUN, rented.row(machine_id).subject_id)
    rented.after(minutes=3)


def lines(machine: Machine, *amounts: str) -> list[BillLine]:
    began = machine.ask_sent_at
    assert began is not None
    first = began.replace(minute=0, second=0, microsecond=0)
    return [BillLine(first + n * HOUR, first + (n + 1) * HOUR, Money.dollars(a)) for n, a in enumerate(amounts)]


def say(rented: Rented, machine_id: UUID, *amounts: str) -> None:
    machine = rented.row(machine_id)
    rented.provider.bills[machine.provider_id or ""] = lines(machine, *amounts)


class TestSync:
    def test_a_machine_is_estimated_until_its_bill_is_there(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.beats(machine_id)
        rented.after(minutes=31, step=30)

        found = spent(rented, machine_id)

        assert (found.state, found.actual) == (SpendState.ESTIMATED, None)
        rate = rented.row(machine_id).rate
        assert rate is not None
        assert found.estimated >= rate.cost_of(timedelta(minutes=31))
        assert found.synced_at is not None

    def test_late_pieces_and_corrections_are_added_and_never_rewritten(self, rented: Rented) -> None:
        machine_id = rented.ask()
        release(rented, machine_id)
        say(rented, machine_id, "0.451")
        rented.after(minutes=31, step=30)
        before = {entry.id: entry.amount for entry in ledger(machine_id)}
        say(rented, machine_id, "0.4", "0.902")
        rented.after(minutes=31, step=30)

        after = {entry.id: entry.amount for entry in ledger(machine_id)}

        assert before.items() <= after.items()
        assert Money.total(after.values()) == Money.dollars("1.302")
        assert spent(rented, machine_id).actual == Money.dollars("1.302")
        assert spent(rented, machine_id).state is SpendState.OPEN

    def test_an_hour_that_is_stamped_anew_is_corrected_and_never_paid_twice(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.beats(machine_id)
        machine = rented.row(machine_id)
        assert machine.ask_sent_at is not None
        hour = machine.ask_sent_at.replace(minute=0, second=0, microsecond=0)
        first = BillLine(hour + timedelta(minutes=30), hour + HOUR, Money.dollars("0.30"))
        rented.provider.bills[machine.provider_id or ""] = [first]
        rented.after(minutes=31, step=30)
        say(rented, machine_id, "0.451", "0.902", "0.3007")
        rented.after(minutes=200, step=30)

        assert spent(rented, machine_id).actual == Money.dollars("1.6537")
        assert Money.total(entry.amount for entry in ledger(machine_id)) == Money.dollars("1.6537")

    def test_what_can_be_read_of_a_bill_is_booked_and_the_rest_is_told(
        self, rented: Rented, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        machine_id = rented.ask()
        say(rented, machine_id, "0.5", "0.5")
        rented.after(minutes=31, step=30)
        release(rented, machine_id)
        readable = lines(rented.row(machine_id), "0.2", "0.7")

        def partly(provider_id: str, since: datetime, until: datetime) -> list[BillLine]:
            raise BillInPart("One record could not be read.", readable)

        with monkeypatch.context() as broken:
            broken.setattr(rented.provider, "bill", partly)
            rented.after(minutes=8 * 60, step=300)
            found = spent(rented, machine_id)
            with reading() as session:
                row = session.get_one(MachineBill, machine_id)

        assert found.actual == Money.dollars("1.2"), "an hour that is read in part takes nothing back"
        assert (row.problem, row.settled_at) == ("One record could not be read.", None)

    def test_a_bill_rests_after_six_hours_and_a_late_correction_opens_it_again(self, rented: Rented) -> None:
        machine_id = rented.ask()
        release(rented, machine_id)
        say(rented, machine_id, "0.5", "0.1")
        rented.after(minutes=6 * 60 + 40, step=300)
        rested = spent(rented, machine_id)
        say(rented, machine_id, "0.5", "0.2")
        rented.after(minutes=42 * 60, step=1800)

        corrected = spent(rented, machine_id)

        assert (rested.state, rested.actual) == (SpendState.SETTLED, Money.dollars("0.6"))
        assert (corrected.state, corrected.actual) == (SpendState.OPEN, Money.dollars("0.7"))

    def test_a_twin_that_was_deleted_is_paid_for_too(self, rented: Rented) -> None:
        machine_id = rented.ask()
        with unit_of_work() as session:
            machine = session.get_one(Machine, machine_id)
            machine.billed_ids = [*machine.billed_ids, "pod_twin"]
        say(rented, machine_id, "0.5")
        rented.provider.bills["pod_twin"] = lines(rented.row(machine_id), "0.25")
        rented.after(minutes=31, step=30)

        assert spent(rented, machine_id).actual == Money.dollars("0.75")

    def test_a_bill_that_cannot_be_read_changes_nothing_and_is_asked_for_again(
        self, rented: Rented, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        machine_id = rented.ask()
        say(rented, machine_id, "0.5")
        rented.after(minutes=31, step=30)

        def refuse(provider_id: str, since: datetime, until: datetime) -> list[BillLine]:
            raise Transient("RunPod asks for less.", retry_after=timedelta(seconds=10))

        with monkeypatch.context() as broken:
            broken.setattr(rented.provider, "bill", refuse)
            rented.after(minutes=31, step=30)
            with reading() as session:
                problem = session.get_one(MachineBill, machine_id).problem
            kept = spent(rented, machine_id)
        say(rented, machine_id, "0.5", "0.5")
        rented.after(minutes=6, step=30)

        assert problem == "RunPod asks for less."
        assert kept.actual == Money.dollars("0.5")
        assert spent(rented, machine_id).actual == Money.dollars("1")

    def test_a_bill_that_is_asked_for_twice_is_booked_once(self, rented: Rented) -> None:
        machine_id = rented.ask()
        say(rented, machine_id, "0.5")
        with unit_of_work() as session:
            promise(session, spend.BILL, machine_id)

        broker.perform(spend.BILL, str(machine_id))
        broker.perform(spend.BILL, str(machine_id))

        assert [entry.amount for entry in ledger(machine_id)] == [Money.dollars("0.5")]

    def test_the_same_bill_twice_and_an_empty_one_book_nothing(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.beats(machine_id)
        say(rented, machine_id, "0.5", "0.5")
        rented.after(minutes=31, step=30)
        rented.provider.bills.clear()
        rented.after(minutes=31, step=30)

        assert len(ledger(machine_id)) == 2
        assert spent(rented, machine_id).actual == Money.dollars(1)


def test_a_budget_counts_the_bill_of_what_is_gone_and_the_estimate_of_what_has_none(rented: Rented) -> None:
    billed, unbilled = rented.ask(), rented.ask()
    say(rented, billed, "0.5")
    for machine_id in (billed, unbilled):
        release(rented, machine_id)
    rented.after(minutes=40, step=30)

    taken = []
    with reading() as session:
        for machine_id in (billed, unbilled):
            run = session.get_one(Run, rented.row(machine_id).subject_id)
            taken.append(budgets.budget_of(session, session.get_one(Project, run.project_id)).taken)

    assert taken[0] == Money.dollars("0.5")
    assert ZERO < taken[1] < Money.dollars("1.5")
