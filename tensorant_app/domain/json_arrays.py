"""One JSON array read element by element, so that a large one never stands in memory and a bad one stops no other."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator

from tensorant_app.domain.data_codes import FileCode, RowCode
from tensorant_app.domain.datasets import ROW_LIMIT, FileError, Record, RowError
from tensorant_app.domain.json_lines import too_long


def read_json_array(chunks: Iterable[bytes]) -> Iterator[Record | RowError | FileError]:
    """UTF-8 text in pieces. An element that is no JSON is handed on as it stands, and the next one follows.

    Bytes that are not UTF-8 travel as lone surrogates, and are bytes again in the record.
    """
    reader = _Reader(chunks)
    reader.skip_blanks()
    reader.take(1)
    row, after_comma = 0, False
    while True:
        reader.skip_blanks()
        mark = reader.peek()
        if mark == "]" and not after_comma:
            break
        row += 1
        line = reader.line
        if mark in ("]", ""):
            # What is missing is a row of its own, so that nobody takes the file for whole.
            yield _COMMA(row, line) if mark else _CUT_OFF(row, line)
            if not mark:
                return
            break
        element = reader.element()
        if isinstance(element, FileError):
            yield element
            return
        yield Record(row, line, element.encode("utf-8", "surrogateescape"))
        if reader.is_cut_off:
            return
        reader.skip_blanks()
        after_comma = reader.peek() == ","
        if after_comma:
            reader.take(1)
        elif reader.peek() not in ("]", ""):
            yield _lost(reader.line, "a comma is missing between two rows")
            return
    reader.take(1)
    reader.skip_blanks()
    if reader.peek():
        yield _MORE(row + 1, reader.line)


def _fault(code: RowCode, end: str) -> Callable[[int, int], RowError]:
    return lambda row, line: RowError(row, line, "", code, f"Row {row} (line {line}): {end}")


_COMMA = _fault(RowCode.NOT_JSON, "a comma too many before ] at the end of the array.")
_CUT_OFF = _fault(RowCode.CUT_OFF, "the file ends inside the array; it was cut off.")
_MORE = _fault(RowCode.SEVERAL_VALUES, "something follows the array; a file holds one.")


def _lost(line: int, why: str) -> FileError:
    end = "In an array the rows behind it cannot be told apart; mend it there, or write one object on each line."
    return FileError(FileCode.BROKEN_ARRAY, f"Line {line} of the JSON array: {why}. {end}")


_BLANKS = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"|["\[\]{}]')
"""A whole text, which holds no line end, or a mark; a quotation mark alone begins a text that does not end here."""
_SCALAR = re.compile(r"[^\s,\]\[{}\"]+")


class _Reader:
    """A window on the text that grows until an element is whole."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text, self._at, self._is_done = "", 0, False
        self.line = 1
        self.is_cut_off = False
        """The last element is not whole."""

    def skip_blanks(self) -> None:
        while True:
            found = _BLANKS.match(self._text, self._at)
            self._move(found.end() if found else self._at)
            if self._at < len(self._text) or not self._grow():
                return

    def peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def take(self, count: int) -> str:
        taken = self._text[self._at : self._at + count]
        self._move(self._at + len(taken))
        return taken

    def element(self) -> str | FileError:
        """One value, found by its brackets alone."""
        while (end := self._end()) is None:
            if len(self._text) - self._at > ROW_LIMIT:
                return too_long(f"The row that begins in line {self.line}")
            if not self._grow():
                end, self.is_cut_off = len(self._text), True
                break
        if end < 0:
            line = self.line + self._text.count("\n", self._at, -end - 1)
            return _lost(line, 'a text does not end on its line; a quotation mark inside a text is written as \\"')
        if end - self._at > ROW_LIMIT:
            return too_long(f"The row that begins in line {self.line}")
        return self.take(max(end - self._at, 1))

    def _end(self) -> int | None:
        """Just behind the value; None where more text is needed; negative: minus the place of a text without end."""
        if self.peek() not in '[{"':
            found = _SCALAR.match(self._text, self._at)
            end = found.end() if found else self._at + 1
            return end if end < len(self._text) else None
        depth = 0
        for token in _TOKEN.finditer(self._text, self._at):
            mark = token[0]
            if mark == '"':
                return -token.start() - 1 if self._text.find("\n", token.start()) >= 0 else None
            depth += (mark in "[{") - (mark in "]}")
            if depth <= 0:
                return token.end()
        return None

    def _grow(self) -> bool:
        """At least doubles what is left, so that a long element is looked at only a few times."""
        wanted = 2 * (len(self._text) - self._at)
        parts = [self._text[self._at :]]
        length = len(parts[0])
        while not self._is_done and (length < wanted or len(parts) == 1):
            chunk = next(self._chunks, None)
            self._is_done = chunk is None
            parts.append(self._decoder.decode(chunk or b"", final=self._is_done))
            length += len(parts[-1])
        has_grown = length > len(parts[0])
        self._text, self._at = "".join(parts), 0
        return has_grown

    def _move(self, to: int) -> None:
        self.line += self._text.count("\n", self._at, to)
        self._at = to
