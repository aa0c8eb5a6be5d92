"""Where a run is trained, as it is typed: everything wrong is named, and what was saved can be typed again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.place_form import (
    COUNTS,
    place_complaints,
    raised_limit,
    read_placement,
    type_placement,
)
from tensorant_app.domain.placement import Placement

RUNPOD = {"provider": "runpod", "gpu_type": "NVIDIA L40S", "gpu_count": "2", "price_limit": "$1,0.50"}


def test_this_computer_needs_nothing_else() -> None:
    assert read_placement({"provider": "local", "gpu_count": "many", "price_limit": "x"}) == Placement("local")


def test_a_rented_place_is_read_with_its_defaults() -> None:
    place = read_placement({**RUNPOD, "price_limit": " $7.5 "})

    assert place == Placement("runpod", ("NVIDIA L40S",), 2, HourlyRate.dollars("7.50"), 60, timedelta(0))


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("price_limit", "0.04", "between 0.05 and 500"),
        ("price_limit", "nan", "must be a number"),
        ("price_limit", "five", "such as 5.00"),
        ("container_disk", "20.5", "whole number"),
        ("container_disk", "1,001", "between 20 and 1,000"),
        ("wait_hours", "73", "between 0 and 72"),
        ("gpu_count", "9", "1 to 8"),
        ("gpu_type", " ", "Choose a training GPU"),
        ("provider", "elsewhere", "this computer or RunPod"),
    ],
)
def test_each_wrong_field_is_named(field: str, text: str, words: str) -> None:
    wrong = place_complaints({**RUNPOD, "price_limit": "5", field: text})

    assert set(wrong) == {field}
    assert words in wrong[field]


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(Invalid) as refusal:
        read_placement({"provider": "runpod", "gpu_count": "0", "container_disk": "1"})

    assert set(refusal.value.fields) == {"gpu_type", "gpu_count", "container_disk"}


@pytest.mark.parametrize("count", COUNTS)
def test_what_was_saved_can_be_typed_again(count: str) -> None:
    place = read_placement({**RUNPOD, "gpu_count": count, "price_limit": "0.86", "wait_hours": "1.5"})

    assert read_placement(type_placement(place.as_values())) == place


def test_a_raised_limit_lets_the_price_through() -> None:
    assert raised_limit(HourlyRate.dollars("5.001")) == "5.01"
    assert raised_limit(HourlyRate.dollars("5.01")) == "5.01"
