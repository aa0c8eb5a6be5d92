"""What a machine costs when: a price that changes, a twin, a stopped one that somebody started again."""

from __future__ import annotations

from uuid import UUID

import pytest

from tensorant_app.db.machines import Machine
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.machines import MachineState, Presence, Use
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.providers.base import Listed
from tensorant_app.services import accounts, machines, spend
from tests import factories
from tests.conftest import Clock
from tests.fakes import INSTALLATION
from tests.jobs.renting import Rented


@pytest.fixture
def rented(sqlite_database: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Rented:
    return Rented(factories.make_caller(), clock, monkeypatch)


class TestRunningAgain:
    """A stopped machine that somebody started in the provider's own pages, to fetch what lies on its disk."""

    @pytest.fixture
    def machine_id(self, rented: Rented) -> UUID:
        machine_id = rented.ask()
        rented.beats(machine_id)
        with unit_of_work() as session:
            machines.want_stop(session, session.get_one(Machine, machine_id))
        rented.after(minutes=1, step=10)
        assert rented.row(machine_id).state is MachineState.STOPPED
        rented.provider.machines[rented.row(machine_id).name] = Presence.PRESENT
        return machine_id

    def spent(self, rented: Rented, machine_id: UUID) -> Money:
        with reading() as session:
            return spend.machine_spend(session, Use.RUN, rented.row(machine_id).subject_id).estimated

    def test_is_shown_paid_for_and_stopped_again_after_an_hour_and_never_deleted(
        self, rented: Rented, machine_id: UUID
    ) -> None:
        before = self.spent(rented, machine_id)
        rented.after(minutes=50, step=30)
        assert "started it again" in (rented.row(machine_id).sentence or "")
        assert rented.row(machine_id).rate is not None
        assert self.spent(rented, machine_id) - before >= Money.dollars("1.20"), "50 minutes at $1.50"

        rented.after(minutes=20, step=30)

        assert rented.provider.machines[rented.row(machine_id).name] is Presence.STOPPED
        assert rented.row(machine_id).sentence is None
        stopped = self.spent(rented, machine_id)
        rented.after(minutes=60, step=60)
        assert self.spent(rented, machine_id) - stopped < Money.dollars("0.05")
        assert rented.provider.deleted == []

    def test_is_stopped_by_the_sweep_alone(self, rented: Rented, machine_id: UUID) -> None:
        rented.kinds = {accounts.SWEEP}
        rented.provider.uptimes[rented.row(machine_id).name] = 3_700
        rented.rederive()
        rented.after(minutes=5, step=30)

        assert rented.provider.machines[rented.row(machine_id).name] is Presence.STOPPED
        assert rented.provider.deleted == []


def test_a_price_that_changes_leaves_what_was_spent_before(rented: Rented) -> None:
    machine_id = rented.ask()
    rented.beats(machine_id)
    rented.after(minutes=60, step=60)
    rented.provider.rate = HourlyRate.dollars("3.00")
    rented.after(minutes=60, step=60)

    with reading() as session:
        found = spend.machine_spend(session, Use.RUN, rented.row(machine_id).subject_id)
    assert abs(found.estimated.micros - Money.dollars("4.50").micros) < 100_000


def test_a_twin_is_estimated_while_it_is_there(rented: Rented) -> None:
    machine_id = rented.ask()
    rented.beats(machine_id)
    name, rate = rented.row(machine_id).name, HourlyRate.dollars("2.49")
    rented.provider.twins = [Listed(name, "pod_twin", "RUNNING", Presence.PRESENT, rate, INSTALLATION)]
    rented.after(minutes=60, step=60)
    rented.provider.twins = []
    rented.after(minutes=60, step=60)

    with reading() as session:
        found = spend.machine_spend(session, Use.RUN, rented.row(machine_id).subject_id)
    wanted = 2 * 1_500_000 + 2_490_000
    assert abs(found.estimated.micros - wanted) < 150_000
    assert rented.row(machine_id).rate == HourlyRate.dollars("1.50"), "the limit is held against its own price"
