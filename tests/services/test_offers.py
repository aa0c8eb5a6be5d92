"""The catalog as it is kept: fresh while somebody looks, never lost to an outage, cut by what the operator switched off."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from sqlmodel import select

from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.connections import RUNPOD
from tensorant_app.domain.errors import Conflict, Invalid, NotFound
from tensorant_app.domain.members import Caller, operator
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.offers import Offer, Stock, SwitchedOff
from tensorant_app.providers.registry import PROVIDERS
from tensorant_app.services import offers
from tests import factories
from tests.conftest import Clock
from tests.fakes import GIB, FakeProvider

L40S = Offer(
    "NVIDIA L40S",
    "L40S",
    48 * GIB,
    HourlyRate.dollars("0.86"),
    max_count=8,
    stock=Stock.HIGH,
    data_centers={"EU-RO-1": Stock.LOW},
    capability="8.9",
    cuda_versions=("12.4", "12.8"),
)


@pytest.fixture
def connection_id(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> UUID:
    monkeypatch.setitem(PROVIDERS, RUNPOD, lambda *args: FakeProvider())
    assert caller.organization_id is not None
    with unit_of_work() as session:
        return factories.connect(session, caller.organization_id).id


def due(connection_id: UUID) -> Sequence[int]:
    with reading() as session:
        task = offers.read_refresh(session, connection_id)
    assert task is not None
    return task.counts


def next_at(connection_id: UUID) -> datetime | None:
    with reading() as session:
        return offers.next_refresh(session, connection_id)


def answer(connection_id: UUID, *counts: int) -> None:
    with unit_of_work() as session:
        for count in counts:
            offers.note_offers(session, connection_id, count, [L40S], "")


def look(caller: Caller, count: int) -> None:
    with unit_of_work() as session:
        offers.note_looking(session, caller, count)


def catalog(caller: Caller, count: int = 1) -> offers.Catalog | None:
    assert caller.organization_id is not None
    with reading() as session:
        return offers.catalog_of(session, caller.organization_id, count)


def test_an_offer_is_kept_whole(caller: Caller, connection_id: UUID, clock: Clock) -> None:
    answer(connection_id, 1)

    kept = catalog(caller)

    assert kept is not None
    assert kept.offers == [L40S]
    assert (kept.seen_at, kept.trouble) == (clock.at, "")


def test_without_an_account_there_is_no_catalog(caller: Caller) -> None:
    assert catalog(caller) is None
    look(caller, 1)
    with pytest.raises(Conflict, match="not connected"), unit_of_work() as session:
        offers.refresh_offers(session, caller, 1)


def test_a_new_account_is_asked_for_one_gpu_at_once(caller: Caller, connection_id: UUID) -> None:
    assert due(connection_id) == [1]


def test_while_somebody_looks_it_is_a_minute_old_at_most(caller: Caller, connection_id: UUID, clock: Clock) -> None:
    look(caller, 4)
    assert due(connection_id) == [1, 4]
    answer(connection_id, 1, 4)
    assert due(connection_id) == []
    assert next_at(connection_id) == clock.at + offers.FRESH

    clock.advance(seconds=60)
    look(caller, 4)

    assert due(connection_id) == [4]


def test_while_nobody_looks_only_one_gpu_is_asked_for_and_seldom(
    caller: Caller, connection_id: UUID, clock: Clock
) -> None:
    look(caller, 4)
    answer(connection_id, 1, 4)
    clock.advance(minutes=10)
    assert due(connection_id) == []

    clock.advance(minutes=30)

    assert due(connection_id) == [1]


def test_refresh_asks_anew_at_once_and_keeps_the_age(caller: Caller, connection_id: UUID, clock: Clock) -> None:
    answer(connection_id, 1)
    seen = clock.at
    clock.advance(seconds=5)

    with unit_of_work() as session:
        offers.refresh_offers(session, caller, 1)

    kept = catalog(caller)
    assert due(connection_id) == [1]
    assert kept is not None
    assert kept.seen_at == seen
    answer(connection_id, 1)
    assert due(connection_id) == []


def test_an_outage_keeps_the_older_list_and_says_why(caller: Caller, connection_id: UUID, clock: Clock) -> None:
    answer(connection_id, 1)
    seen = clock.at
    clock.advance(minutes=31)

    with unit_of_work() as session:
        offers.note_offers(session, connection_id, 1, None, "RunPod does not answer.")

    kept = catalog(caller)
    assert kept is not None
    assert (list(kept.offers), kept.seen_at, kept.trouble) == ([L40S], seen, "RunPod does not answer.")


@pytest.mark.parametrize("count", [0, 9, -1])
def test_a_count_that_no_machine_has_is_refused(caller: Caller, connection_id: UUID, count: int) -> None:
    with pytest.raises(Invalid, match="1 to 8"), unit_of_work() as session:
        offers.note_looking(session, caller, count)


class TestTheOperatorsSwitch:
    def test_off_on_and_the_trail(self, caller: Caller) -> None:
        with unit_of_work() as session:
            offers.switch_off(session, operator(), "NVIDIA H100 NVL", " Not in our plan. ", "gpu@example.org")
        with reading() as session:
            assert offers.switched_off(session) == {
                "NVIDIA H100 NVL": SwitchedOff("Not in our plan.", "gpu@example.org")
            }
        with unit_of_work() as session:
            offers.switch_on(session, operator(), "NVIDIA H100 NVL")

        with reading() as session:
            assert offers.list_switched_off(session, operator()) == []
            trail = [entry.action for entry in session.exec(select(AuditEntry)) if entry.action.startswith("gpus.")]
        assert trail == ["gpus.off", "gpus.on"]

    def test_needs_a_reason(self, caller: Caller) -> None:
        with pytest.raises(Invalid, match="Say why"), unit_of_work() as session:
            offers.switch_off(session, operator(), "NVIDIA L4", "", "")

    def test_what_is_on_cannot_be_switched_on(self, caller: Caller) -> None:
        with pytest.raises(NotFound, match="not switched off"), unit_of_work() as session:
            offers.switch_on(session, operator(), "NVIDIA L4")


def test_a_lists_age_counts_from_the_answer_not_from_the_look(
    caller: Caller, connection_id: UUID, clock: Clock
) -> None:
    answer(connection_id, 1)
    for _ in range(3):
        clock.advance(seconds=25)
        look(caller, 1)

    assert clock.at - (next_at(connection_id) or clock.at) < timedelta(seconds=60)
    assert due(connection_id) == [1]
