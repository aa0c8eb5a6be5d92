"""Two versions of a dataset side by side: which rows came, went, changed or moved to another split."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlmodel import Session, col, select

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.versions import KEYS, VersionState
from tensorant_app.services.connections import store
from tensorant_app.services.lookup import own_row
from tensorant_app.services.versions import files_key

SHOWN = 50
"""Rows of each kind that are listed; all of them are counted."""
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Place:
    split: str
    row: int
    text: str = ""
    """The beginning of its first question."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of an older version with a newer one; each row counts once."""

    same: int
    """Rows that both have, in whatever split."""
    moved: int
    """Of these: rows that are in another split."""
    added: int
    removed: int
    changed: int
    """Rows with the same question and another reply, or the same row of one file edited."""
    first_added: Sequence[Place]
    first_removed: Sequence[Place]
    first_changed: Sequence[tuple[Place, Place]]
    first_moved: Sequence[tuple[Place, Place]]
    """Pairs are (older, newer)."""


@dataclass(slots=True)
class _Keys:
    """Of the rows of both versions, the older one's first."""

    older: int = 0
    splits: list[str] = field(default_factory=list)
    rows: array[int] = field(default_factory=lambda: array("Q"))
    wholes: array[int] = field(default_factory=lambda: array("Q"))
    questions: array[int] = field(default_factory=lambda: array("Q"))


@dataclass(frozen=True, slots=True)
class Other:
    id: UUID
    number: int


def list_others(session: Session, caller: Caller, version_id: UUID) -> list[Other]:
    """The checked versions of the same dataset, newest first, at most 100."""
    caller.require(Permission.SEE)
    version = own_row(session, caller, DatasetVersion, version_id, "version")
    mine = (
        select(DatasetVersion.id, DatasetVersion.number)
        .where(
            col(DatasetVersion.dataset_id) == version.dataset_id,
            col(DatasetVersion.id) != version.id,
            col(DatasetVersion.state).in_([VersionState.DRAFT, VersionState.FROZEN]),
            col(DatasetVersion.report).is_not(None),
        )
        .order_by(col(DatasetVersion.number).desc())
        .limit(100)
    )
    return [Other(one, number) for one, number in session.exec(mine)]


def compare_versions(session: Session, caller: Caller, older_id: UUID, newer_id: UUID) -> Comparison:
    """Both checked or frozen, of one dataset. A million rows take seconds: call it where nobody waits for a write."""
    caller.require(Permission.SEE)
    older = own_row(session, caller, DatasetVersion, older_id, "version")
    newer = own_row(session, caller, DatasetVersion, newer_id, "version")
    if older.id == newer.id or older.dataset_id != newer.dataset_id:
        raise Invalid({"version": "Choose another version of the same dataset to compare with."})
    folders = [store().fetch(files_key(version)) for version in (older, newer)]
    if missing := [one for one, folder in zip((older, newer), folders, strict=True) if not (folder / KEYS).is_file()]:
        raise Conflict(f"Version {missing[0].number} has no list of its rows. Check it again, then compare.")
    return compare_folders(folders[0], folders[1], is_one_file=older.import_id == newer.import_id)


def compare_folders(older: Path, newer: Path, *, is_one_file: bool) -> Comparison:
    """`is_one_file`: the same row number means the same row, edited or not."""
    keys = _read(older, newer)
    left = set(range(len(keys.rows)))
    same = list(_match(keys, keys.wholes, left))
    changed = list(_match(keys, keys.rows, left)) if is_one_file else []
    changed += _match(keys, keys.questions, left)
    moved = [pair for pair in same if keys.splits[pair[0]] != keys.splits[pair[1]]]
    removed, added = ([n for n in sorted(left) if (n < keys.older) is side] for side in (True, False))
    shown: dict[str, list[Any]] = {
        "added": added[:SHOWN],
        "removed": removed[:SHOWN],
        "changed": sorted(changed)[:SHOWN],
        "moved": sorted(moved)[:SHOWN],
    }
    texts = _texts(keys, (older, newer), shown)

    def place(n: int) -> Place:
        return Place(keys.splits[n], keys.rows[n], texts.get(n, ""))

    return Comparison(
        len(same),
        len(moved),
        len(added),
        len(removed),
        len(changed),
        [place(n) for n in shown["added"]],
        [place(n) for n in shown["removed"]],
        [(place(one), place(other)) for one, other in shown["changed"]],
        [(place(one), place(other)) for one, other in shown["moved"]],
    )


def _read(older: Path, newer: Path) -> _Keys:
    import pyarrow.parquet as pq

    keys = _Keys()
    for folder in (older, newer):
        with pq.ParquetFile(folder / KEYS) as file:
            for batch in file.iter_batches(10_000, use_threads=False):
                columns = batch.to_pydict()
                keys.splits += columns["split"]
                keys.rows.extend(columns["row"])
                keys.wholes.extend(int.from_bytes(key[:8]) for key in columns["sha256"])
                keys.questions.extend(int.from_bytes(key[:8]) for key in columns["question_key"])
        keys.older = keys.older or len(keys.rows)
    return keys


def _match(keys: _Keys, by: array[int], left: set[int]) -> Iterator[tuple[int, int]]:
    """Pairs of an older and a newer row with the same key, out of those left; each row once."""
    from tensorant_app.services.equal_keys import runs_of_equal

    for run in runs_of_equal(by):
        olds = [n for n in run if n < keys.older and n in left]
        news = [n for n in run if n >= keys.older and n in left]
        # Rows that stayed in their split are paired first, so that none of them seems to have moved.
        for one, other in _by_split(keys, olds, news):
            left -= {one, other}
            yield one, other


def _by_split(keys: _Keys, olds: list[int], news: list[int]) -> Iterator[tuple[int, int]]:
    waiting: dict[str, list[int]] = {}
    for n in reversed(news):
        waiting.setdefault(keys.splits[n], []).append(n)
    rest = []
    for n in olds:
        same = waiting.get(keys.splits[n])
        if same:
            yield n, same.pop()
        else:
            rest.append(n)
    yield from zip(rest, sorted(n for some in waiting.values() for n in some), strict=False)


def _texts(keys: _Keys, folders: tuple[Path, Path], shown: Mapping[str, Sequence[Any]]) -> dict[int, str]:
    places = {n for some in shown.values() for one in some for n in (one if isinstance(one, tuple) else (one,))}
    texts: dict[int, str] = {}
    for side, folder in enumerate(folders):
        for split in set(keys.splits):
            wanted = {keys.rows[n]: n for n in places if (n >= keys.older) == bool(side) and keys.splits[n] == split}
            texts |= {wanted[row]: text for row, text in _questions(folder / f"{split}.parquet", wanted)}
    return texts


def _questions(path: Path, rows: Iterable[int]) -> Iterator[tuple[int, str]]:
    import pyarrow.parquet as pq

    wanted = list(rows)
    if not wanted:
        return
    table = pq.read_table(path, columns=["row", "example"], filters=[("row", "in", wanted)], use_threads=False)
    for found in table.to_pylist():
        asked: dict[str, Any] = next(
            (one for one in json.loads(found["example"])["messages"] if one["role"] == "user"), {}
        )
        text = asked.get("content")
        yield found["row"], (text if isinstance(text, str) else "")[:_LONGEST]
