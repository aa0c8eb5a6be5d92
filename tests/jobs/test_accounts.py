"""One look at a whole account: what it proves, what it does not, and the sweep that needs nobody else."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from sqlmodel import select

from jobs import broker
from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.machines import Machine
from tensorant_app.db.promise import promise
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import AuthFailed, Conflict, Denied, Transient, Unknown
from tensorant_app.domain.machines import MachineState, Presence, Use
from tensorant_app.domain.members import Role
from tensorant_app.domain.money import HourlyRate
from tensorant_app.providers.base import Listed, LogLine, MachineRequest
from tensorant_app.services import accounts, machines, strays
from tests import factories
from tests.conftest import EACH_DATABASE, Clock
from tests.fakes import INSTALLATION
from tests.jobs.renting import STOPS, Rented
from trainer.contract import Outcome, Phase


@pytest.fixture
def rented(chosen_database: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Rented:
    return Rented(factories.make_caller(), clock, monkeypatch)


def lose_answer(request: MachineRequest) -> None:
    raise Unknown("The connection broke.")


def stranger(name: str, provider_id: str, installation: str | None = INSTALLATION) -> Listed:
    return Listed(name, provider_id, "RUNNING", Presence.PRESENT, HourlyRate.dollars("2.49"), installation)


class TestLooking:
    def test_an_account_without_live_machines_is_not_asked(self, rented: Rented) -> None:
        rented.provider.before_listing = lambda: pytest.fail("nothing is there to be looked at")
        with unit_of_work() as session:
            promise(session, accounts.POLL, factories.ACCOUNT)

        rented.after(seconds=30)

    def test_a_machine_that_does_not_change_is_left_alone(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.beats(machine_id)
        rented.after(seconds=30)
        before = rented.row(machine_id)

        rented.after(minutes=2)

        assert rented.account().looked_at is not None
        assert rented.row(machine_id).read_at == before.read_at, "nobody watches it, and its status did not change"

    def test_a_watched_machine_is_read_every_few_seconds(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.beats(machine_id)
        rented.after(seconds=30)
        with unit_of_work() as session:
            session.get_one(Machine, machine_id).watched_until = rented.clock() + timedelta(minutes=1)
            promise(session, machines.TEND, machine_id)
        rented.after(seconds=6)
        rented.beats(machine_id, step=44)

        rented.after(seconds=12)

        status = rented.row(machine_id).status
        assert status is not None
        assert status["step"] == 44

    def test_a_poll_or_a_sweep_delivered_twice_changes_nothing_more(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.provider.twins = [stranger("tune-lost", "pod_x")]
        rented.rederive()
        for kind in (accounts.POLL, accounts.SWEEP):
            broker.perform(kind, str(factories.ACCOUNT))
            broker.perform(kind, str(factories.ACCOUNT))

        assert rented.row(machine_id).state is MachineState.HELD
        assert len(rented.strays()) == 1
        assert rented.provider.deleted == []

    def test_a_listing_that_fails_proves_nothing_for_however_long(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.beats(machine_id)
        rented.after(minutes=11)
        rented.provider.machines.clear()

        def fail() -> None:
            raise Transient("The page broke off.")

        rented.provider.before_listing = fail
        rented.after(minutes=30, step=10)

        assert rented.row(machine_id).state is MachineState.HELD
        assert rented.account().problem == "The page broke off."

    def test_a_key_that_is_revoked_loses_nothing_and_all_goes_on_when_it_is_mended(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.beats(machine_id)
        rented.after(minutes=1)

        def refuse() -> None:
            raise AuthFailed("The key no longer works.")

        rented.provider.before_listing = refuse
        rented.after(minutes=20, step=10)
        assert rented.row(machine_id).state is MachineState.HELD
        assert rented.account().is_refused
        with reading() as session:
            (told,) = [view for view in accounts.list_accounts(session, rented.caller) if view.problem]
        assert told.problem == "The key no longer works."

        rented.provider.before_listing = lambda: None
        rented.ends(machine_id)
        rented.after(minutes=6, step=10)

        assert not rented.account().is_refused
        assert rented.row(machine_id).result is not None

    def test_a_word_that_nobody_knows_yet_means_a_machine_that_is_there(self, rented: Rented) -> None:
        machine_id = rented.ask()
        name = rented.row(machine_id).name
        rented.provider.machines[name] = Presence.UNKNOWN
        rented.provider.statuses[name] = "MIGRATING"

        rented.after(minutes=15, step=10)

        assert (rented.row(machine_id).state, rented.row(machine_id).provider_status) == (
            MachineState.HELD,
            "MIGRATING",
        )


class TestLosing:
    @pytest.fixture
    def machine_id(self, rented: Rented) -> UUID:
        machine_id = rented.ask()
        rented.beats(machine_id, step=31)
        rented.after(minutes=11, step=10)
        return machine_id

    @pytest.mark.parametrize("presence", [Presence.GONE, Presence.ERROR, Presence.EXITED])
    def test_the_providers_own_word_is_believed_within_half_a_minute(
        self, rented: Rented, machine_id: UUID, presence: Presence
    ) -> None:
        rented.provider.machines[rented.row(machine_id).name] = presence

        rented.after(seconds=30)

        assert (rented.row(machine_id).reason, rented.row(machine_id).state) != (None, MachineState.HELD)
        assert rented.row(machine_id).reason == "lost"
        assert rented.provider.deleted == [rented.row(machine_id).name], "deleted all the same"

    def test_one_that_left_the_list_is_lost_after_a_minute_and_before_ninety_seconds(
        self, rented: Rented, machine_id: UUID
    ) -> None:
        rented.provider.machines.clear()

        rented.after(seconds=45)
        assert rented.row(machine_id).state is MachineState.HELD
        rented.after(seconds=45)

        assert rented.row(machine_id).reason == "lost"

    def test_one_absence_is_not_enough(self, rented: Rented, machine_id: UUID) -> None:
        name = rented.row(machine_id).name
        for _ in range(6):
            rented.provider.machines.pop(name)
            rented.after(seconds=20)
            rented.provider.machines[name] = Presence.PRESENT
            rented.after(seconds=20)

        assert rented.row(machine_id).state is MachineState.HELD

    def test_a_result_that_nobody_had_read_yet_outweighs_the_loss(self, rented: Rented, machine_id: UUID) -> None:
        rented.ends(machine_id)
        rented.provider.machines[rented.row(machine_id).name] = Presence.EXITED

        rented.after(seconds=30)

        assert rented.row(machine_id).state is MachineState.HELD
        assert rented.row(machine_id).result is not None

    def test_a_volume_that_cannot_be_read_decides_no_loss(
        self, rented: Rented, machine_id: UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(key: str) -> int | None:
            raise OSError("The bucket answers 502.")

        monkeypatch.setattr(rented.volume, "size", fail)
        rented.provider.machines[rented.row(machine_id).name] = Presence.EXITED

        rented.after(minutes=2)
        assert rented.row(machine_id).state is MachineState.HELD
        monkeypatch.undo()

    def test_it_is_released_only_when_looks_after_the_delete_agree(self, rented: Rented, machine_id: UUID) -> None:
        rented.provider.machines.clear()
        rented.after(seconds=90)
        assert rented.row(machine_id).state is MachineState.RELEASING
        rented.after(seconds=50)
        assert rented.row(machine_id).state is MachineState.RELEASING

        rented.after(seconds=60)

        assert rented.row(machine_id).state is MachineState.RELEASED

    def test_inside_the_first_ten_minutes_not_listed_means_nothing(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.beats(machine_id)
        rented.after(seconds=10)
        rented.provider.machines.pop(rented.row(machine_id).name)

        rented.after(minutes=9, step=10)
        assert rented.row(machine_id).state is MachineState.HELD
        rented.after(minutes=2)

        assert rented.row(machine_id).reason == "lost"


class TestStarting:
    def test_a_machine_that_is_never_heard_is_given_back_with_the_providers_words(self, rented: Rented) -> None:
        rented.provider.lines = [
            LogLine(None, "system", "pulling image", "1"),
            LogLine(None, "system", "error pulling image: no basic auth credentials", "2"),
            LogLine(None, "system", "error pulling image: no basic auth credentials", "3"),
        ]
        machine_id = rented.ask()
        rented.after(minutes=19.5, step=10)
        assert rented.row(machine_id).state is MachineState.HELD

        rented.after(minutes=1)

        row = rented.row(machine_id)
        assert row.reason == "not_started"
        assert row.sentence is not None
        assert "within 20 minutes" in row.sentence
        assert row.sentence.count("no basic auth credentials") == 1
        assert rented.provider.deleted == [row.name]

    def test_an_error_before_the_start_fails_it_at_once(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.provider.machines[rented.row(machine_id).name] = Presence.ERROR
        rented.provider.lines = [LogLine(None, "system", "OCI runtime create failed", "1")]

        rented.after(seconds=30)

        row = rented.row(machine_id)
        assert row.reason == "not_started"
        assert row.sentence is not None
        assert "OCI runtime create failed" in row.sentence

    def test_a_driver_that_is_too_old_is_not_waited_for(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.provider.statuses[rented.row(machine_id).name] = "RUNNING"
        rented.provider.lines = [LogLine(None, "system", "requirement error: unsatisfied condition: cuda>=12.8", "1")]

        rented.after(minutes=2)

        row = rented.row(machine_id)
        assert (row.reason, rented.provider.deleted) == ("not_started", [row.name])
        assert row.sentence == (
            "The host's driver is too old for the trainer's image, so its container never starts. "
            "The provider's log says: “requirement error: unsatisfied condition: cuda>=12.8”"
        )

    def test_a_long_download_is_waited_for_and_asked_about_once_a_minute(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.provider.lines = [LogLine(None, "system", "pulling image", "1")]

        rented.after(minutes=10, step=5)

        assert rented.row(machine_id).state is MachineState.HELD
        assert 7 <= rented.provider.logs_read <= 10

    def test_a_status_alone_is_no_start(self, rented: Rented) -> None:
        """RUNNING, and nothing runs: only the trainer's own heartbeat counts."""
        machine_id = rented.ask()
        rented.provider.statuses[rented.row(machine_id).name] = "RUNNING"

        rented.after(minutes=21, step=10)

        assert rented.row(machine_id).reason == "not_started"

    def test_a_price_above_the_limit_goes_back_in_the_same_breath(self, rented: Rented) -> None:
        rented.provider.rate = HourlyRate.dollars("2.49")
        run_id = factories.make_run(rented.caller)
        machine_id = factories.ask_machine(rented.caller, run_id, rented.clock())
        with unit_of_work() as session:
            session.get_one(Machine, machine_id).rate_limit = HourlyRate.dollars("1.00")

        rented.after(seconds=4)

        row = rented.row(machine_id)
        assert (row.reason, row.sentence) == (
            "too_dear",
            "The provider bills $2.49/h, above the limit of $1.00/h. It was released at once.",
        )
        assert rented.provider.deleted == [row.name]

    def test_a_price_that_is_told_later_counts_as_well(self, rented: Rented) -> None:
        rented.provider.rate = HourlyRate.dollars("0")
        machine_id = rented.ask()
        with unit_of_work() as session:
            session.get_one(Machine, machine_id).rate_limit = HourlyRate.dollars("1.00")
        rented.after(seconds=20)
        assert rented.row(machine_id).state is MachineState.HELD
        rented.provider.rate = HourlyRate.dollars("1.09")

        rented.after(seconds=20)

        assert rented.row(machine_id).reason == "too_dear"

    def test_a_price_that_is_told_after_the_work_was_finished_loses_nothing(self, rented: Rented) -> None:
        """The heartbeat is read seldom: what was finished since then is read before the machine is given up."""
        rented.provider.rate = HourlyRate.dollars("0")
        machine_id = rented.ask()
        with unit_of_work() as session:
            session.get_one(Machine, machine_id).rate_limit = HourlyRate.dollars("1.00")
        rented.beats(machine_id)
        rented.after(seconds=40)
        rented.ends(machine_id)
        rented.provider.rate = HourlyRate.dollars("1.09")

        rented.after(seconds=12)

        assert rented.row(machine_id).result is not None
        assert rented.row(machine_id).reason != "too_dear"

    def test_a_machine_that_is_found_late_and_too_dear_is_heard_first(self, rented: Rented) -> None:
        """Its answer was lost, nobody looked for a while, and it has finished meanwhile."""
        rented.provider.after_create = lose_answer
        rented.provider.rate = HourlyRate.dollars("2.49")
        rented.kinds = {machines.TEND}
        machine_id = rented.ask()
        with unit_of_work() as session:
            session.get_one(Machine, machine_id).rate_limit = HourlyRate.dollars("1.00")
        rented.ends(machine_id)
        rented.kinds = STOPS

        rented.after(minutes=1)

        assert rented.row(machine_id).result is not None
        assert rented.row(machine_id).reason is None

    def test_a_machine_that_was_never_listed_is_heard_by_what_it_left(self, rented: Rented) -> None:
        rented.provider.after_create = lose_answer
        machine_id = rented.ask()
        rented.provider.machines.clear()
        rented.ends(machine_id)

        rented.after(minutes=6, step=10)

        assert rented.row(machine_id).result is not None


class TestAnAccountThatIsLookedAt:
    def test_before_the_create_call_of_its_only_machine_is_looked_at_after_it(self, rented: Rented) -> None:
        """The look comes between the intent and the call, finds nothing to look for, and must not be the last."""
        run_id = factories.make_run(rented.caller)
        machine_id = factories.ask_machine(rented.caller, run_id, rented.clock())
        with unit_of_work() as session:
            promise(session, accounts.POLL, factories.ACCOUNT)
        broker.perform(accounts.POLL, str(factories.ACCOUNT))

        rented.after(seconds=30)

        assert rented.row(machine_id).state is MachineState.HELD
        assert rented.account().looked_at is not None


class TestAClockThatWentBack:
    def test_delays_no_delete_call(self, rented: Rented) -> None:
        def refuse(name: str) -> None:
            raise Denied("The key may not delete machines.")

        rented.clock.advance(hours=1)
        machine_id = rented.ask()
        rented.provider.on_release = refuse
        with unit_of_work() as session:
            machines.want_release(session, Use.RUN, rented.row(machine_id).subject_id)
        rented.after(seconds=10)
        rented.clock.advance(hours=-1)
        rented.provider.on_release = lambda name: None

        rented.after(minutes=3)

        assert rented.row(machine_id).name in rented.provider.deleted

    def test_gives_no_run_an_hour_more(self, rented: Rented) -> None:
        rented.clock.advance(hours=1)
        machine_id = rented.ask()
        limit = rented.row(machine_id).deadline - rented.clock()
        rented.clock.advance(hours=-1)

        rented.after(seconds=30)

        assert abs(rented.row(machine_id).deadline - rented.clock() - limit) < timedelta(minutes=1)
        assert rented.row(machine_id).words_seq == rented.row(machine_id).words_sent == 2


class TestRestarts:
    @pytest.fixture
    def machine_id(self, rented: Rented) -> UUID:
        machine_id = rented.ask()
        rented.beats(machine_id)
        rented.provider.uptimes[rented.row(machine_id).name] = 1_800
        rented.after(seconds=30)
        return machine_id

    def restart(self, rented: Rented, machine_id: UUID) -> None:
        rented.provider.uptimes[rented.row(machine_id).name] = 3
        rented.after(seconds=12)

    def test_an_uptime_that_went_backwards_is_an_event(self, rented: Rented, machine_id: UUID) -> None:
        self.restart(rented, machine_id)

        assert rented.row(machine_id).boots == 2
        assert "restarted" in rented.verbs(machine_id)
        assert rented.row(machine_id).state is MachineState.HELD

    def test_a_finished_result_is_taken_at_the_second_start(self, rented: Rented, machine_id: UUID) -> None:
        rented.ends(machine_id)
        self.restart(rented, machine_id)

        assert rented.row(machine_id).state is MachineState.HELD
        assert rented.row(machine_id).result is not None

    def test_a_third_start_is_one_too_many(self, rented: Rented, machine_id: UUID) -> None:
        for uptime in (3, 2):
            rented.provider.uptimes[rented.row(machine_id).name] = uptime
            rented.after(seconds=60)
            rented.provider.uptimes[rented.row(machine_id).name] = 62
            rented.after(seconds=12)

        assert rented.row(machine_id).boots > 2
        assert rented.row(machine_id).reason == "restarted"

    def test_an_uptime_that_grows_is_no_restart(self, rented: Rented, machine_id: UUID) -> None:
        name = rented.row(machine_id).name
        for _ in range(6):
            rented.provider.uptimes[name] += 12
            rented.after(seconds=12)

        assert rented.row(machine_id).boots == 1

    @pytest.mark.parametrize("stale", [7, 1_800])
    def test_an_uptime_that_stands_still_is_no_restart(self, rented: Rented, machine_id: UUID, stale: int) -> None:
        name = rented.row(machine_id).name
        rented.provider.uptimes[name] = stale
        rented.after(seconds=12)
        before = rented.row(machine_id).boots

        rented.after(minutes=4)

        assert rented.row(machine_id).boots == before
        assert rented.row(machine_id).state is MachineState.HELD

    def test_an_uptime_that_is_told_once_a_minute_is_no_restart(self, rented: Rented, machine_id: UUID) -> None:
        name = rented.row(machine_id).name
        for _ in range(5):
            rented.provider.uptimes[name] += 60
            rented.after(seconds=60)

        assert rented.row(machine_id).boots == 1


@EACH_DATABASE
class TestLostAnswers:
    def test_it_is_found_by_its_name_within_seconds_and_asked_once(self, rented: Rented) -> None:
        rented.provider.after_create = lose_answer
        machine_id = rented.ask()
        assert rented.row(machine_id).answer_lost_at is not None

        rented.after(seconds=6)

        assert rented.row(machine_id).state is MachineState.HELD
        assert rented.provider.asked == [rented.row(machine_id).name]

    def test_another_installations_machine_of_the_same_name_is_not_ours(self, rented: Rented) -> None:
        rented.provider.before_create = lose_answer
        machine_id = rented.ask()
        rented.provider.twins = [stranger(rented.row(machine_id).name, "pod_other", "somebody-else")]

        rented.after(minutes=5, step=10)

        assert rented.row(machine_id).state is MachineState.ASKED
        assert rented.strays() == []

    def test_several_of_one_name_are_listed_and_left_to_a_person(self, rented: Rented) -> None:
        rented.provider.after_create = lose_answer
        machine_id = rented.ask()
        name = rented.row(machine_id).name
        rented.provider.twins = [stranger(name, "pod_twin")]
        rented.after(seconds=20)
        rented.rederive()
        rented.after(seconds=4)

        assert rented.row(machine_id).state is MachineState.ASKED
        assert set(rented.row(machine_id).provider_ids) == {f"id-{name}", "pod_twin"}
        assert {stray.provider_id for stray in rented.strays()} == {f"id-{name}", "pod_twin"}

        twin = next(stray for stray in rented.strays() if stray.provider_id == "pod_twin")
        with unit_of_work() as session:
            strays.terminate_stray(session, rented.caller, twin.id)
        rented.after(minutes=2)

        assert rented.row(machine_id).state is MachineState.HELD
        assert rented.row(machine_id).provider_id == f"id-{name}"
        assert rented.provider.deleted == ["pod_twin"]

    def test_caught_when_it_appears_after_its_end_was_wanted_with_every_twin(self, rented: Rented) -> None:
        rented.provider.before_create = lose_answer
        machine_id = rented.ask()
        row = rented.row(machine_id)
        with unit_of_work() as session:
            machines.want_release(session, Use.RUN, row.subject_id)
        rented.after(minutes=3, step=10)
        rented.provider.twins = [stranger(row.name, "pod_a"), stranger(row.name, "pod_b")]

        rented.after(minutes=10, step=10)
        rented.after(minutes=3, step=10)

        assert rented.provider.twins == []
        assert rented.row(machine_id).state is MachineState.RELEASED

    def test_one_that_was_confirmed_absent_and_appears_late_is_deleted(self, rented: Rented) -> None:
        rented.provider.before_create = lose_answer
        machine_id = rented.ask()
        other = rented.ask()
        with unit_of_work() as session:
            row = session.get_one(Machine, machine_id)
            row.state = MachineState.ABSENT
        rented.provider.twins = [stranger(rented.row(machine_id).name, "pod_late")]

        rented.after(seconds=30)

        assert rented.row(other).state is MachineState.ASKED
        assert rented.provider.twins == []
        assert "reappear" in rented.verbs(machine_id)
        with reading() as session:
            entry = session.exec(select(AuditEntry).where(AuditEntry.action == "machines.came_back")).one()
        assert (entry.who, entry.subject_id, entry.facts["was"]) == ("console", machine_id, "absent")
        assert entry.facts["provider_ids"] == "pod_late"

    def test_an_id_that_is_none_is_not_taken(self, rented: Rented) -> None:
        rented.provider.after_create = lose_answer
        machine_id = rented.ask()
        rented.provider.machines.clear()
        rented.beats(machine_id, pod="../billing")

        rented.after(minutes=1, step=10)

        assert rented.row(machine_id).provider_id is None

    def test_one_that_was_heard_and_never_listed_is_lost_without_a_person(self, rented: Rented) -> None:
        """Its key was revoked all the while, and somebody deleted it at the provider."""
        rented.provider.after_create = lose_answer
        machine_id = rented.ask()
        rented.provider.machines.clear()
        rented.beats(machine_id, pod="pod_told")

        rented.after(minutes=13, step=10)

        row = rented.row(machine_id)
        assert (row.provider_id, row.billed_ids) == ("pod_told", ["pod_told"]), "so that its bill can be read"
        assert row.provider_ids == [], "a file never names what is deleted"
        assert rented.row(machine_id).reason == "lost"
        assert rented.row(machine_id).state in {MachineState.RELEASING, MachineState.RELEASED}


class TestReleasing:
    @pytest.fixture
    def machine_id(self, rented: Rented) -> UUID:
        machine_id = rented.ask()
        rented.beats(machine_id)
        rented.after(minutes=11, step=10)
        with unit_of_work() as session:
            machines.want_release(session, Use.RUN, session.get_one(Machine, machine_id).subject_id)
        return machine_id

    def test_the_first_refusal_is_said_aloud_and_the_pauses_grow(self, rented: Rented, machine_id: UUID) -> None:
        calls: list[float] = []

        def refuse(name: str) -> None:
            calls.append(rented.clock().timestamp())
            if len(calls) < 4:
                raise Denied("The key may not delete machines.")

        rented.provider.on_release = refuse
        rented.after(seconds=4)
        assert rented.row(machine_id).state is MachineState.RELEASE_FAILED
        assert rented.row(machine_id).release_problem == "The key may not delete machines."

        rented.after(minutes=4)

        assert rented.row(machine_id).state is MachineState.RELEASED
        assert len(calls) == 4
        pauses = [later - earlier for earlier, later in pairwise(calls)]
        assert pauses == sorted(pauses)
        assert pauses[0] < pauses[-1]

    def test_a_delete_that_was_taken_and_did_nothing_is_repeated(self, rented: Rented, machine_id: UUID) -> None:
        rented.provider.holds_on = True
        rented.after(minutes=10)
        assert rented.row(machine_id).state is MachineState.RELEASE_FAILED
        assert len(rented.provider.deleted) > 2

        rented.provider.holds_on = False
        rented.after(minutes=4)

        assert rented.row(machine_id).state is MachineState.RELEASED

    def test_one_that_was_released_and_is_listed_again_is_deleted_again(self, rented: Rented, machine_id: UUID) -> None:
        other = rented.ask()
        rented.beats(other)
        rented.after(minutes=3)
        assert rented.row(machine_id).state is MachineState.RELEASED
        rented.provider.machines[rented.row(machine_id).name] = Presence.PRESENT

        rented.after(seconds=20)

        assert rented.row(machine_id).state is MachineState.RELEASING
        assert rented.row(machine_id).name not in rented.provider.machines

    def test_the_last_one_that_the_sweep_finds_back_is_watched_until_it_is_proved_gone(
        self, rented: Rented, machine_id: UUID
    ) -> None:
        with unit_of_work() as session:
            machines.want_release(session, Use.RUN, session.get_one(Machine, machine_id).subject_id)
        rented.after(minutes=13, step=10)
        assert rented.row(machine_id).state is MachineState.RELEASED
        rented.provider.machines[rented.row(machine_id).name] = Presence.PRESENT
        with unit_of_work() as session:
            promise(session, accounts.SWEEP, factories.ACCOUNT)

        rented.after(minutes=3)

        assert rented.verbs(machine_id)[-3:] == ["reappear", "swept", "confirm"]


@EACH_DATABASE
class TestThreeStops:
    """Each ends an overdue machine while the other two are off; the trainer's own: `runpod_emulator/test_processes.py`."""

    @pytest.fixture
    def overdue(self, rented: Rented) -> UUID:
        machine_id = rented.ask()
        rented.beats(machine_id)
        rented.after(seconds=30)
        rented.kinds = ()
        rented.clock.at = rented.row(machine_id).deadline + machines.LATE
        return machine_id

    def test_the_promise_of_its_row_alone(self, rented: Rented, overdue: UUID) -> None:
        rented.kinds = {machines.TEND}

        rented.after(seconds=30)

        assert rented.provider.machines == {}
        assert rented.row(overdue).state is MachineState.RELEASING

    def test_the_sweep_alone_from_the_list(self, rented: Rented, overdue: UUID) -> None:
        rented.kinds = {accounts.SWEEP}
        with unit_of_work() as session:
            session.connection().exec_driver_sql("DELETE FROM promise")
            promise(session, accounts.SWEEP, factories.ACCOUNT)

        rented.after(seconds=4)

        assert rented.provider.machines == {}
        assert rented.provider.deleted == [rented.row(overdue).name]
        assert "swept" in rented.verbs(overdue)

    def test_the_sweep_ends_what_a_job_forgot_to_give_back(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.kinds = {accounts.SWEEP}
        with unit_of_work() as session:
            session.get_one(Machine, machine_id).release_wanted_at = rented.clock()
            promise(session, accounts.SWEEP, factories.ACCOUNT)

        rented.after(seconds=4)

        assert rented.provider.machines == {}

    @pytest.mark.parametrize("is_wanted", [True, False], ids=["its work has ended", "past its deadline"])
    def test_the_sweep_ends_one_that_nobody_had_found_yet_and_its_row_knows(
        self, rented: Rented, is_wanted: bool
    ) -> None:
        """Its answer was lost; the sweep sees it before any look at the account does."""
        rented.provider.after_create = lose_answer
        rented.kinds = {machines.TEND}
        machine_id = rented.ask()
        row = rented.row(machine_id)
        if is_wanted:
            with unit_of_work() as session:
                machines.want_release(session, Use.RUN, row.subject_id)
        else:
            rented.clock.at = row.deadline + machines.LATE
        rented.kinds = {accounts.SWEEP}
        with unit_of_work() as session:
            promise(session, accounts.SWEEP, factories.ACCOUNT)
        rented.after(seconds=4)
        assert rented.provider.machines == {}
        assert rented.row(machine_id).state is MachineState.RELEASING
        assert rented.row(machine_id).billed_ids == [f"id-{row.name}"], "it is paid for"

        rented.kinds = STOPS
        rented.after(minutes=12, step=10)

        assert rented.row(machine_id).state is MachineState.RELEASED

    def test_the_sweep_leaves_alone_what_works_within_its_time(self, rented: Rented) -> None:
        machine_id = rented.ask()
        rented.rederive()

        rented.after(minutes=5, step=10)

        assert rented.provider.deleted == []
        assert rented.row(machine_id).state is MachineState.HELD


@EACH_DATABASE
class TestStrays:
    def test_one_that_no_row_knows_is_shown_with_its_price_and_never_deleted_by_itself(self, rented: Rented) -> None:
        rented.provider.twins = [stranger("tune-forgotten", "pod_f"), stranger("my-notebook", "pod_n", None)]
        rented.rederive()
        with unit_of_work() as session:
            promise(session, accounts.SWEEP, factories.ACCOUNT)

        rented.after(minutes=30, step=30)

        with reading() as session:
            (seen,) = strays.list_strays(session, rented.caller)
        assert (seen.name, seen.provider_id, str(seen.rate)) == ("tune-forgotten", "pod_f", "$2.49/h")
        assert rented.provider.deleted == []

    def test_a_person_ends_it_and_it_goes_when_it_is_proved_gone(self, rented: Rented) -> None:
        rented.provider.twins = [stranger("tune-forgotten", "pod_f")]
        with unit_of_work() as session:
            promise(session, accounts.SWEEP, factories.ACCOUNT)
        rented.after(seconds=4)
        (row,) = rented.strays()

        with unit_of_work() as session:
            strays.terminate_stray(session, rented.caller, row.id)
        rented.after(seconds=10)
        assert rented.provider.deleted == ["pod_f"]
        assert rented.strays()[0].gone_at is None
        rented.after(minutes=7)

        assert rented.strays()[0].gone_at is not None
        with pytest.raises(Conflict, match="gone already"), unit_of_work() as session:
            strays.terminate_stray(session, rented.caller, row.id)

    def test_a_refusal_is_shown_and_it_is_tried_again(self, rented: Rented) -> None:
        def refuse(name: str) -> None:
            raise Denied("The key may not delete machines.")

        rented.provider.twins = [stranger("tune-forgotten", "pod_f")]
        rented.provider.on_release = refuse
        with unit_of_work() as session:
            promise(session, accounts.SWEEP, factories.ACCOUNT)
        rented.after(seconds=4)
        member = factories.make_caller(Role.MEMBER, organization_id=rented.caller.organization_id)
        with unit_of_work() as session:
            strays.terminate_stray(session, member, rented.strays()[0].id)
        rented.after(seconds=10)
        assert rented.strays()[0].terminate_problem == "The key may not delete machines."

        rented.provider.on_release = lambda name: None
        rented.after(seconds=60)

        assert rented.provider.twins == []


def test_a_stop_keeps_the_machine_until_somebody_decides(rented: Rented) -> None:
    machine_id = rented.ask()
    rented.beats(machine_id)
    rented.after(seconds=30)
    with unit_of_work() as session:
        machines.want_stop(session, session.get_one(Machine, machine_id))
    rented.after(minutes=1)

    assert rented.row(machine_id).state is MachineState.STOPPED
    rented.rederive()
    rented.after(minutes=30, step=30)
    assert rented.provider.deleted == []


def test_the_trainers_end_is_seen_soon_after_it_said_that_it_packs(rented: Rented) -> None:
    machine_id = rented.ask()
    rented.beats(machine_id, Phase.PACKAGING)
    rented.after(seconds=30)
    rented.ends(machine_id, Outcome.DONE)

    rented.after(seconds=20)

    assert rented.row(machine_id).result is not None
