"""A run that rents its machine: each check refuses for its own cause, and says what mends it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tensorant_app.db.connections import Connection
from tensorant_app.db.machines import Machine
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import RUNPOD, ConnectionKind, ConnectionState
from tensorant_app.domain.errors import AuthFailed, Invalid, Refused
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.machines import MachineState
from tensorant_app.domain.members import Caller, operator
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.domain.offers import Offer, Stock
from tensorant_app.domain.placement import Placement
from tensorant_app.domain.readiness import RENTED_ONLY, Check, Finding, Verdict
from tensorant_app.domain.runs import RunState
from tensorant_app.pages.launch_words import card_of
from tensorant_app.providers.registry import PROVIDERS, STORES
from tensorant_app.services import launches, offers, previews, projects, readiness, runs
from tensorant_app.services.connections import store
from tensorant_app.services.own_disk_checks import check_own_disk
from tensorant_app.settings import get_settings
from tests import factories
from tests.conftest import Clock
from tests.fakes import GIB, FakeProvider
from tests.plain_base import make_plain_base

IMAGE = f"ghcr.io/example/trainer@sha256:{'0' * 64}"
L40S = Offer(
    "NVIDIA L40S",
    "L40S",
    48 * GIB,
    HourlyRate.dollars("0.86"),
    max_count=8,
    stock=Stock.HIGH,
    data_centers={"EU-RO-1": Stock.HIGH},
    capability="8.9",
    cuda_versions=("12.8",),
)
V100 = replace(L40S, gpu_type="Tesla V100", label="V100", capability="7.0")
GH200 = replace(L40S, gpu_type="NVIDIA GH200", label="GH200", arch="arm64")
H100 = replace(L40S, gpu_type="NVIDIA H100 80GB HBM3", label="H100", rate=HourlyRate.dollars("2.39"))
PLACE = Placement(RUNPOD, ("NVIDIA L40S",), 1, HourlyRate.dollars("5.00"))


class Ground:
    """A rented run whose every check passes, until a test spoils something."""

    def __init__(self, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
        assert caller.organization_id is not None
        self.caller, self.organization_id, self.monkeypatch = caller, caller.organization_id, monkeypatch
        self.provider = FakeProvider(types=[L40S, V100, GH200])
        monkeypatch.setitem(PROVIDERS, RUNPOD, lambda *args: self.provider)
        monkeypatch.setitem(STORES, RUNPOD, lambda *args: None)
        self.set_image(IMAGE)
        self.run_id = factories.make_run(caller, placement=PLACE.as_values())
        make_plain_base(get_settings().bases_dir / "tiny")
        with unit_of_work() as session:
            facts = {"name": "tune", "size_gb": 100, "data_center": "EU-RO-1", "type": "STANDARD"}
            factories.connect(
                session, self.organization_id, ConnectionKind.RUNPOD_STORAGE, facts=facts, sentence="It can be written."
            )
            compute = factories.connect(session, self.organization_id, sentence="The key works.")
            offers.note_offers(session, compute.id, 1, self.provider.types, "")

    def set_image(self, image: str) -> None:
        self.monkeypatch.setenv("TENSORANT_TRAINER_IMAGE", image)
        get_settings.cache_clear()

    def place(self, **changes: Any) -> None:
        with unit_of_work() as session:
            session.get_one(Run, self.run_id).placement = replace(PLACE, **changes).as_values()

    def catalog(self, *found: Offer) -> None:
        self.provider.types = list(found)
        with unit_of_work() as session:
            compute = session.exec(_of(ConnectionKind.RUNPOD_COMPUTE)).one()
            offers.note_offers(session, compute.id, 1, found, "")

    def connection(self, kind: ConnectionKind, **values: Any) -> None:
        with unit_of_work() as session:
            row = session.exec(_of(kind)).one()
            for name, value in values.items():
                setattr(row, name, value)

    def disconnect(self, kind: ConnectionKind) -> None:
        from tensorant_app.services import connecting

        with unit_of_work() as session:
            connecting.remove_connection(session, self.caller, session.exec(_of(kind)).one().id)

    def set_budget(self, dollars: str) -> None:
        with unit_of_work() as session:
            projects.set_budget(session, self.caller, session.get_one(Run, self.run_id).project_id, dollars)

    def subject(self) -> readiness.Subject:
        with reading() as session:
            return readiness.read_subject(session, self.run_id)

    def preview(self) -> dict[Check, Finding]:
        """As the form shows it, from what is kept."""
        return {found.check: found for found in readiness.check_all_but_trainer(self.subject())}

    def at_launch(self, clock: Clock) -> dict[Check, Finding]:
        return {found.check: found for found in readiness.check_run(self.subject(), clock.at)}

    def refused(self) -> dict[Check, str]:
        return {check: one.sentence for check, one in self.preview().items() if one.verdict is Verdict.REFUSE}


def _of(kind: ConnectionKind) -> Any:
    from sqlmodel import select

    return select(Connection).where(Connection.kind == kind)


@pytest.fixture
def ground(caller: Caller, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Ground:
    return Ground(caller, monkeypatch)


def test_a_run_that_can_start_passes_every_check_there_is(ground: Ground, clock: Clock) -> None:
    for findings in (ground.preview(), ground.at_launch(clock)):
        assert set(findings) == set(Check) - {Check.SAFETY_LOOK}, "which speaks only where rows were not looked through"
        assert {one.verdict for one in findings.values()} == {Verdict.PASS}
        assert [one.sentence for one in findings.values() if not one.sentence.endswith(".")] == []


def lose_compute(ground: Ground) -> None:
    ground.connection(ConnectionKind.RUNPOD_COMPUTE, state=ConnectionState.FAILED, sentence="RunPod refuses the key.")


def remove_storage(ground: Ground) -> None:
    ground.disconnect(ConnectionKind.RUNPOD_STORAGE)


def save_storage_anew(ground: Ground) -> None:
    ground.connection(ConnectionKind.RUNPOD_STORAGE, state=ConnectionState.UNCHECKED)


def shrink_volume(ground: Ground) -> None:
    ground.connection(ConnectionKind.RUNPOD_STORAGE, facts={"name": "a", "size_gb": 0, "data_center": "b", "type": "c"})


def take_old_gpu(ground: Ground) -> None:
    ground.place(gpu_types=("Tesla V100",))


def take_arm_gpu(ground: Ground) -> None:
    ground.place(gpu_types=("NVIDIA GH200",))


def switch_off(ground: Ground) -> None:
    with unit_of_work() as session:
        offers.switch_off(session, operator(), "NVIDIA L40S", "Not in our plan.", "gpu@example.org")


def sell_out(ground: Ground) -> None:
    ground.catalog(replace(L40S, data_centers={"EU-RO-1": Stock.NONE}))


def withdraw(ground: Ground) -> None:
    ground.catalog(V100)


def lower_limit(ground: Ground) -> None:
    ground.place(rate_limit=HourlyRate.dollars("0.50"))


def spend_budget(ground: Ground) -> None:
    ground.set_budget("5")


def take_small_gpu(ground: Ground) -> None:
    ground.catalog(replace(L40S, memory_bytes=GIB))


def drop_image(ground: Ground) -> None:
    ground.monkeypatch.delenv("TENSORANT_TRAINER_IMAGE")
    get_settings.cache_clear()


@pytest.mark.parametrize(
    ("spoil", "check", "words"),
    [
        (lose_compute, Check.COMPUTE, "RunPod refuses the key"),
        (save_storage_anew, Check.STORAGE, "being checked"),
        (shrink_volume, Check.SPACE, "has 0 GB in all"),
        (take_old_gpu, Check.GPU, "older than NVIDIA Ampere"),
        (take_arm_gpu, Check.GPU, "arm64"),
        (switch_off, Check.GPU, "Not in our plan. Ask: gpu@example.org"),
        (sell_out, Check.STOCK, "None is free in EU-RO-1"),
        (withdraw, Check.STOCK, "no longer offers NVIDIA L40S"),
        (lower_limit, Check.PRICE, "costs $0.86/h, and the limit is $0.50/h"),
        (spend_budget, Check.BUDGET, "Cap (est.) is $5.16; $5.00 of the project's $5.00"),
        (take_small_gpu, Check.MEMORY, "Choose a larger one"),
        (drop_image, Check.TRAINER, "TENSORANT_TRAINER_IMAGE"),
    ],
)
def test_each_refuses_for_its_own_cause(
    ground: Ground, spoil: Callable[[Ground], None], check: Check, words: str
) -> None:
    spoil(ground)

    refused = ground.refused()

    assert set(refused) - {Check.SPACE} == {check} - {Check.SPACE}
    assert words in refused[check]


def test_a_run_that_waits_for_capacity_is_only_warned(ground: Ground) -> None:
    sell_out(ground)
    ground.place(wait=timedelta(hours=3))

    found = ground.preview()[Check.STOCK]

    assert found.verdict is Verdict.WARN
    assert "up to 3 h" in found.sentence


def test_at_launch_the_provider_is_asked_itself(ground: Ground, clock: Clock) -> None:
    ground.provider.types = [replace(L40S, rate=HourlyRate.dollars("9.00"))]
    assert ground.preview()[Check.PRICE].verdict is Verdict.PASS

    assert ground.at_launch(clock)[Check.PRICE].verdict is Verdict.REFUSE


def test_a_key_refused_at_launch_is_the_reason(ground: Ground, clock: Clock) -> None:
    def offers(self: FakeProvider, count: int = 1) -> Sequence[Offer]:
        raise AuthFailed("RunPod refuses the key.")

    ground.monkeypatch.setattr(FakeProvider, "offers", offers)

    found = ground.at_launch(clock)[Check.COMPUTE]

    assert (found.verdict, "RunPod refuses the key" in found.sentence) == (Verdict.REFUSE, True)


def test_one_press_raises_the_limit_to_the_price(ground: Ground) -> None:
    lower_limit(ground)
    subject = ground.subject()

    mend = previews.mend_of(ground.preview()[Check.PRICE], subject)

    assert mend is not None
    assert (mend.label, mend.field, mend.value) == ("Raise the limit to $0.86/h", "price_limit", "0.86")


def test_an_account_that_is_not_there_leads_to_connections(ground: Ground) -> None:
    ground.disconnect(ConnectionKind.RUNPOD_COMPUTE)
    finding = ground.preview()[Check.COMPUTE]

    mend = previews.mend_of(finding, ground.subject())

    assert mend is not None
    assert mend.place == "connections"


def test_a_run_on_this_computer_is_asked_none_of_it(caller: Caller, clock: Clock) -> None:
    run_id = factories.make_run(caller)
    make_plain_base(get_settings().bases_dir / "tiny")

    with reading() as session:
        subject = readiness.read_subject(session, run_id)

    assert not {one.check for one in readiness.check_all_but_trainer(subject)} & RENTED_ONLY


class TestWithoutANetworkVolume:
    """Files come with the create call, the base model in the image; both are looked at before anything is paid for."""

    BASES = f"others/model@{'b' * 40},tests/tiny-llama@{factories.REVISION}"

    @pytest.fixture(autouse=True)
    def without(self, ground: Ground) -> None:
        remove_storage(ground)
        ground.monkeypatch.setenv("TENSORANT_TRAINER_BASES", self.BASES)
        get_settings.cache_clear()

    def test_it_may_be_launched_and_is_told_what_that_means(self, ground: Ground) -> None:
        assert ground.refused() == {}
        warning = ground.preview()[Check.STORAGE]
        assert warning.verdict is Verdict.WARN
        assert "You fetch adapter.zip from the stopped Pod" in warning.sentence
        assert "60 GB. Of a stopped Pod it costs about $12.00 a month" in ground.preview()[Check.SPACE].sentence

    def test_too_many_rows_are_refused_and_the_way_out_named(self, ground: Ground) -> None:
        version = f"versions/{factories.REPORT['content_sha256']}"
        store().put(f"{version}/train.parquet", random.Random(1).randbytes(66_000))

        assert "Connect a volume under Connections" in ground.refused()[Check.STORAGE]

    def test_as_many_as_fit_are_not(self, ground: Ground) -> None:
        version = f"versions/{factories.REPORT['content_sha256']}"
        store().put(f"{version}/train.parquet", random.Random(1).randbytes(64_000))

        assert Check.STORAGE not in ground.refused()

    @pytest.mark.parametrize("known", ["", f"tests/tiny-llama@{'c' * 40}"])
    def test_a_base_model_that_is_not_in_the_image_is_refused(self, ground: Ground, known: str) -> None:
        ground.monkeypatch.setenv("TENSORANT_TRAINER_BASES", known)
        get_settings.cache_clear()

        assert "not built into the trainer's image" in ground.refused()[Check.BASE]

    def test_a_disk_that_is_too_small_is_refused(self, ground: Ground) -> None:
        own = check_own_disk(20, 21 * 10**9, 3)

        assert (own.verdict, "Raise the container disk" in own.sentence) == (Verdict.REFUSE, True)

    def test_the_launch_dialog_says_who_fetches_what_and_what_the_disk_costs(self, ground: Ground) -> None:
        with reading() as session:
            card = card_of(launches.show_launch(session, ground.caller, ground.run_id))

        assert "you fetch adapter.zip from it and hand it in" in card.at_limit
        assert "about $12.00 a month" in card.at_limit


class TestTheBudget:
    def machine(self, ground: Ground, clock: Clock, state: MachineState, **values: Any) -> None:
        machine_id = factories.ask_machine(ground.caller, ground.run_id, clock.at)
        with unit_of_work() as session:
            machine = session.get_one(Machine, machine_id)
            machine.state, machine.rate, machine.ask_sent_at = state, HourlyRate.dollars(2), clock.at
            for name, value in values.items():
                setattr(machine, name, value)

    def taken(self, ground: Ground) -> Money:
        with reading() as session:
            project_id = session.get_one(Run, ground.run_id).project_id
            return projects.show_budget(session, ground.caller, project_id).taken

    def test_a_live_machine_takes_all_until_its_deadline(self, ground: Ground, clock: Clock) -> None:
        self.machine(ground, clock, MachineState.HELD)

        assert self.taken(ground) == Money.dollars(12)

    def test_one_that_is_gone_takes_what_it_was_there(self, ground: Ground, clock: Clock) -> None:
        self.machine(ground, clock, MachineState.RELEASED, released_at=clock.at + timedelta(minutes=30))

        assert self.taken(ground) == Money.dollars(1)

    def test_another_month_counts_nothing(self, ground: Ground, clock: Clock) -> None:
        self.machine(ground, clock, MachineState.RELEASED, released_at=clock.at + timedelta(minutes=30))
        clock.advance(hours=24 * 31)

        assert self.taken(ground) == Money(0)

    @pytest.mark.parametrize("typed", ["0.5", "lots", "nan", "1e30"])
    def test_an_amount_that_is_none_is_refused(self, ground: Ground, typed: str) -> None:
        with pytest.raises(Invalid, match="monthly budget"):
            ground.set_budget(typed)

    def test_none_typed_means_none(self, ground: Ground) -> None:
        ground.set_budget("$1,200")
        ground.set_budget(" ")

        with reading() as session:
            assert session.get_one(Project, session.get_one(Run, ground.run_id).project_id).monthly_budget is None


class TestFurtherChoices:
    def found(self, ground: Ground, *further: str, **changes: Any) -> dict[Check, str]:
        ground.catalog(L40S, V100, H100)
        ground.place(gpu_types=("NVIDIA L40S", *further), wait=timedelta(hours=8), **changes)
        return ground.refused()

    def test_one_that_would_do_passes_whatever_is_in_stock(self, ground: Ground) -> None:
        assert self.found(ground, H100.gpu_type) == {}
        assert "asked for in turn: H100 at $2.39/h" in " ".join(
            one.sentence for one in readiness.check_all_but_trainer(ground.subject())
        )
        ground.catalog(L40S, replace(H100, stock=Stock.NONE, data_centers={}))
        assert ground.refused() == {}

    def test_one_above_the_limit_is_refused_before_it_is_rented(self, ground: Ground) -> None:
        refused = self.found(ground, H100.gpu_type, rate_limit=HourlyRate.dollars("2.00"))

        assert refused == {
            Check.PRICE: "H100 cannot be a further choice of this run. $2.39/h is above the limit of $2.00/h."
        }

    def test_one_that_cannot_train_or_is_gone_is_refused(self, ground: Ground) -> None:
        assert "Ampere" in self.found(ground, "Tesla V100")[Check.GPU]
        assert "no longer offers NVIDIA Nothing" in self.found(ground, "NVIDIA Nothing")[Check.STOCK]

    def test_the_budget_is_compared_with_the_dearest(self, ground: Ground) -> None:
        ground.set_budget("10")
        assert ground.refused() == {}

        assert set(self.found(ground, H100.gpu_type)) == {Check.BUDGET}


class TestLaunching:
    def launch(self, ground: Ground, shown: str | None) -> None:
        with unit_of_work() as session:
            price = HourlyRate.dollars(shown) if shown else None
            runs.launch_run(session, ground.caller, ground.run_id, shown_price=price)

    def state(self, ground: Ground) -> RunState:
        with reading() as session:
            return session.get_one(Run, ground.run_id).state

    def test_the_dialog_names_price_cap_and_who_is_billed(self, ground: Ground) -> None:
        with reading() as session:
            rented = launches.show_launch(session, ground.caller, ground.run_id).rented

        assert rented is not None
        assert (rented.label, rented.count, rented.rate) == ("L40S", 1, HourlyRate.dollars("0.86"))
        assert (rented.cap, rented.account, rented.data_center) == (Money.dollars("5.16"), "1234", "EU-RO-1")

    def test_the_dialog_names_the_further_choices_and_the_dearest_ones_cap(self, ground: Ground) -> None:
        ground.catalog(L40S, H100)
        ground.place(gpu_types=("NVIDIA L40S", H100.gpu_type), wait=timedelta(hours=8))

        with reading() as session:
            view = launches.show_launch(session, ground.caller, ground.run_id)

        card = card_of(view)
        assert card.further == "Asked for in turn, for up to 8 h: 1 × H100 at $2.39/h. The cap is the dearest one's."
        assert (card.price, card.cap, card.price_micros) == ("$0.86", "$14.34", 2_390_000)
        with pytest.raises(Refused, match=r"rose from \$0.86/h to \$2.39/h"):
            self.launch(ground, "0.86")
        self.launch(ground, "2.39")
        assert self.state(ground) is RunState.QUEUED

    def test_the_dialog_names_a_start_that_has_not_come(self, ground: Ground, clock: Clock) -> None:
        ground.place(not_before=clock.at + timedelta(hours=2))

        with reading() as session:
            card = card_of(launches.show_launch(session, ground.caller, ground.run_id))

        assert card.queue.startswith(f"It waits as Queued until {clock.at + timedelta(hours=2):%Y-%m-%d %H:%M} UTC")

    def test_at_the_price_that_was_shown_it_goes(self, ground: Ground) -> None:
        self.launch(ground, "0.86")

        assert self.state(ground) is RunState.QUEUED

    def test_a_price_that_fell_since_is_no_reason_to_refuse(self, ground: Ground) -> None:
        self.launch(ground, "0.90")

        assert self.state(ground) is RunState.QUEUED

    def test_a_price_that_rose_since_is_refused_with_both(self, ground: Ground) -> None:
        with pytest.raises(Refused, match=r"rose from \$0.80/h to \$0.86/h"):
            self.launch(ground, "0.80")

        assert self.state(ground) is RunState.DRAFT

    def test_without_a_price_seen_nothing_is_rented(self, ground: Ground) -> None:
        with pytest.raises(Refused, match=r"costs \$0.86/h"):
            self.launch(ground, None)

    def test_what_is_not_on_offer_is_not_launched(self, ground: Ground) -> None:
        withdraw(ground)

        with pytest.raises(Refused, match="not on offer"):
            self.launch(ground, "0.86")


class TestSavingADraft:
    def save(self, ground: Ground, **changes: Any) -> UUID:
        with unit_of_work() as session:
            run = session.get_one(Run, ground.run_id)
            return runs.save_draft(
                session,
                ground.caller,
                name="Next",
                version_id=run.version_id,
                baseline_id=run.baseline_id,
                settings=RunSettings().as_values(),
                placement=replace(PLACE, **changes).as_values(),
            )

    def test_keeps_the_place(self, ground: Ground) -> None:
        run_id = self.save(ground, gpu_count=4)

        # Nobody looked at the list for four yet: prices are known, stock is not.
        with reading() as session:
            assert Placement.of(session.get_one(Run, run_id).placement or {}).gpu_count == 4

    @pytest.mark.parametrize(
        ("gpu_type", "words"),
        [("NVIDIA GH200", "arm64"), ("Tesla V100", "Ampere"), ("NVIDIA Nothing", "does not offer NVIDIA Nothing")],
    )
    def test_refuses_what_no_day_makes_usable(self, ground: Ground, gpu_type: str, words: str) -> None:
        with pytest.raises(Invalid, match=words):
            self.save(ground, gpu_types=(gpu_type,))

    def test_refuses_the_same_of_a_further_choice_at_its_own_field(self, ground: Ground) -> None:
        with pytest.raises(Invalid) as refusal:
            self.save(ground, gpu_types=("NVIDIA L40S", "Tesla V100"), wait=timedelta(hours=1))

        assert "Ampere" in refusal.value.fields["second_gpu"]

    def test_refuses_runpod_without_an_account(self, ground: Ground) -> None:
        ground.disconnect(ConnectionKind.RUNPOD_COMPUTE)

        with pytest.raises(Invalid, match="not connected"):
            self.save(ground)

    def test_takes_what_is_only_sold_out(self, ground: Ground) -> None:
        sell_out(ground)

        assert self.save(ground)
