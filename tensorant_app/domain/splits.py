"""Dividing rows into training, validation and test: seeded, and never a copy of a row on both sides."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
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
_WORDS = {Split.TRAIN: "training", Split.VALIDATION: "validation", Split.TEST: "test"}


def split_rows(
    rows: Sequence[tuple[int, str]],
    shares: Shares,
    seed: int,
    *,
    into: Collection[Split] = tuple(Split),
    strata: Mapping[int, str] | None = None,
) -> dict[int, Split]:
    """Row → split, from (row, group key): the same for the same keys and seed, whatever the rows' order.

    Rows of one key stay together, so that a split can differ from its target by the size of a group. `into` names the
    splits to make, where others come from files of their own; with `strata` (row → value) every value is divided alike.
    """
    targets = _targets(len(rows), shares, into)
    rooms = _Rooms(targets, Counter((strata or {}).get(row, "") for row, _ in rows))
    splits: dict[int, Split] = {}
    for group in _groups(rows, seed):
        split = rooms.place(_most_common([(strata or {}).get(row, "") for row in group]), len(group))
        if split is not None:
            splits.update(dict.fromkeys(group, split))
    if missing := [name for name in into if name not in splits.values()]:
        different = len({key for _, key in rows})
        raise Invalid({missing[0]: f"No row is left for {missing[0]}: of {len(rows)} rows only {different} differ."})
    return splits


class _Rooms:
    """How many rows each split still takes of each value."""

    def __init__(self, targets: Mapping[Split, int], sizes: Mapping[str, int]) -> None:
        rest = dict(sizes)
        takes_rest = sum(targets.values()) == sum(sizes.values())
        self._into = [split for split in Split if split in targets]
        self._room: dict[str, Counter[Split]] = {value: Counter() for value in sizes}
        for split in (Split.TEST, Split.VALIDATION, Split.TRAIN):
            if split not in targets:
                continue
            is_last = takes_rest and split is self._into[0]
            for value, count in (rest if is_last else _apportion(targets[split], sizes, rest)).items():
                self._room[value][split] = count
            rest = {value: count - self._room[value][split] for value, count in rest.items()}
        self._spare = rest

    def place(self, value: str, size: int) -> Split | None:
        """The split with the most room; None where there is none and rows may stay out."""
        room = self._room[value]
        split = max(self._into, key=lambda name: room[name])
        if self._spare[value] and size > room[split]:
            return None
        room[split] -= size
        return split


def _apportion(target: int, sizes: Mapping[str, int], rest: Mapping[str, int]) -> dict[str, int]:
    """The target divided by the values' sizes, the largest remainders rounded up, never more than is left."""
    total = sum(sizes.values())
    found = {value: min(target * size // total, rest[value]) for value, size in sizes.items()}
    order = sorted(sizes, key=lambda value: (-(target * sizes[value] % total), value))
    while (missing := target - sum(found.values())) > 0:
        for value in [value for value in order if found[value] < rest[value]][:missing]:
            found[value] += 1
    return found


def _most_common(values: Sequence[str]) -> str:
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))


def warn_few_test_rows(splits: Mapping[int, Split]) -> str | None:
    """The sentence to show beside a split whose test rows cannot decide the gate."""
    rows = sum(split is Split.TEST for split in splits.values())
    if rows >= MIN_TEST_ROWS:
        return None
    return f"There are too few test rows to decide the gate: {rows}, and {MIN_TEST_ROWS} are needed."


def warn_missing_values(splits: Mapping[int, Split], strata: Mapping[int, str]) -> str | None:
    """The sentence where a value stands in no test row, so that nothing is measured on it."""
    tested = {strata[row] for row, split in splits.items() if split is Split.TEST}
    missing = sorted({strata[row] for row in splits} - tested)
    if not missing:
        return None
    shown = ", ".join(f"“{value[:40]}”" for value in missing[:5]) + (" …" if len(missing) > 5 else "")
    return (
        f"{len(missing)} of {len(tested) + len(missing)} values have too few rows to stand in the test rows: {shown}."
    )


def _targets(rows: int, shares: Shares, into: Collection[Split]) -> dict[Split, int]:
    match shares:
        case Fractions():
            targets = _fraction_targets(rows, shares, into)
        case Counts(validation, test, train):
            asked = validation * (Split.VALIDATION in into) + test * (Split.TEST in into)
            rest = rows - asked if train is None else train
            targets = {Split.TRAIN: rest, Split.VALIDATION: validation, Split.TEST: test}
    targets = {split: count for split, count in targets.items() if split in into}
    total = sum(targets.values())
    if total > rows:
        raise Invalid({"train": f"The splits ask for {total} rows, but there are {rows}; ask for fewer."})
    wrong = {name.value: f"{name.capitalize()} needs at least 1 row." for name, n in targets.items() if n < 1}
    if wrong and isinstance(shares, Fractions):
        raise Invalid({"rows": _too_few(rows, shares, into)})
    if wrong:
        raise Invalid(wrong)
    return targets


def _fraction_targets(rows: int, shares: Fractions, into: Collection[Split]) -> dict[Split, int]:
    exact = {split: Decimal(str(getattr(shares, split.value))) for split in Split if split in into}
    if not all(share.is_finite() and share > 0 for share in exact.values()) or (
        abs(sum(exact.values(), start=Decimal(-1))) > _ROUNDING
    ):
        names = " and ".join(", ".join(_WORDS[split] for split in exact).rsplit(", ", 1))
        raise Invalid({"train": f"The shares of {names} must be above 0 and add up to 1."})
    held: dict[Split, int] = {split: int(rows * share) for split, share in exact.items() if split is not Split.TRAIN}
    return {Split.TRAIN: rows - sum(held.values()), **held}


def _too_few(rows: int, shares: Fractions, into: Collection[Split]) -> str:
    held = [getattr(shares, split.value) for split in into if split is not Split.TRAIN]
    least = min((Decimal(str(share)) for share in held), default=Decimal(1))
    needed = max(len(into), math.ceil(1 / least))
    return f"{rows} rows are too few for these shares: at least {needed} are needed, so that no split is empty."


def _groups(rows: Sequence[tuple[int, str]], seed: int) -> list[list[int]]:
    """Rows of equal key, larger groups first, otherwise in an order that only key and seed decide."""
    groups: dict[str, list[int]] = defaultdict(list)
    for row, key in rows:
        groups[key].append(row)
    order = {key: hashlib.sha256(f"{seed}\n{key}".encode()).digest() for key in groups}
    return [groups[key] for key in sorted(groups, key=lambda key: (-len(groups[key]), order[key]))]
