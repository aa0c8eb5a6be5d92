"""A run's settings: the ranges hold, and every fault is named at once."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.hyperparameters import CHOICES, RANGES, RunSettings
from trainer.contract import Plan, TrainOptions


def test_every_setting_has_a_range_or_choices_and_a_default_inside() -> None:
    names = {field.name for field in fields(RunSettings)}

    assert names == set(RANGES) | set(CHOICES)
    assert RunSettings.of(RunSettings().as_values()) == RunSettings()


@pytest.mark.parametrize("name", RANGES)
def test_the_ends_of_a_range_are_inside_and_beyond_is_not(name: str) -> None:
    allowed = RANGES[name]
    kind = int if allowed.is_whole else float

    assert RunSettings.of({name: kind(allowed.low)})
    assert RunSettings.of({name: kind(allowed.high)})
    for beyond in (allowed.low - 1, allowed.high + 1):
        with pytest.raises(Invalid, match="between"):
            RunSettings.of({name: kind(beyond)})


@pytest.mark.parametrize(
    ("name", "value"),
    [("epochs", 1.5), ("epochs", True), ("epochs", "3"), ("method", "full"), ("packing", 1), ("learning_rate", None)],
)
def test_a_value_of_the_wrong_kind_is_named(name: str, value: object) -> None:
    with pytest.raises(Invalid) as refusal:
        RunSettings.of({name: value})

    assert set(refusal.value.fields) == {name}


def test_all_wrong_fields_are_named_together() -> None:
    with pytest.raises(Invalid) as refusal:
        RunSettings.of({"epochs": 0, "rank": 999, "colour": "red"})

    assert set(refusal.value.fields) == {"epochs", "rank", "colour"}


@pytest.mark.parametrize(("rows", "steps", "micro"), [(1, 1, 1), (16, 1, 4), (17, 2, 5), (1_000, 63, 250)])
def test_the_plan_counts_the_last_partial_window(rows: int, steps: int, micro: int) -> None:
    plan = Plan.of(rows, TrainOptions(epochs=2, micro_batch_size=4, accumulation=4))

    assert (plan.steps_per_epoch, plan.total_steps, plan.micro_batches_per_epoch) == (steps, 2 * steps, micro)
