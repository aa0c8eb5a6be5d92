"""Rows that say the same as others, within a split and across splits, and the sentences that name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trainer.contract import Split


class Likeness(StrEnum):
    """How a row repeats another one, the strongest first; a row counts once for each split that it repeats."""

    EXACT = "exact"
    COPY = "copy"
    """But for case, white space, Unicode form and system text."""
    BEGINNING = "beginning"
    """One conversation is the beginning of the other."""
    NEAR = "near"
    """At least 80 % of their pieces are the same, as far as a sketch of both tells."""


class Keep(StrEnum):
    """Which rows never stand on two sides of a split; each keeps what the ones before it keep."""

    COPIES = "copies"
    BEGINNINGS = "beginnings"
    NEAR = "near"


SHOWN = 100
"""Pairs of rows that are stored for each kind."""
_SAID = 8
"""Pairs that a sentence names."""
_ENDS = {
    Likeness.EXACT: "exactly",
    Likeness.COPY: "but for case, white space, system text or tools",
    Likeness.BEGINNING: "as the beginning of a conversation",
    Likeness.NEAR: "nearly word for word",
}


@dataclass(frozen=True, slots=True)
class Repeats:
    """Rows of one split that repeat rows of another one, or earlier rows of the same."""

    likeness: Likeness
    split: Split
    against: Split
    rows: int
    of: int
    """Rows of `split` in all."""
    shown: Sequence[tuple[int, int]]
    """(Row, the row that it repeats), the first `SHOWN`, in order."""

    @property
    def is_leak(self) -> bool:
        return self.split is not self.against

    @property
    def sentence(self) -> str:
        what = f"{_WORDS[self.against]} rows" if self.is_leak else f"other {_WORDS[self.against]} rows"
        named = ", ".join(f"{row} (of {other})" for row, other in self.shown[:_SAID])
        more = " …" if self.rows > _SAID else "."
        repeat = "repeats" if self.rows == 1 else "repeat"
        return f"{self.rows:,} of {self.of:,} {_WORDS[self.split]} rows {repeat} {what} {_ENDS[self.likeness]}: {named}{more}"


def read_repeats(stored: Mapping[str, Any]) -> Repeats:
    """From the stored form, which is its fields."""
    words = {"likeness": Likeness(stored["likeness"]), "split": Split(stored["split"])}
    pairs = [(row, other) for row, other in stored["shown"]]
    return Repeats(**{**stored, **words, "against": Split(stored["against"]), "shown": pairs})


def leak_sentences(found: Iterable[Repeats]) -> list[str]:
    """One sentence for each two splits that share rows: how many, and in which ways."""
    leaks: dict[tuple[Split, Split], list[Repeats]] = {}
    for repeats in found:
        if repeats.is_leak:
            leaks.setdefault((repeats.split, repeats.against), []).append(repeats)
    return [_leak(split, against, kinds) for (split, against), kinds in leaks.items()]


def _leak(split: Split, against: Split, kinds: Sequence[Repeats]) -> str:
    total, ways = sum(one.rows for one in kinds), ", ".join(f"{one.rows:,} {_ENDS[one.likeness]}" for one in kinds)
    stand = "stands" if total == 1 else "stand"
    return f"{total:,} of {kinds[0].of:,} {_WORDS[split]} rows {stand} in {_WORDS[against]} as well: {ways}."


_WORDS = {Split.TRAIN: "training", Split.VALIDATION: "validation", Split.TEST: "test"}
