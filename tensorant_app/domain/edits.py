"""What people change in the rows of an import before a version of it is frozen: steps that are only ever added.

The file and its rows stay as they were read. What counts is folded from the steps; an undo is a step as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum

from tensorant_app.domain.errors import Invalid

MOST_ROWS = 1_000_000
"""Of one step."""


class EditKind(StrEnum):
    LEAVE_OUT = "leave_out"
    CHANGE = "change"
    PUT_BACK = "put_back"
    """As the file has it, whatever was done to it."""
    APPEND = "append"
    """All rows of another file, behind the ones that are there."""
    UNDO = "undo"


@dataclass(frozen=True, slots=True)
class Edit:
    """One step; `id` grows with time."""

    id: int
    kind: EditKind
    rows: tuple[int, ...] = ()
    """For APPEND one number: what is added to the numbers of the other file's rows."""
    example: str = ""
    """For CHANGE: the row as it is trained from now on."""
    was_rejected: bool = False
    """For CHANGE: the file's own row cannot be trained."""
    source: str = ""
    """For APPEND: the other import."""
    added: int = 0
    """For APPEND: how many rows the other file gives."""
    undoes: int | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    source: str
    offset: int
    rows: int


@dataclass(slots=True)
class Overlay:
    """What the steps come to."""

    left_out: set[int] = field(default_factory=set)
    """Rejected ones too: they are not asked about any more."""
    changed: dict[int, str] = field(default_factory=dict)
    mended: set[int] = field(default_factory=set)
    """Changed rows that the file's own reading rejected."""
    appended: list[Appended] = field(default_factory=list)

    def ready(self, accepted: int, rejected: AbstractSet[int]) -> int:
        """How many rows a version is made of. `rejected` are those of the file's own reading, of `accepted` and them."""
        taken_out = len(self.left_out - (rejected - self.mended))
        return accepted + len(self.mended) + sum(one.rows for one in self.appended) - taken_out

    def open_errors(self, rejected: AbstractSet[int]) -> AbstractSet[int]:
        """Rejected rows that nobody has mended or left out."""
        return rejected - self.mended - self.left_out

    @property
    def is_empty(self) -> bool:
        return not (self.left_out or self.changed or self.appended)

    def stored(self) -> dict[str, object]:
        """The form of a job file; empty where nothing was changed."""
        if self.is_empty:
            return {}
        appended = [[one.source, one.offset] for one in self.appended]
        return {"left_out": sorted(self.left_out), "changed": list(self.changed.items()), "appended": appended}


def standing(edits: Iterable[Edit]) -> list[Edit]:
    """The steps that were not undone, oldest first."""
    kept: dict[int, Edit] = {}
    for edit in edits:
        if edit.kind is EditKind.UNDO:
            kept.pop(edit.undoes or 0, None)
        else:
            kept[edit.id] = edit
    return list(kept.values())


def fold(edits: Iterable[Edit]) -> Overlay:
    made = Overlay()
    for edit in standing(edits):
        match edit.kind:
            case EditKind.LEAVE_OUT:
                made.left_out |= set(edit.rows)
            case EditKind.CHANGE:
                (row,) = edit.rows
                made.changed[row] = edit.example
                made.left_out.discard(row)
                if edit.was_rejected:
                    made.mended.add(row)
            case EditKind.PUT_BACK:
                made.left_out -= set(edit.rows)
                made.mended -= set(edit.rows)
                for row in edit.rows:
                    made.changed.pop(row, None)
            case EditKind.APPEND:
                made.appended.append(Appended(edit.source, edit.rows[0], edit.added))
    return made


def origin(row: int, appended: Iterable[Appended], first: Mapping[str, str], own: str) -> tuple[str, int]:
    """File and number there of a row. `first` names the files of the imports; `own` is the first one's name."""
    for one in sorted(appended, key=lambda one: -one.offset):
        if row > one.offset:
            return first[one.source], row - one.offset
    return own, row


def read_numbers(text: str) -> list[int]:
    """Rows as a person names them: "3,7-9"."""
    numbers: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, _, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit()) or int(last or first) < int(first):
            raise Invalid({"rows": f"“{part}” names no rows; write numbers such as 3,7-9."})
        if int(last or first) - int(first) >= MOST_ROWS:
            raise Invalid({"rows": f"“{part}” is more than {MOST_ROWS:,} rows; one step takes no more."})
        numbers.update(range(int(first), int(last or first) + 1))
    return sorted(numbers)
