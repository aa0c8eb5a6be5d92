"""Rows that are nearly the same, told by MinHash sketches of their letters; sketches lie in a file, not in memory."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

import rensa

from tensorant_app.services.equal_keys import runs_of_equal

THRESHOLD = 0.8
"""Share of pieces that two rows have in common, of all that either has."""
PIECE = 5
"""Letters."""
READ = 20_000
"""Letters of a row that are compared: two longer rows that begin alike are alike here."""
_SKETCH = 128
_BANDS, _BAND = 21, 6
"""Two rows of likeness 0.8 share one of 21 bands of 6 numbers with 99.8 % probability, and of 0.5 with 28 %."""
_NUMBER = 4
_ROW = _SKETCH * _NUMBER
_SEED = 42
_HELD = 200_000
"""Pieces that are in memory at once."""


class NearRows:
    """Takes the text of every row, in order; then finds pairs."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._rows = 0

    def __enter__(self) -> NearRows:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def add(self, texts: Sequence[str]) -> None:
        held, letters = list[list[str]](), 0
        for text in texts:
            held.append(_pieces(text[:READ]))
            letters += len(held[-1])
            if letters > _HELD:
                self._sketch(held)
                held, letters = [], 0
        self._sketch(held)

    def _sketch(self, pieces: Sequence[Sequence[str]]) -> None:
        for sketch in rensa.RMinHash.digest_matrix_from_token_sets(pieces, _SKETCH, _SEED).to_rows():
            self._file.write(array("I", sketch).tobytes())
        self._rows += len(pieces)

    def pairs(self, side_of: Callable[[int], int], tell: Callable[[float], None]) -> Iterator[tuple[int, int]]:
        """(Row, an earlier or lower-sided row that is nearly the same), by the order of adding, from 0.

        Rows of a band are compared with the first one of each side and with the one before, not each with each:
        a thousand rows of one pattern are found, and take a thousand comparisons. `tell` hears the share done.
        """
        if self._rows < 2:
            return
        self._file.flush()
        with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as sketches:
            seen: set[tuple[int, int]] = set()
            for band in range(_BANDS):
                tell(band / _BANDS)
                for bucket in runs_of_equal(self._keys(sketches, band)):
                    for one, other in _candidates(bucket, side_of):
                        if (one, other) not in seen and _likeness(sketches, one, other) >= THRESHOLD:
                            seen.add((one, other))
                            yield one, other

    def _keys(self, sketches: mmap.mmap, band: int) -> array[int]:
        start, length = band * _BAND * _NUMBER, _BAND * _NUMBER
        ends = range(start, self._rows * _ROW, _ROW)
        return array("Q", [hash(sketches[end : end + length]) & 0xFFFFFFFFFFFFFFFF for end in ends])


def _pieces(text: str) -> list[str]:
    return [text[n : n + PIECE] for n in range(max(len(text) - PIECE + 1, 1))]


def _candidates(bucket: Sequence[int], side_of: Callable[[int], int]) -> Iterator[tuple[int, int]]:
    firsts: dict[int, int] = {}
    before = None
    for row in sorted(bucket, key=lambda row: (side_of(row), row)):
        for other in {*firsts.values(), *([before] if before is not None else [])}:
            yield row, other
        firsts.setdefault(side_of(row), row)
        before = row


def _likeness(sketches: mmap.mmap, one: int, other: int) -> float:
    """Of two sketches: the share of equal numbers."""
    first, second = (memoryview(sketches[n * _ROW : (n + 1) * _ROW]).cast("I") for n in (one, other))
    return sum(map(int.__eq__, first, second)) / _SKETCH
