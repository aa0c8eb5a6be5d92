"""Where a run is trained, as it is typed: everything wrong is named, and what was saved can be typed again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

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

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
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


def test_further_choices_follow_the_first_one() -> None:
    waits = {**RUNPOD, "price_limit": "5", "wait_hours": "8", "second_gpu": "NVIDIA L4", "fourth_gpu": "NVIDIA A40"}

    place = read_placement(waits)

    assert place.gpu_types == ("NVIDIA L40S", "NVIDIA L4", "NVIDIA A40")
    again = type_placement(place.as_values())
    assert (again["second_gpu"], again["third_gpu"], again["fourth_gpu"]) == ("NVIDIA L4", "NVIDIA A40", "")


@pytest.mark.parametrize(
    ("wait", "further", "words"),
    [
        ("0", {"third_gpu": "NVIDIA L4"}, "only asked for while the run waits"),
        ("8", {"third_gpu": "NVIDIA L40S"}, "chosen already"),
        ("8", {"second_gpu": "NVIDIA L4", "third_gpu": "NVIDIA L4"}, "chosen already"),
    ],
)
def test_a_further_choice_that_would_say_nothing_is_refused(wait: str, further: dict[str, str], words: str) -> None:
    wrong = place_complaints({**RUNPOD, "price_limit": "5", "wait_hours": wait, **further})

    assert set(wrong) == {"third_gpu"}
    assert words in wrong["third_gpu"]


@pytest.mark.parametrize("provider", ["local", "runpod"])
def test_a_start_within_a_week_is_read_as_utc_unless_it_says_otherwise(provider: str) -> None:
    typed = {**RUNPOD, "price_limit": "5", "provider": provider}

    for text in ("2026-12-02T08:00", "2026-12-02 08:00", "2026-12-02T10:00+02:00"):
        place = read_placement({**typed, "not_before": text}, NOW)
        assert place.not_before == NOW + timedelta(days=1)
        assert type_placement(place.as_values())["not_before"] == "2026-12-02T08:00"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tomorrow", "a day and a time in UTC, such as 2026-12-01 08:00"),
        ("2026-12-01T07:59", "has passed: it is 2026-12-01 08:00 UTC"),
        ("2026-12-08T08:01", "within 7 days, by 2026-12-08 08:00 UTC"),
    ],
)
@pytest.mark.parametrize("provider", ["local", "runpod"])
def test_another_start_is_refused(provider: str, text: str, words: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read_placement({**RUNPOD, "price_limit": "5", "provider": provider, "not_before": text}, NOW)

    assert set(refusal.value.fields) == {"not_before"}
    assert words in refusal.value.fields["not_before"]


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
