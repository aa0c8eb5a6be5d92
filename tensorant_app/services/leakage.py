"""Which rows of a version repeat others, and which must stay together when it is divided."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tensorant_app.domain.copies import KEY_BYTES, Conversation
from tensorant_app.domain.leakage import SHOWN, Keep, Likeness, Repeats
from tensorant_app.services.equal_keys import runs_of_equal
from tensorant_app.services.near_rows import NearRows
from trainer.contract import Split

SPLITS = tuple(Split)
Tell = Callable[[float], None]


@dataclass(slots=True)
class RowKeys:
    """Of every row, in order: its number and what it is compared by, in 52 bytes."""

    numbers: array[int] = field(default_factory=lambda: array("Q"))
    exact: array[int] = field(default_factory=lambda: array("Q"))
    copies: array[int] = field(default_factory=lambda: array("Q"))
    copy_keys: bytearray = field(default_factory=bytearray)
    wholes: array[int] = field(default_factory=lambda: array("Q"))
    """Of all that is said."""
    beginnings: array[int] = field(default_factory=lambda: array("Q"))
    """Of every reply but the last one, of all rows; `owners` says whose each is."""
    owners: array[int] = field(default_factory=lambda: array("I"))

    def add(self, number: int, sha256: str, copy_key: bytes, said: Conversation) -> None:
        self.owners.extend([len(self.numbers)] * (len(said.beginnings) - 1))
        self.numbers.append(number)
        self.exact.append(int(sha256[:16], 16))
        self.copies.append(int.from_bytes(copy_key[:8]))
        self.copy_keys += copy_key
        keys = [int.from_bytes(key) for key in said.beginnings]
        self.wholes.append(keys[-1])
        self.beginnings.extend(keys[:-1])

    def conversations(self) -> Iterator[tuple[list[int], list[int]]]:
        """(Rows that are one conversation, rows that begin with it), where there are both."""
        count = len(self.numbers)
        for run in runs_of_equal(self.wholes + self.beginnings):
            owners = [self.owners[place - count] for place in run if place >= count]
            if owners and run[0] < count:
                yield [place for place in run if place < count], owners


def groups_of(keys: RowKeys, keep: Keep, near: NearRows | None, values: Iterable[str | None], tell: Tell) -> list[str]:
    """For each row the key of the rows that it must stay with: copies, and what `keep` and equal `values` add."""
    joined = _Joined(len(keys.numbers))
    for run in runs_of_equal(keys.copies):
        joined.join(run)
    if keep is not Keep.COPIES:
        for wholes, owners in keys.conversations():
            joined.join([*wholes, *owners])
    if keep is Keep.NEAR and near is not None:
        for pair in near.pairs(lambda _: 0, tell):
            joined.join(pair)
    first: dict[str, int] = {}
    for row, value in enumerate(values):
        if value is not None:
            joined.join([first.setdefault(value, row), row])
    least: dict[int, str] = {}
    for row in range(len(keys.numbers)):
        root, copy = joined.root(row), keys.copy_keys[KEY_BYTES * row : KEY_BYTES * (row + 1)].hex()
        least[root] = min(least.get(root, copy), copy)
    return [least[joined.root(row)] for row in range(len(keys.numbers))]


class _Joined:
    """Sets of rows that are joined one by one."""

    def __init__(self, rows: int) -> None:
        self._above = array("I", range(rows))

    def root(self, row: int) -> int:
        above = self._above
        while above[row] != row:
            above[row] = above[above[row]]
            row = above[row]
        return row

    def join(self, rows: Sequence[int]) -> None:
        first = self.root(rows[0])
        for row in rows[1:]:
            self._above[self.root(row)] = first


def find_repeats(keys: RowKeys, splits: Mapping[int, Split], near: NearRows | None, tell: Tell) -> list[Repeats]:
    """Of all rows that are in a split. A row counts once for each split, in the strongest way in which it repeats it."""
    count = len(keys.numbers)
    sides = bytearray(SPLITS.index(splits[row]) if row in splits else len(SPLITS) for row in range(count))
    found = _Found(keys, sides)
    for likeness, equal in ((Likeness.EXACT, keys.exact), (Likeness.COPY, keys.copies)):
        for run in runs_of_equal(equal):
            for row, other in _of_equal(run, sides):
                found.add(likeness, row, other)
    for wholes, owners in keys.conversations():
        for row, other in _of_conversations(wholes, owners, sides):
            found.add(Likeness.BEGINNING, row, other)
    if near is not None:
        for row, other in sorted(near.pairs(lambda row: sides[row], tell)):
            found.add(Likeness.NEAR, row, other)
    return found.listed()


class _Found:
    def __init__(self, keys: RowKeys, sides: bytearray) -> None:
        self._keys, self._sides = keys, sides
        self._known: set[tuple[int, int]] = set()
        self._pairs: dict[tuple[int, int, Likeness], list[tuple[int, int]]] = {}

    def add(self, likeness: Likeness, row: int, other: int) -> None:
        side, against = self._sides[row], self._sides[other]
        if max(side, against) == len(SPLITS) or (row, against) in self._known:
            return
        self._known.add((row, against))
        numbers = self._keys.numbers
        self._pairs.setdefault((side, against, likeness), []).append((numbers[row], numbers[other]))

    def listed(self) -> list[Repeats]:
        """Leaks first, those of the test rows before all."""
        order = sorted(self._pairs, key=lambda key: (key[0] == key[1], -key[0], key[1], list(Likeness).index(key[2])))
        return [
            Repeats(
                likeness,
                SPLITS[side],
                SPLITS[against],
                len(pairs := sorted(self._pairs[side, against, likeness])),
                self._sides.count(side),
                pairs[:SHOWN],
            )
            for side, against, likeness in order
        ]


def _of_equal(run: Sequence[int], sides: bytearray) -> Iterator[tuple[int, int]]:
    """Every row with the first of each side up to its own."""
    firsts: dict[int, int] = {}
    for row in sorted(run, key=lambda row: (sides[row], row)):
        yield from ((row, first) for first in firsts.values())
        firsts.setdefault(sides[row], row)


def _of_conversations(wholes: Sequence[int], owners: Sequence[int], sides: bytearray) -> Iterator[tuple[int, int]]:
    """The later side's row with the first of the earlier side; on one side, the shorter with the longer."""
    longer, shorter = _firsts(owners, sides), _firsts(wholes, sides)
    for row in sorted(wholes):
        yield from ((row, other) for side, other in longer.items() if side <= sides[row])
    for row in sorted(owners):
        yield from ((row, other) for side, other in shorter.items() if side < sides[row])


def _firsts(rows: Sequence[int], sides: bytearray) -> dict[int, int]:
    firsts: dict[int, int] = {}
    for row in sorted(rows):
        firsts.setdefault(sides[row], row)
    return firsts
