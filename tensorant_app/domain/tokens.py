"""How long the rows of a version are: bars of a histogram, and the words for rows beyond a context length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainer.contract import LongRow

BARS = 30
"""At most so many stand for the usual rows; the last one takes all that are longer."""
_NAMED = 20


@dataclass(frozen=True, slots=True)
class Bar:
    """Rows of at least `start` and fewer than `end` tokens; the last bar has no end."""

    start: int
    end: int | None
    rows: int


def width_of(usual: float) -> int:
    """Tokens of one bar, a round number, so that `usual` tokens fit into the bars."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if usual < step * factor * (BARS - 1):
                return step * factor
        step *= 10


def bars(counts: Mapping[int, int], width: int) -> list[Bar]:
    """`counts`: rows by number of the bar, the last of which takes what lies beyond; bars without rows stand too."""
    if not counts:
        return []
    last = max(counts)
    made = [Bar(n * width, (n + 1) * width, counts.get(n, 0)) for n in range(min(counts), last + 1)]
    if last == BARS - 1:
        made[-1] = Bar(last * width, None, counts[last])
    return made


def too_long(longest: Sequence[LongRow], context_length: int) -> str | None:
    """The rows beyond the context length, by number; None where all fit. `longest` holds the longest rows first."""
    beyond = [row for row in longest if row.tokens > context_length]
    if not beyond:
        return None
    named = ", ".join(f"{row.row:,} ({row.split}, {row.tokens:,})" for row in beyond[:_NAMED])
    more = " …" if len(beyond) > _NAMED else ""
    if len(beyond) == 1:
        return f"1 row is longer than the context length of {context_length:,} tokens: {named}."
    count = f"at least {len(beyond):,}" if len(beyond) == LongRow.LISTED else f"{len(beyond):,}"
    return f"{count.capitalize()} rows are longer than the context length of {context_length:,} tokens: {named}{more}."
