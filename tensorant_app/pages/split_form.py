"""How rows are divided: the fields that ask for it, and what was typed into them; a wrong one gets its sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from uuid import UUID

import reflex as rx

from tensorant_app.components.choices import Option, select
from tensorant_app.components.forms import field, field_grid, text_input
from tensorant_app.components.texts import meta
from tensorant_app.components.values import if_
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.leakage import Keep
from tensorant_app.domain.splits import Counts, Fractions, Shares
from tensorant_app.pages.frame import fault
from trainer.contract import Split

_SPLITS = ("train", "validation", "test")
_TYPED = {"train": "0.8", "validation": "0.1", "test": "0.1", "seed": "42"}
_LABELS = {"train": "Training", "validation": "Validation", "test": "Test", "seed": "Seed"}
_KINDS = [Option("fractions", "Shares of the rows"), Option("counts", "Numbers of rows")]
_WHY_SEED = "The same seed divides the same rows in the same way; copies of a row never stand on both sides."
_LARGEST_SEED = 2**31 - 1
_KEEPS = [
    Option(Keep.BEGINNINGS.value, "Copies, and conversations that begin alike"),
    Option(Keep.COPIES.value, "Copies only"),
    Option(Keep.NEAR.value, "Nearly equal rows as well"),
]
_NAMES = {
    "group_by": (
        "Keep together by field",
        "Rows with the same value, such as one customer's, never stand on two sides.",
    ),
    "stratify_by": (
        "Divide alike by field",
        "Every value has its share in each split; write reply for the reply itself.",
    ),
}
_OF_FILES = (Split.VALIDATION, Split.TEST)
THIS_FILE = Option("this", "This file")
"""The first of the files that a split can come from. Not an empty value: a browser sends the words of such an option."""


def split_fields(others: rx.Var[list[Option]]) -> list[rx.Component]:
    """As people read them: by what, the parts, the seed, and what stays together. `others` are the dataset's files."""
    return [
        field("kind", "Divide by", select("kind", _KINDS)),
        field_grid(*[_number(split, "decimal") for split in _SPLITS], columns=3),
        meta("Shares add up to 1. With numbers, leave training empty to take all that is left.", block=True),
        _number("seed", "numeric", why=_WHY_SEED),
        field("keep", "Never on two sides", select("keep", _KEEPS)),
        field_grid(*[_name(name) for name in _NAMES], columns=2),
        if_(others.length() > 1, field_grid(*[_file(split, others) for split in _OF_FILES], columns=2)),
    ]


def read_shares(form: Mapping[str, Any]) -> Shares:
    """Of the splits that are no file of their own."""
    from_files = {split.value for split in read_files(form)}
    typed = {split: str(form.get(split, "")).strip().replace(",", "") for split in _SPLITS if split not in from_files}
    return _counts(typed) if form.get("kind") == "counts" else _fractions(typed)


def read_rest(form: Mapping[str, Any]) -> dict[str, Any]:
    """What stays together, what is divided alike, and the splits that are files: as `create_version` takes them."""
    keep = str(form.get("keep", "") or Keep.BEGINNINGS)
    if keep not in [*Keep]:
        raise Invalid({"keep": "Choose what never stands on two sides."})
    names = {name: str(form.get(name, "")).strip() for name in _NAMES}
    return {"keep": Keep(keep), **names, "files": read_files(form)}


def read_files(form: Mapping[str, Any]) -> dict[Split, UUID]:
    # A field that is not shown is told as null.
    chosen = {split: str(form.get(f"{split.value}_file") or "") for split in _OF_FILES}
    try:
        return {split: UUID(text) for split, text in chosen.items() if text not in ("", THIS_FILE.value)}
    except ValueError:
        raise Invalid({"test_file": "Choose one of the files that are listed."}) from None


def read_seed(form: Mapping[str, Any]) -> int:
    text = str(form.get("seed", "")).strip()
    if not text.isdigit() or int(text) > _LARGEST_SEED:
        raise Invalid({"seed": f"Write a whole number from 0 to {_LARGEST_SEED:,}."})
    return int(text)


def _name(name: str) -> rx.Component:
    label, why = _NAMES[name]
    control = text_input(name, placeholder="none", error=fault(name))
    return field(name, label, control, error=fault(name), why=why)


def _file(split: Split, others: rx.Var[list[Option]]) -> rx.Component:
    name = f"{split.value}_file"
    return field(name, f"{_LABELS[split.value]} rows from", select(name, others), error=fault(split.value))


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
    return Fractions(**(dict.fromkeys(_SPLITS, 0.0) | found))


def _counts(typed: Mapping[str, str]) -> Counts:
    wrong = {
        split: "Write how many rows, such as 300."
        for split, text in typed.items()
        if not (text.isdigit() and int(text) > 0) and not (split == "train" and text == "")
    }
    if wrong:
        raise Invalid(wrong)
    train = int(typed["train"]) if typed["train"] else None
    return Counts(validation=int(typed.get("validation", 0)), test=int(typed.get("test", 0)), train=train)
