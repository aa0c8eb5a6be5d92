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
    row, after_comma, lacks_comma = 0, False, False
    while True:
        reader.skip_blanks()
        mark = reader.peek()
        if mark == "]" and not after_comma:
            break
        row, line = row + 1, reader.line
        if mark in ("]", ""):
            # What is missing is a row of its own, so that nobody takes the file for whole.
            yield _COMMA(row, line) if mark else _CUT_OFF(row, line)
            if not mark:
                return
            break
        if mark in _COMMENTS:
            reader.skip_line()
            yield _COMMENT(row, line)
        elif mark == ",":
            reader.take(1)
            after_comma, lacks_comma = True, False
            yield _HOLE(row, line)
        elif lacks_comma and mark != "{":
            yield _lost(line, "a comma is missing between two rows")
            return
        else:
            element = reader.element()
            if isinstance(element, FileError):
                yield element
                return
            reader.skip_blanks()
            fault = _BRACE if reader.take_brace() else _NO_COMMA if lacks_comma else ""
            yield Record(row, line, element.encode("utf-8", "surrogateescape"), fault)
            if reader.is_cut_off:
                return
            after_comma = reader.take_comma()
            lacks_comma = not after_comma
    reader.take(1)
    reader.skip_blanks()
    if reader.peek():
        yield _MORE(row + 1, reader.line)


def _fault(code: RowCode, end: str) -> Callable[[int, int], RowError]:
    return lambda row, line: RowError(row, line, "", code, f"Row {row} (line {line}): {end}")


_COMMA = _fault(RowCode.NOT_JSON, "a comma too many before ] at the end of the array.")
_CUT_OFF = _fault(RowCode.CUT_OFF, "the file ends inside the array; it was cut off.")
_HOLE = _fault(RowCode.NOT_JSON, "a comma too many; no row stands before it.")
_COMMENT = _fault(RowCode.NOT_JSON, "a comment stands here, and JSON has none; remove it.")
_NO_COMMA = "a comma is missing before the row."
_BRACE = "the } behind the row closes nothing; there is one too many."
_MORE = _fault(RowCode.SEVERAL_VALUES, "something follows the array; a file holds one.")


def _lost(line: int, why: str) -> FileError:
    end = "In an array the rows behind it cannot be told apart; mend it there, or write one object on each line."
    return FileError(FileCode.BROKEN_ARRAY, f"Line {line} of the JSON array: {why}. {end}")


_BLANKS = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"|["\[\]{}]')
"""A whole text, which holds no line end, or a mark; a quotation mark alone begins a text that does not end here."""
_SCALAR = re.compile(r"[^\s,\]\[{}\"]+")


_COMMENTS = ("/", "#")
_WIDEST_MARGIN = 100


class _Reader:
    """A window on the text that grows until an element is whole."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text, self._at, self._is_done = "", 0, False
        self._margin: str | None = ""
        """Blanks between the beginning of the line and where the reading stands; None where something else is."""
        self._is_resumed = False
        self.line = 1
        self.is_cut_off = False
        """The last element is not whole."""

    def skip_blanks(self) -> None:
        while True:
            found = _BLANKS.match(self._text, self._at)
            self._move(found.end() if found else self._at)
            if self._at < len(self._text) or not self._grow():
                return

    def skip_line(self) -> None:
        while (end := self._text.find("\n", self._at)) < 0 and self._grow():
            pass
        self._move(end if end >= 0 else len(self._text))

    def peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def take(self, count: int) -> str:
        taken = self._text[self._at : self._at + count]
        self._move(self._at + len(taken))
        return taken

    def take_brace(self) -> bool:
        """One that closes nothing, behind an element."""
        has_one = self.peek() == "}"
        while self.peek() == "}":
            self.take(1)
            self.skip_blanks()
        return has_one

    def take_comma(self) -> bool:
        """Whether another element may follow; so it may where the reading was resumed with it."""
        has_one = self.peek() == ","
        self.take(has_one)
        return has_one or self._is_resumed

    def element(self) -> str | FileError:
        """One value, found by its brackets alone."""
        self._is_resumed = False
        while (end := self._end()) is None:
            is_long = len(self._text) - self._at > ROW_LIMIT
            if is_long or not self._grow():
                if (after := self._next_element()) is not None:
                    return self._resumed(after)
                if is_long:
                    return too_long(f"The row that begins in line {self.line}")
                end, self.is_cut_off = len(self._text), True
                break
        if end < 0:
            return self._unclosed(-end - 1)
        is_crossed = self.peek() == "{" and self._text[end - 1] == "]"
        if is_crossed and (after := self._next_element()) is not None and after < end:
            return self._resumed(after)
        if end - self._at > ROW_LIMIT:
            return too_long(f"The row that begins in line {self.line}")
        return self.take(max(end - self._at, 1))

    def _unclosed(self, quote: int) -> str | FileError:
        """An element in which a text has no end on its line; `quote` is where it begins."""
        begins = quote - self._at
        while (after := self._next_element(self._at + begins)) is None:
            if len(self._text) - self._at > ROW_LIMIT or not self._grow():
                line = self.line + self._text.count("\n", self._at, self._at + begins)
                return _lost(line, 'a text does not end on its line; a quotation mark inside a text is written as \\"')
        return self._resumed(after)

    def _next_element(self, start: int | None = None) -> int | None:
        """Where a line begins as far from the margin as this element does: no text of sound JSON holds a line's end."""
        if self._margin is None or self.peek() != "{":
            return None
        at = self._text.find(f"\n{self._margin}{{", self._at if start is None else start)
        return at + 1 + len(self._margin) if at >= 0 else None

    def _resumed(self, after: int) -> str:
        self._is_resumed = True
        return self.take(after - self._at).rstrip(" \t\r\n").removesuffix(",")

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
        at = self._at
        if to == at:
            return
        if (lines := self._text.count("\n", at, to)) > 0:
            self.line += lines
            at, self._margin = self._text.rfind("\n", at, to) + 1, ""
        if self._margin is not None:
            passed = self._text[at : min(to, at + _WIDEST_MARGIN)]
            self._margin = None if passed.strip(" \t\r") else self._margin + passed
        self._at = to
