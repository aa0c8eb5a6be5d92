"""The form of a run: every field of the run's page, read as it is typed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.run_form import (
    BY_NAME,
    FIELDS,
    SETTINGS,
    blank_form,
    changed_fields,
    complaints,
    read_settings,
    read_trial,
    type_settings,
)
from tensorant_app.domain.run_groups import STATES, RunGroup
from tensorant_app.domain.run_presets import PRESETS, apply_preset, preset_of
from tensorant_app.domain.trials import TrialSettings

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


def test_the_blank_form_reads_as_the_default_settings() -> None:
    assert read_settings(blank_form()) == RunSettings()
    assert changed_fields(blank_form()) == []
    assert set(SETTINGS) <= set(BY_NAME)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_every_field_says_its_range_or_its_choices_and_why(field: object) -> None:
    one = BY_NAME[field.name]  # type: ignore[attr-defined]

    assert one.hint or one.choices or one.name == "gpu_type"
    assert one.why or one.off_because or one.name in {"version", "baseline", "gpu_type"}
    assert not one.off_because or one.off_because.endswith(".")
    assert not one.choices or one.default in dict(one.choices)


def test_what_people_type_is_understood() -> None:
    typed = {**blank_form(), "context_length": " 4,096 ", "learning_rate": "1E-4", "epochs": "5.0", "packing": "off"}

    settings = read_settings(typed)

    assert (settings.context_length, settings.learning_rate, settings.epochs) == (4096, 1e-4, 5)
    assert settings.packing is False
    assert changed_fields({**blank_form(), "context_length": "2048"}) == []


def test_the_bounds_of_a_trial_are_read_only_where_it_is_one() -> None:
    typed = {**blank_form(), "trial_rows": "1,000", "trial_minutes": "2.5"}

    assert read_trial(typed) is None
    assert "trial_rows" in complaints({**typed, "purpose": "trial"}, NOW)
    assert read_trial({**blank_form(), "purpose": "trial", "trial_minutes": "2.5"}) == TrialSettings(trial_minutes=2.5)
    assert complaints({**blank_form(), "purpose": "quick"}, NOW) == {
        "purpose": "Choose a full training run or a small training trial."
    }


def test_every_wrong_field_is_named_with_a_sentence() -> None:
    typed = {**blank_form(), "epochs": "400", "rank": "many", "learning_rate": "nan", "seed": "1.5", "method": "full"}

    wrong = complaints(typed, NOW)

    assert wrong["epochs"] == "Epochs must be between 1 and 100."
    assert wrong["rank"] == "LoRA rank must be a whole number, such as 16."
    assert wrong["learning_rate"] == "Learning rate must be between 1e-6 and 1e-2."
    assert set(wrong) == {"epochs", "rank", "learning_rate", "seed", "method"}


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.value)
def test_a_preset_changes_settings_only_and_is_recognised(preset: object) -> None:
    value = preset.value  # type: ignore[attr-defined]
    before = {**blank_form(), "name": "Mine", "epochs": "77", "version": "v"}

    typed = apply_preset(before, value)

    assert preset_of(typed) == value
    assert (typed["name"], typed["version"]) == ("Mine", "v")
    assert read_settings(typed)
    assert preset_of(before) == ""
    with pytest.raises(Invalid, match="no preset"):
        apply_preset(before, "best")


def test_saved_settings_can_be_typed_again() -> None:
    settings = RunSettings(learning_rate=3e-5, epochs=7, packing=False, schedule="linear", maximum_runtime_hours=0.5)

    assert read_settings({**blank_form(), **type_settings(settings.as_values())}) == settings


def test_every_state_of_a_run_stands_in_one_group_beside_all() -> None:
    for state in STATES[RunGroup.ALL]:
        assert sum(state in states for states in STATES.values()) == 2
