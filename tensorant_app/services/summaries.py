"""What only the whole file shows: rows that stand twice, questions answered in two ways, replies unlike the others.

A row costs 44 bytes here, so that three million of them fit into a small part of an import's memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tensorant_app.domain.data_codes import NoticeCode
from tensorant_app.domain.datasets import Notice, Row
from tensorant_app.services.equal_keys import runs_of_equal

if TYPE_CHECKING:
    import pyarrow as pa

FAR = 20
"""So many times longer or shorter than the median is suspicious."""
FEWEST_ROWS = 50
SHORT_BELOW = 100
"""Where the median reply has fewer characters, short ones are usual."""
LONG_ABOVE = 2_000
_TOGETHER = 10_000
"""Places that are lists of numbers at once."""


@dataclass(slots=True)
class Summary:
    """Takes every accepted row, in order. Keys are compared by their first 64 bits: by chance, two of three million
    different rows are taken for the same once in four million files."""

    rows: array[int] = field(default_factory=lambda: array("I"))
    lines: array[int] = field(default_factory=lambda: array("Q"))
    """0 where there are none."""
    lengths: array[int] = field(default_factory=lambda: array("I"))
    exact: array[int] = field(default_factory=lambda: array("Q"))
    copies: array[int] = field(default_factory=lambda: array("Q"))
    questions: array[int] = field(default_factory=lambda: array("Q"))
    duplicate_rows: int = 0
    """Rows that repeat an earlier one exactly; known once the notices were read."""
    copied_rows: int = 0
    """Rows that repeat an earlier one but for case, white space or system text."""

    def add(self, *rows: Row) -> None:
        self.rows.extend([row.row for row in rows])
        self.lines.extend([row.line or 0 for row in rows])
        self.lengths.extend([row.reply_length for row in rows])
        self.exact.frombytes(bytes.fromhex("".join([row.sha256[:16] for row in rows])))
        self.copies.frombytes(b"".join([row.copy_key[:8] for row in rows]))
        self.questions.frombytes(b"".join([row.question_key[:8] for row in rows]))

    def take(self, table: pa.Table) -> None:
        """The same of rows in a table."""
        self.rows.frombytes(_values(table["row"], "uint32"))
        self.lines.frombytes(_values(table["line"].fill_null(0), "uint64"))
        self.lengths.frombytes(_values(table["reply_length"], "uint32"))
        self.exact.frombytes(bytes.fromhex(_begins(table["sha256"], 16).decode()))
        self.copies.frombytes(_begins(table["copy_key"], 8))
        self.questions.frombytes(_begins(table["question_key"], 8))

    def notices(self) -> Iterator[Notice]:
        """In the rows' order; of copies, the first one is not named. Counts what it names."""
        exact, copies, questions = firsts = [_firsts(keys) for keys in (self.exact, self.copies, self.questions)]
        short, long = self._usual_lengths()
        for n in _odd_places(firsts, self.lengths, short, long):
            length = self.lengths[n]
            if exact[n] != n:
                self.duplicate_rows += 1
                yield self._notice(n, NoticeCode.DUPLICATE, f"repeats row {self.rows[exact[n]]}.")
            elif copies[n] != n:
                self.copied_rows += 1
                end = f"repeats row {self.rows[copies[n]]} but for case, white space or system text."
                yield self._notice(n, NoticeCode.COPY, end)
            elif questions[n] != n:
                end = f"asks the same as row {self.rows[questions[n]]} and answers otherwise."
                yield self._notice(n, NoticeCode.CONTRADICTION, end)
            if 0 < length < short:
                end = f"has a reply of {length} characters, far shorter than the file's others."
                yield self._notice(n, NoticeCode.SHORT_REPLY, end)
            elif length > long:
                end = f"has a reply of {length:,} characters, far longer than the file's others."
                yield self._notice(n, NoticeCode.LONG_REPLY, end)

    def _usual_lengths(self) -> tuple[float, float]:
        """Shorter or longer than these is suspicious."""
        if len(self.rows) < FEWEST_ROWS:
            return 0, float("inf")
        median = _median(self.lengths)
        return median / FAR if median >= SHORT_BELOW else 0, max(FAR * median, LONG_ABOVE)

    def _notice(self, n: int, code: NoticeCode, end: str) -> Notice:
        row, line = self.rows[n], self.lines[n] or None
        name = f"Row {row}" if line is None else f"Row {row} (line {line})"
        return Notice(row, line, "", code, f"{name} {end}")


def _values(column: pa.ChunkedArray, kind: str) -> bytes:
    array = column.combine_chunks().cast(kind)
    width = array.type.bit_width // 8
    return bytes(memoryview(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width])


def _begins(column: pa.ChunkedArray, length: int) -> bytes:
    """The first bytes of each value, which is at least as long, one behind the other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return b"".join(
        bytes(chunk.cast(pa.binary()).buffers()[2])
        for chunk in pc.binary_slice(column.cast(pa.binary()), 0, length).chunks
    )


def _odd_places(firsts: Sequence[array[int]], lengths: array[int], short: float, long: float) -> Iterator[int]:
    """Of rows that have an earlier place in one of `firsts`, or a length beyond the usual ones; in order."""
    import pyarrow.compute as pc

    own, length = (_as_arrow(numbers) for numbers in (array("I", range(len(lengths))), lengths))
    is_odd = pc.or_(pc.and_(pc.greater(length, 0), pc.less(length, short)), pc.greater(length, long))
    for one in firsts:
        is_odd = pc.or_(is_odd, pc.not_equal(_as_arrow(one), own))
    places = pc.indices_nonzero(is_odd)
    for start in range(0, len(places), _TOGETHER):
        yield from places.slice(start, _TOGETHER).to_pylist()


def _median(lengths: array[int]) -> int:
    """The longer one of the two in the middle."""
    import pyarrow.compute as pc

    return int(pc.quantile(_as_arrow(lengths), interpolation="higher")[0].as_py())


def _as_arrow(numbers: array[int]) -> Any:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.uint32(), len(numbers), [None, pa.py_buffer(numbers)])


def _firsts(keys: array[int]) -> array[int]:
    """For each place, the first place with the same key; itself where there is none before it."""
    firsts = array("I", range(len(keys)))
    for first, *others in runs_of_equal(keys):
        for place in others:
            firsts[place] = first
    return firsts
