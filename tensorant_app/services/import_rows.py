"""The rows of an import as people look through and edit them: by page, by word, by finding, by what was done to them."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.datasets import Import
from tensorant_app.domain.data_codes import RowCode
from tensorant_app.domain.edits import MOST_ROWS, Overlay, origin
from tensorant_app.domain.errors import Conflict, Invalid, NotFound
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.services.connections import store
from tensorant_app.services.import_images import thumbnail_in
from tensorant_app.services.imports import bad_rows_key, rows_key
from tensorant_app.services.lookup import own_row
from tensorant_app.services.overlays import newest_edit, overlay_of
from tensorant_app.services.row_errors import rejected_rows, rows_of_kind
from tensorant_app.services.row_pages import PAGE_ROWS, holds, matching_rows, slice_rows

_COLUMNS = ("row", "example")


class Show(StrEnum):
    READY = "ready"
    """What a version is made of, and what was left out of it."""
    CHANGED = "changed"
    LEFT_OUT = "left_out"
    REJECTED = "rejected"
    """Rows with errors that nobody has mended or left out."""


@dataclass(frozen=True, slots=True)
class Which:
    """Rows by what was done to them, by a word that they hold, and by a kind of error or warning."""

    show: Show = Show.READY
    word: str = ""
    kind: str = ""
    """A code of what the reading found. A row that was changed since counts as of no kind."""


def show_of(kind: str) -> Show:
    """The list in which rows of this kind stand."""
    return Show.REJECTED if kind in [*RowCode] else Show.READY


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows that one step may leave out, or put back."""

    numbers: Sequence[int]
    seen: int | None
    """The newest step that they were looked up after; None where somebody named them."""


@dataclass(frozen=True, slots=True)
class ImportRow:
    number: int
    state: Show
    file_name: str
    source_number: int
    """Its number in that file."""
    text: str
    """The example as JSON, or of a rejected row what the file holds; empty where that cannot be said."""
    faults: Sequence[str] = ()
    """Why the file's own row cannot be trained; empty for a row that can."""


@dataclass(frozen=True, slots=True)
class RowsPage:
    rows: Sequence[ImportRow]
    total: int | None
    """None in a search, which is not counted."""
    more: bool


def list_rows(session: Session, caller: Caller, import_id: UUID, which: Which, *, start: int = 0) -> RowsPage:
    """Up to 50 rows from `start`; in a search changed rows come first."""
    if start < 0:
        raise Invalid({"start": "A page begins at row 0 or later."})
    found = _open(session, caller, import_id)
    if which.word:
        with closing(found.search(which)) as matches:
            rows = list(islice(matches, start, start + PAGE_ROWS + 1))
        return RowsPage(rows[:PAGE_ROWS], None, len(rows) > PAGE_ROWS)
    if which.show is Show.READY and not which.kind:
        total = found.row.accepted + len(found.overlay.mended) + sum(one.rows for one in found.overlay.appended)
        return RowsPage(found.slice(start), total, start + PAGE_ROWS < total)
    numbers = found.numbers(which)
    return RowsPage(found.rows(numbers[start : start + PAGE_ROWS]), len(numbers), start + PAGE_ROWS < len(numbers))


def find_rows(session: Session, caller: Caller, import_id: UUID, which: Which) -> FoundRows:
    """All rows of this kind that are not left out yet, or, of those that are left out, all that can be put back."""
    if which == Which():
        raise Invalid({"rows": "Search a word or choose a kind first."})
    found = _open(session, caller, import_id)
    if which.word:
        with closing(found.search(which)) as matches:
            numbers = [one.number for one in matches]
    else:
        numbers = found.numbers(which)
    if which.show is not Show.LEFT_OUT:
        numbers = [row for row in numbers if row not in found.overlay.left_out]
    if not numbers:
        is_out = which.show is Show.LEFT_OUT
        raise Conflict("None of these rows is left out." if is_out else "All rows of this kind are left out already.")
    if len(numbers) > MOST_ROWS:
        raise Invalid({"rows": f"These are {len(numbers):,} rows; one step takes at most {MOST_ROWS:,}."})
    return FoundRows(sorted(numbers), newest_edit(session, [import_id]))


def show_row(session: Session, caller: Caller, import_id: UUID, number: int) -> ImportRow:
    rows = _open(session, caller, import_id).rows([number])
    if not rows:
        raise NotFound(f"There is no row {number} in this file.")
    return rows[0]


def find_thumbnail(session: Session, caller: Caller, import_id: UUID, name: str) -> Path:
    """A small WebP of an image of this import, or of one whose rows were added to it."""
    caller.require(Permission.SEE)
    row = own_row(session, caller, Import, import_id, "import")
    return thumbnail_in([row.id, *(one.source for one in overlay_of(session, row.id).appended)], name)


@dataclass(frozen=True, slots=True)
class _Rows:
    row: Import
    overlay: Overlay
    names: dict[str, str]

    @property
    def files(self) -> list[tuple[Path, int]]:
        """The Parquet files with what is added to the numbers in them."""
        appended = [(store().fetch(rows_key(UUID(one.source))), one.offset) for one in self.overlay.appended]
        return [(store().fetch(rows_key(self.row.id)), 0), *appended]

    def slice(self, start: int) -> list[ImportRow]:
        """Rows that can be trained, in the order of their numbers; mended ones stand at their place."""
        rejected = _sorted(rejected_rows(self.row.id))
        mended = sorted(self.overlay.mended)
        places = {row: row - 1 - bisect_left(rejected, row) + n for n, row in enumerate(mended)}
        here = [row for row in mended if start <= places[row] < start + PAGE_ROWS]
        skip, wanted = start - sum(place < start for place in places.values()), PAGE_ROWS - len(here)
        found: list[tuple[int, str]] = []
        for path, offset in self.files:
            part = slice_rows(path, _COLUMNS, skip, wanted - len(found)) if wanted > len(found) else []
            found += [(one["row"] + offset, one["example"]) for one in part]
            skip = max(skip - _count(path), 0) if not part else 0
        found += [(row, self.overlay.changed[row]) for row in here]
        return [self._of(number, text) for number, text in sorted(found)]

    def search(self, which: Which) -> Generator[ImportRow, None, None]:
        """Rows of a list that hold the word; close it, and nothing more is read."""
        is_meant = self._chooser(which)
        for row, text in sorted(self.overlay.changed.items()):
            if is_meant(row) and holds(text, which.word):
                yield self._of(row, text)
        if which.show is not Show.REJECTED:
            with closing(self._matches(which.word)) as matches:
                yield from (self._of(row, text) for row, text in matches if is_meant(row))
        if which.show in (Show.REJECTED, Show.LEFT_OUT):
            lost = set(self.numbers(which)) & (rejected_rows(self.row.id) - self.overlay.mended)
            word = which.word.casefold()
            yield from (one for one in self._rejected(lost) if word in one.text.casefold())

    def _matches(self, word: str) -> Generator[tuple[int, str], None, None]:
        for path, offset in self.files:
            with closing(matching_rows(path, _COLUMNS, word)) as matches:
                for one in matches:
                    if one["row"] + offset not in self.overlay.changed:
                        yield one["row"] + offset, one["example"]

    def _chooser(self, which: Which) -> Callable[[int], bool]:
        if which.show is Show.READY and not which.kind:
            return lambda row: True
        return set(self.numbers(which)).__contains__

    def numbers(self, which: Which) -> list[int]:
        """Of a list that is no whole file, in order, whatever word is searched."""
        found: AbstractSet[int]
        match which.show:
            case Show.CHANGED:
                found = self.overlay.changed.keys()
            case Show.LEFT_OUT:
                found = self.overlay.left_out
            case Show.REJECTED:
                found = self.overlay.open_errors(rejected_rows(self.row.id))
            case Show.READY:
                found = self._of_kind(which.kind) - rejected_rows(self.row.id)
        return sorted(found & self._of_kind(which.kind) if which.kind else found)

    def _of_kind(self, kind: str) -> AbstractSet[int]:
        own = rows_of_kind(self.row.id, kind)
        more = (row + one.offset for one in self.overlay.appended for row in rows_of_kind(UUID(one.source), kind))
        return own.union(more) - self.overlay.changed.keys()

    def rows(self, numbers: Sequence[int]) -> list[ImportRow]:
        """These, in order; those that are not there are left out."""
        texts = {row: self.overlay.changed[row] for row in numbers if row in self.overlay.changed}
        wanted = [row for row in numbers if row not in texts]
        for path, offset in self.files:
            texts |= {row + offset: text for row, text in _fetch(path, [row - offset for row in wanted]).items()}
        made = [self._of(row, texts[row]) for row in numbers if row in texts]
        lost = {row for row in numbers if row not in texts} & rejected_rows(self.row.id)
        return sorted([*made, *self._rejected(lost)], key=lambda one: one.number)

    def _rejected(self, numbers: set[int]) -> Iterator[ImportRow]:
        if not numbers:
            return
        for line in _bad_rows(store().fetch(bad_rows_key(self.row.id)), numbers):
            raw = line["raw"]
            text = raw if isinstance(raw, str) else "" if raw is None else json.dumps(raw, ensure_ascii=False)
            faults = tuple(reason["message"] for reason in line["reasons"])
            state = Show.LEFT_OUT if line["row"] in self.overlay.left_out else Show.REJECTED
            yield ImportRow(line["row"], state, self.row.file_name, line["row"], text, faults)

    def _of(self, number: int, text: str) -> ImportRow:
        file_name, source_number = origin(number, self.overlay.appended, self.names, self.row.file_name)
        is_changed = number in self.overlay.changed
        state = Show.CHANGED if is_changed else Show.READY
        if number in self.overlay.left_out:
            state = Show.LEFT_OUT
        return ImportRow(number, state, file_name, source_number, self.overlay.changed.get(number, text))


def _open(session: Session, caller: Caller, import_id: UUID) -> _Rows:
    caller.require(Permission.SEE)
    row = own_row(session, caller, Import, import_id, "import")
    if row.state is not ImportState.READY:
        raise Conflict(f"The file {row.file_name} is {row.state.value}; its rows can be seen when it is ready.")
    overlay = overlay_of(session, row.id)
    names = {one.source: session.get_one(Import, UUID(one.source)).file_name for one in overlay.appended}
    return _Rows(row, overlay, names)


@lru_cache(maxsize=8)
def _sorted(rows: frozenset[int]) -> list[int]:
    return sorted(rows)


def _count(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


def _fetch(path: Path, numbers: Sequence[int]) -> dict[int, str]:
    import pyarrow.parquet as pq

    wanted = [number for number in numbers if number > 0]
    if not wanted:
        return {}
    table = pq.read_table(path, columns=list(_COLUMNS), filters=[("row", "in", wanted)])
    return {one["row"]: one["example"] for one in table.to_pylist()}


def _bad_rows(path: Path, numbers: set[int]) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    left = set(numbers)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            number = int(line[len('{"row": ') : line.index(",")])
            if number in left:
                left.discard(number)
                yield json.loads(line)
            if not left:
                return
