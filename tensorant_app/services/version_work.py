"""The process that divides and checks a version: `python -m tensorant_app.services.version_work JOB`.

Rows are read twice, piece by piece: once for what they are compared by, once to be written where they belong.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tensorant_app.domain.copies import read_conversation
from tensorant_app.domain.division import MOST_VALUES, REPLY, Division, value_of
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.labels import LONGEST_LABEL, closed_set, single_reply
from tensorant_app.domain.leakage import Repeats, leak_sentences
from tensorant_app.domain.splits import split_rows, warn_few_test_rows, warn_missing_values
from tensorant_app.services.edit_work import write_edited
from tensorant_app.services.image_files import IMAGES
from tensorant_app.services.import_work import Progress
from tensorant_app.services.leakage import RowKeys, find_repeats, groups_of
from tensorant_app.services.near_rows import NearRows
from tensorant_app.services.version_files import Source, SourceRow, Writers, content_hash, read_rows
from tensorant_app.services.version_images import carry_images
from trainer.contract import RESULT, Split, write_file

_SKETCHES = "sketches"
_TOGETHER = 256
"""Rows whose texts are in memory at once."""
_STEPS = 100
"""Of the search for near rows; reading counts as many."""


def main(job_path: Path) -> None:
    """Read job["sources"], write one Parquet file per split and result.json beside the job."""
    job = json.loads(job_path.read_text())
    folder = job_path.parent
    try:
        sources = [_source(one, folder) for one in job["sources"]]
        with NearRows(folder / _SKETCHES) as near:
            result = build(sources, Division.of(job["split"]), near, folder)
        result["images"] = _carry(job.get("images", ()), folder)
    except Invalid as error:
        result = {"problem": error.message}
    (folder / _SKETCHES).unlink(missing_ok=True)
    for edited in folder.glob(".edited-*.parquet"):
        edited.unlink()
    write_file(folder / RESULT, json.dumps(result))


def _carry(folders: Sequence[str], folder: Path) -> int:
    splits = [folder / f"{split.value}.parquet" for split in Split]
    return carry_images(splits, [Path(one) for one in folders], folder / IMAGES) if folders else 0


def _source(one: Mapping[str, Any], folder: Path) -> Source:
    """Of an import's rows, with what people changed in them."""
    name = one["split"] or "rows"
    rows = write_edited(Path(one["rows"]), one.get("edits") or {}, folder / f".edited-{name}.parquet")
    return Source(rows, Split(one["split"]) if one["split"] else None)


def build(sources: Sequence[Source], division: Division, near: NearRows, folder: Path) -> dict[str, Any]:
    read = _Read(division)
    progress = Progress(folder, sum(source.rows for source in sources) + 2 * _STEPS, "comparing")
    read.all(sources, near, progress)

    def tell(share: float) -> None:
        progress.tell(len(read.keys.numbers) + int(share * _STEPS))

    splits = _divide(read, division, near, tell)
    repeats = find_repeats(read.keys, splits, near, tell)
    with Writers(folder) as writers:
        for row in _rows_of(sources):
            writers.add(splits.get(row.place), row)
    counts = Counter(splits.values())
    return {
        "problem": None,
        "rows": {split.value: counts[split] for split in Split},
        "labels": list(closed_set(read.answers[row] for row in sorted(splits))),
        "repeats": [asdict(one) for one in repeats],
        "warnings": _warnings(read, splits, repeats),
        "content_sha256": content_hash(read.keys.numbers, writers.hashes, splits),
    }


def _rows_of(sources: Sequence[Source]) -> Iterator[SourceRow]:
    place = 0
    for source in sources:
        yield from read_rows(source, place)
        place += source.rows


class _Read:
    """What is known of every row once all were read."""

    def __init__(self, division: Division) -> None:
        self._division = division
        self.keys = RowKeys()
        self.given: dict[int, Split] = {}
        """Rows of files that are a split of their own."""
        self.answers: list[str | None] = []
        self.groups: list[str | None] = []
        self.strata: dict[int, str] = {}
        self._labels: dict[str, str] = {}

    def all(self, sources: Sequence[Source], near: NearRows, progress: Progress) -> None:
        texts, place = list[str](), 0
        for source in sources:
            for row in read_rows(source, place):
                texts.append(self._add(row, source.split))
                if len(texts) == _TOGETHER:
                    near.add(texts)
                    texts.clear()
                    progress.tell(row.place)
            place += source.rows
        near.add(texts)

    def _add(self, row: SourceRow, split: Split | None) -> str:
        """Answers what is said, but for case and space."""
        example = json.loads(row.example)
        said = read_conversation(example["messages"])
        self.keys.add(row.number, row.sha256, row.copy_key, said)
        answer = self._label(single_reply(example["messages"]))
        self.answers.append(answer)
        if split is not None:
            self.given[row.place] = split
        by, stratify = self._division.group_by, self._division.stratify_by
        self.groups.append(value_of(example, by) if by else None)
        if stratify and split is None:
            self.strata[row.place] = (answer if stratify == REPLY else value_of(example, stratify)) or ""
        return said.text

    def _label(self, reply: str | None) -> str | None:
        """Kept once, however many rows have it; a long text is no label and is cut."""
        label = reply if reply is None else reply.strip()[: LONGEST_LABEL + 1]
        return None if label is None else self._labels.setdefault(label, label)


def _divide(read: _Read, division: Division, near: NearRows, tell: Callable[[float], None]) -> dict[int, Split]:
    """Place → split; refused where a field that decides is in no row or says too much."""
    if division.group_by and not any(value is not None for value in read.groups):
        raise Invalid({"group_by": f"No row has the field “{division.group_by}”. Name one that the rows have."})
    values = set(read.strata.values())
    if division.stratify_by and (len(values) > MOST_VALUES or values == {""}):
        many = f"{len(values):,} different values, and {MOST_VALUES} at most can be divided alike"
        said = "no value in any row" if values == {""} else many
        raise Invalid({"stratify_by": f"“{division.stratify_by}” has {said}. Name a field with few values."})
    groups = groups_of(read.keys, division.keep, near, read.groups, tell)
    rows = [(place, group) for place, group in enumerate(groups) if place not in read.given]
    strata = read.strata if division.stratify_by else None
    return read.given | split_rows(rows, division.shares, division.seed, into=division.into, strata=strata)


def _warnings(read: _Read, splits: Mapping[int, Split], repeats: Sequence[Repeats]) -> list[str]:
    missing = (
        warn_missing_values({p: s for p, s in splits.items() if p in read.strata}, read.strata) if read.strata else None
    )
    said = [warn_few_test_rows(splits), missing, *leak_sentences(repeats)]
    return [*(one for one in said if one), *(one.sentence for one in repeats)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
