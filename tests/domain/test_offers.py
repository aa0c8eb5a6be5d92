"""Which GPUs can be chosen, why the others cannot, and which are recommended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.offers import NEVER, Judged, Offer, Problem, Stock, SwitchedOff, Wanted, judge, judge_all

GIB = 1024**3
WANTED = Wanted(1, HourlyRate.dollars("5.00"), 23 * GIB, "EU-RO-1")


def offer(gpu_type: str = "NVIDIA L40S", price: str = "0.86", memory: int = 48, **values: Any) -> Offer:
    base = Offer(
        gpu_type,
        gpu_type.removeprefix("NVIDIA "),
        memory * GIB,
        HourlyRate.dollars(price),
        max_count=8,
        stock=Stock.HIGH,
        data_centers={"EU-RO-1": Stock.HIGH},
        capability="8.9",
        cuda_versions=("12.8", "12.10"),
    )
    return replace(base, **values)


def verdict(one: Offer, wanted: Wanted = WANTED, off: dict[str, SwitchedOff] | None = None) -> Judged:
    return judge(one, wanted, off or {})


def test_one_that_fits_can_be_chosen_and_costs_its_price_times_the_count() -> None:
    found = verdict(offer(), replace(WANTED, count=4))

    assert (found.problem, found.rate) == (None, HourlyRate.dollars("3.44"))


@pytest.mark.parametrize(
    ("one", "problem", "words"),
    [
        (offer("AMD Instinct MI300X OAM"), Problem.AMD, "NVIDIA"),
        (offer("NVIDIA GH200 480GB"), Problem.ARM64, "arm64"),
        (offer("NVIDIA Thing", arch="arm64"), Problem.ARM64, "x86-64"),
        (offer("Tesla V100-SXM2-32GB", capability="7.0"), Problem.TOO_OLD, "Ampere"),
        (offer("NVIDIA OFF"), Problem.SWITCHED_OFF, "Not in our plan. Ask: gpu@example.org"),
        (offer(cuda_versions=("12.4", "12.6")), Problem.OLD_DRIVERS, "12.6; 12.8 is needed"),
        (offer(memory=16), Problem.TOO_SMALL, "23.0 GiB are needed on each GPU; it has 16.0 GiB"),
        (offer(price="5.01"), Problem.TOO_DEAR, "$5.01/h is above the limit of $5.00/h"),
        (offer(data_centers={"EU-RO-1": Stock.NONE}), Problem.NO_STOCK, "None is free in EU-RO-1"),
        (offer(data_centers={"US-KS-2": Stock.HIGH}), Problem.NO_STOCK, "Try later, another type."),
        (offer(reason="The host is being mended."), Problem.NO_STOCK, "mended"),
    ],
)
def test_each_reason_is_a_sentence_that_says_what_is_missing(one: Offer, problem: Problem, words: str) -> None:
    found = verdict(one, off={"NVIDIA OFF": SwitchedOff("Not in our plan.", "gpu@example.org")})

    assert found.problem is problem
    assert words in found.sentence


def test_more_than_fit_in_one_machine_and_what_too_many_cost() -> None:
    assert verdict(offer(max_count=2), replace(WANTED, count=4)).problem is Problem.TOO_MANY
    assert verdict(offer(price="0.69"), replace(WANTED, count=8)).problem is Problem.TOO_DEAR
    none = verdict(offer(data_centers={}, stock=Stock.NONE), replace(WANTED, count=4, data_center=None))
    assert none.sentence == "None is free now. Try later, another type or fewer GPUs."


def test_what_no_day_changes_is_said_before_what_a_day_changes() -> None:
    arm = offer("NVIDIA GH200 480GB", price="90", memory=1, data_centers={"EU-RO-1": Stock.NONE})

    assert verdict(arm).problem in NEVER


def test_cuda_versions_are_numbers_not_words() -> None:
    assert verdict(offer(cuda_versions=("12.9", "12.10"))).problem is None
    assert verdict(offer(cuda_versions=("9.2",))).problem is Problem.OLD_DRIVERS
    assert verdict(offer(cuda_versions=())).problem is None


class TestTheOrder:
    OFFERS = (
        offer("A", "0.20", 24),
        offer("B", "0.40", 48),
        offer("C", "0.50", 48),
        offer("D", "0.60", 48),
        offer("E", "0.70", 48),
        offer("F", "0.10", 8),
    )

    def test_recommended_then_the_other_startable_ones_then_those_that_cannot(self) -> None:
        found = judge_all(self.OFFERS, WANTED, {})

        assert [one.offer.gpu_type for one in found] == ["B", "C", "D", "A", "E", "F"]
        assert [bool(one.why) for one in found] == [True, True, True, False, False, False]
        assert found[0].why == "The cheapest with a fifth of memory to spare"

    def test_what_worked_last_time_comes_first(self) -> None:
        found = judge_all(self.OFFERS, replace(WANTED, last_type="E"), {})

        assert [one.offer.gpu_type for one in found][:2] == ["E", "B"]
        assert "last completed run" in found[0].why

    def test_what_worked_last_time_and_is_gone_is_not_recommended(self) -> None:
        found = judge_all(self.OFFERS, replace(WANTED, last_type="F"), {})

        assert "F" not in [one.offer.gpu_type for one in found if one.why]
