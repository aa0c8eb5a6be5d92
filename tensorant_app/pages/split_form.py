"""How rows are divided: the fields that ask for it, and what was typed into them; a wrong one gets its sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import reflex as rx

from tensorant_app.components.choices import Option, select
from tensorant_app.components.forms import field, field_grid, text_input
from tensorant_app.components.texts import meta
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.splits import Counts, Fractions, Shares
from tensorant_app.pages.frame import fault

_SPLITS = ("train", "validation", "test")
_TYPED = {"train": "0.8", "validation": "0.1", "test": "0.1", "seed": "42"}
_LABELS = {"train": "Training", "validation": "Validation", "test": "Test", "seed": "Seed"}
_KINDS = [Option("fractions", "Shares of the rows"), Option("counts", "Numbers of rows")]
_WHY_SEED = "The same seed divides the same rows in the same way; copies of a row never stand on both sides."
_LARGEST_SEED = 2**31 - 1


def split_fields() -> list[rx.Component]:
    """As people read them: by what, the three parts, and the seed."""
    return [
        field("kind", "Divide by", select("kind", _KINDS)),
        field_grid(*[_number(split, "decimal") for split in _SPLITS], columns=3),
        meta("Shares add up to 1. With numbers, leave training empty to take all that is left.", block=True),
        _number("seed", "numeric", why=_WHY_SEED),
    ]


def read_shares(form: Mapping[str, Any]) -> Shares:
    typed = {split: str(form.get(split, "")).strip().replace(",", "") for split in _SPLITS}
    return _counts(typed) if form.get("kind") == "counts" else _fractions(typed)


def read_seed(form: Mapping[str, Any]) -> int:
    text = str(form.get("seed", "")).strip()
    if not text.isdigit() or int(text) > _LARGEST_SEED:
        raise Invalid({"seed": f"Write a whole number from 0 to {_LARGEST_SEED:,}."})
    return int(text)


def _number(name: str, input_mode: Literal["decimal", "numeric"], *, why: str = "") -> rx.Component:
    control = text_input(name, default_value=_TYPED[name], input_mode=input_mode, error=fault(name))
    return field(name, _LABELS[name], control, error=fault(name), why=why)


def _fractions(typed: Mapping[str, str]) -> Fractions:
    found, wrong = {}, {}
    for split, text in typed.items():
        try:
            found[split] = float(text)
        except ValueError:
            found[split] = -1.0
        if not 0 < found[split] < 1:
            wrong[split] = "Write a share between 0 and 1, such as 0.1."
    if not wrong and abs(sum(found.values()) - 1) > 1e-6:
        wrong["train"] = f"The shares add up to {sum(found.values()):.3g}; they must add up to 1."
    if wrong:
        raise Invalid(wrong)
    return Fractions(**found)


def _counts(typed: Mapping[str, str]) -> Counts:
    wrong = {
        split: "Write how many rows, such as 300."
        for split, text in typed.items()
        if not (text.isdigit() and int(text) > 0) and not (split == "train" and text == "")
    }
    if wrong:
        raise Invalid(wrong)
    train = int(typed["train"]) if typed["train"] else None
    return Counts(validation=int(typed["validation"]), test=int(typed["test"]), train=train)
