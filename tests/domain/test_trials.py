"""The bounds of a small training trial, and what its adapter is not for."""

from __future__ import annotations

from typing import Any

import pytest

from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.money import HourlyRate, Money
from tensorant_app.domain.runs import RunPurpose
from tensorant_app.domain.trials import RANGES, TrialSettings, cost_of, require_usable
from trainer import contract
from trainer.contract import TrialLimits


def test_the_console_and_the_trainer_know_the_same_defaults_and_caps() -> None:
    ours, theirs = TrialSettings(), TrialLimits()

    assert (ours.trial_rows, ours.trial_validation_rows, ours.trial_steps) == (128, 16, 20)
    assert (ours.trial_seed, ours.trial_minutes) == (42, 20.0)
    assert list(ours.as_values().values()) == [
        theirs.rows,
        theirs.validation_rows,
        theirs.steps,
        theirs.seed,
        theirs.minutes,
    ]
    caps = [RANGES[f"trial_{name}"].high for name in ("rows", "validation_rows", "steps", "minutes")]
    assert caps == [512, 64, 50, 30]
    assert caps == [contract.MOST_ROWS, contract.MOST_VALIDATION_ROWS, contract.MOST_STEPS, contract.MOST_MINUTES]


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("trial_rows", 513, "Trial training rows must be between 1 and 512."),
        ("trial_validation_rows", 65, "Trial validation rows must be between 0 and 64."),
        ("trial_steps", 51, "Trial steps must be between 6 and 50."),
        ("trial_steps", 7.5, "Trial steps must be a whole number."),
        ("trial_minutes", 30.5, "Trial time limit must be between 1 and 30."),
        ("trial_epochs", 1, "A trial has no bound called trial_epochs."),
    ],
)
def test_a_bound_beyond_its_cap_is_refused_by_name(name: str, value: Any, sentence: str) -> None:
    with pytest.raises(Invalid) as refusal:
        TrialSettings.of({name: value})

    assert refusal.value.fields == {name: sentence}


def test_a_trials_adapter_is_refused_wherever_an_adapter_is_used() -> None:
    require_usable(RunPurpose.FULL)

    with pytest.raises(Conflict, match=r"diagnostic.*Create the full training draft"):
        require_usable(RunPurpose.TRIAL)


def test_the_cost_is_the_price_of_the_predicted_time() -> None:
    low, high = cost_of(HourlyRate(Money.dollars("2.40")), 1800, 2700)

    assert (low, high) == (Money.dollars("1.20"), Money.dollars("1.80"))
