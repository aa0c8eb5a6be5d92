"""Presets of the form of a run: a few changes to the defaults, with what they change in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.form_fields import ON
from tensorant_app.domain.run_form import BY_NAME, PURPOSE, SETTINGS
from tensorant_app.domain.runs import RunPurpose

GOVERNED = (PURPOSE, *SETTINGS)
"""The fields that a preset sets."""


@dataclass(frozen=True, slots=True)
class Preset:
    value: str
    label: str
    changes: Mapping[str, str]
    sentence: str
    """What it changes."""


PRESETS: tuple[Preset, ...] = (
    Preset(
        "check",
        "Check my set-up",
        {PURPOSE: RunPurpose.TRIAL.value},
        "A small training trial of the default settings: shows that everything works, and what a full run would take.",
    ),
    Preset("balanced", "Balanced", {}, "Every field at its default."),
    Preset(
        "thorough",
        "Thorough",
        {"epochs": "5", "rank": "32", "adapter_from": "best", "early_stop": ON},
        "5 epochs, rank 32, the adapter of the best validation loss, early stop.",
    ),
)


def apply_preset(typed: Mapping[str, str], value: str) -> dict[str, str]:
    """What was chosen as data stays; every setting goes back to its default, then the preset's changes."""
    preset = next((preset for preset in PRESETS if preset.value == value), None)
    if preset is None:
        raise Invalid({"preset": f"There is no preset called {value}."})
    defaults = {name: BY_NAME[name].default for name in GOVERNED}
    return {**typed, **defaults, **preset.changes}


def preset_of(typed: Mapping[str, str]) -> str:
    """The preset that the form equals; empty where none."""
    own = {name: typed.get(name, "") for name in GOVERNED}
    return next((p.value for p in PRESETS if {n: apply_preset(typed, p.value)[n] for n in GOVERNED} == own), "")
