"""Dividing rows into training, validation and test: seeded, and never a copy of a row on both sides."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.gate import MIN_TEST_ROWS
from trainer.contract import Split


@dataclass(frozen=True, slots=True)
class Fractions:
    """Shares of all rows; validation and test are rounded down, training takes the rest."""

    train: float = 0.8
    validation: float = 0.1
    test: float = 0.1


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of rows. Rows beyond the sum stay out of every split; None for training takes them all."""

    validation: int
    test: int
    train: int | None = None


Shares = Fractions | Counts

_ROUNDING = Decimal("0.000001")


def split_rows(rows: Sequence[tuple[int, str]], shares: Shares, seed: int) -> dict[int, Split]:
    """Row → split, from (row, copy key): the same for the same keys and seed, whatever the rows' order.

    Copies stay together, so that a split can differ from its target by the size of a group of copies.
    """
    targets = _targets(len(rows), shares)
    room, spare = Counter(targets), len(rows) - sum(targets.values())
    splits: dict[int, Split] = {}
    for group in _groups(rows, seed):
        split = max(Split, key=lambda name: room[name])
        if spare and len(group) > room[split]:
            continue
        room[split] -= len(group)
        splits.update(dict.fromkeys(group, split))
    if missing := [name for name in Split if name not in splits.values()]:
        different = len({key for _, key in rows})
        raise Invalid({missing[0]: f"No row is left for {missing[0]}: of {len(rows)} rows only {different} differ."})
    return splits


def warn_few_test_rows(splits: Mapping[int, Split]) -> str | None:
    """The sentence to show beside a split whose test rows cannot decide the gate."""
    rows = sum(split is Split.TEST for split in splits.values())
    if rows >= MIN_TEST_ROWS:
        return None
    return f"There are too few test rows to decide the gate: {rows}, and {MIN_TEST_ROWS} are needed."


def _targets(rows: int, shares: Shares) -> dict[Split, int]:
    match shares:
        case Fractions():
            targets = _fraction_targets(rows, shares)
        case Counts(validation, test, train):
            rest = rows - validation - test if train is None else train
            targets = {Split.TRAIN: rest, Split.VALIDATION: validation, Split.TEST: test}
    total = sum(targets.values())
    if total > rows:
        raise Invalid({"train": f"The splits ask for {total} rows, but there are {rows}; ask for fewer."})
    wrong = {name.value: f"{name.capitalize()} needs at least 1 row." for name, n in targets.items() if n < 1}
    if wrong and isinstance(shares, Fractions):
        raise Invalid({"rows": _too_few(rows, shares)})
    if wrong:
        raise Invalid(wrong)
    return targets


def _fraction_targets(rows: int, shares: Fractions) -> dict[Split, int]:
    exact = [Decimal(str(share)) for share in (shares.train, shares.validation, shares.test)]
    if not all(share.is_finite() and share > 0 for share in exact) or abs(sum(exact, start=Decimal(-1))) > _ROUNDING:
        raise Invalid({"train": "The shares of training, validation and test must be above 0 and add up to 1."})
    held = {Split.VALIDATION: int(rows * exact[1]), Split.TEST: int(rows * exact[2])}
    return {Split.TRAIN: rows - sum(held.values()), **held}


def _too_few(rows: int, shares: Fractions) -> str:
    needed = max(3, math.ceil(1 / Decimal(str(min(shares.validation, shares.test)))))
    return f"{rows} rows are too few for these shares: at least {needed} are needed, so that no split is empty."


def _groups(rows: Sequence[tuple[int, str]], seed: int) -> list[list[int]]:
    """Rows of equal key, larger groups first, otherwise in an order that only key and seed decide."""
    groups: dict[str, list[int]] = defaultdict(list)
    for row, key in rows:
        groups[key].append(row)
    order = {key: hashlib.sha256(f"{seed}\n{key}".encode()).digest() for key in groups}
    return [groups[key] for key in sorted(groups, key=lambda key: (-len(groups[key]), order[key]))]
