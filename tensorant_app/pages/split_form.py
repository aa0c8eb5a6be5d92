"""How rows are divided, read from a form as it was typed; every wrong field gets its sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.splits import Counts, Fractions, Shares

_SPLITS = ("train", "validation", "test")
_LARGEST_SEED = 2**31 - 1


def read_shares(form: Mapping[str, Any]) -> Shares:
    typed = {split: str(form.get(split, "")).strip().replace(",", "") for split in _SPLITS}
    return _counts(typed) if form.get("kind") == "counts" else _fractions(typed)


def read_seed(form: Mapping[str, Any]) -> int:
    text = str(form.get("seed", "")).strip()
    if not text.isdigit() or int(text) > _LARGEST_SEED:
        raise Invalid({"seed": f"Write a whole number from 0 to {_LARGEST_SEED:,}."})
    return int(text)


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
