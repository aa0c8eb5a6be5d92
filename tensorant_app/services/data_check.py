"""`tensorant data check`: one file read and reported in full, in the form that programs read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from tensorant_app.domain.datasets import FileError, Notice, Row, RowError
from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.file_kinds import KINDS, FileKind
from tensorant_app.domain.layouts import LAYOUTS, ColumnMapping, Layout
from tensorant_app.domain.notices import COMMON_TOKENS, Finder, find_characters, notices_of, token_finder
from tensorant_app.domain.wording import count
from tensorant_app.services.personal_data import find_personal_data
from tensorant_app.services.reading import Reading
from tensorant_app.services.summaries import Summary

ACCEPTED_SHOWN = 1_000
LISTED, LETTERS = 100_000, 64 * 1024 * 1024
"""Errors and warnings beyond this many, or of more text than this, are counted and not listed: a report fits into memory."""
Listed = list[dict[str, Any]]


@dataclass(slots=True)
class Report:
    """Its fields are the JSON that `--json` prints; docs/data.md says what each means."""

    file: str
    format: str = ""
    refused: dict[str, str] | None = None
    rows: int = 0
    accepted: int = 0
    rejected: int = 0
    accepted_rows: list[int] = field(default_factory=list)
    blank_lines: int = 0
    errors: Listed = field(default_factory=list)
    warnings: Listed = field(default_factory=list)

    letters: int = 0
    """Of all that is listed; no part of the JSON."""

    def as_json(self) -> dict[str, Any]:
        """By name, and not copied: the lists can be long."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "letters"}

    def note(self, listed: Listed, found: RowError | Notice) -> None:
        """Add what was found to `errors` or `warnings`, while there is room."""
        if len(listed) < LISTED and self.letters < LETTERS:
            listed.append(asdict(found))
            self.letters += len(found.path) + len(found.message)

    @property
    def is_clean(self) -> bool:
        return self.refused is None and self.rejected == 0


def check_file(
    file: Path,
    *,
    layout: Layout | None = None,
    mapping: ColumnMapping | None = None,
    images: Path | None = None,
    is_vision: bool = False,
    tokens: Collection[str] = COMMON_TOKENS,
) -> Report:
    """Read a file to its end; nothing is stored."""
    if not file.is_file():
        raise Invalid({"file": f"There is no file {file}. Look at its name and folder."})
    if images is not None and not images.is_dir():
        raise Invalid({"images": f"There is no folder {images}. Look at its name."})
    reading = Reading(file, layout=layout, mapping=mapping, images=images, with_images=is_vision)
    report, summary, finders = Report(file.name), Summary(), finders_for(tokens)
    last_rejected = 0
    for found in reading:
        match found:
            case Row():
                _accept(report, summary, found, notices_of(found, finders))
            case RowError():
                report.rejected += found.row != last_rejected
                last_rejected = found.row
                report.note(report.errors, found)
            case Notice():
                report.note(report.warnings, found)
            case FileError():
                refused = {"code": found.code.value, "message": found.message}
                return Report(file.name, reading.format, refused, reading.rows)
    for notice in summary.notices():
        report.note(report.warnings, notice)
    report.warnings.sort(key=lambda warning: warning["row"] or 0)
    report.format, report.rows, report.blank_lines = reading.format, reading.rows, reading.tally.blank_lines
    return report


def finders_for(tokens: Collection[str]) -> tuple[Finder, ...]:
    return find_characters, token_finder(tokens), find_personal_data


def layout_named(name: str) -> Layout | None:
    if name == "auto":
        return None
    if name not in [*Layout]:
        raise Invalid({"format": f"There is no format {name}. Use auto, {', '.join(Layout)}."})
    return Layout(name)


def sentences_of(report: Report) -> Iterator[str]:
    """For a person: what the file is, every finding, and the counts last."""
    if report.refused is not None:
        yield f"{report.file} is refused. {report.refused['message']}"
        return
    layout, _, kind = report.format.partition(":")
    kind, _, wrapping = kind.partition("+")
    title, what = LAYOUTS[Layout(layout)].title, KINDS[FileKind(kind)].split(":")[0].split(",")[0]
    yield f"{report.file}: {title}, in {what}{f', in {wrapping}' if wrapping else ''}."
    for finding in (*report.errors, *report.warnings):
        yield finding["message"]
    unlisted = max(report.rejected, len(report.errors)) > LISTED or len(report.warnings) == LISTED
    unlisted |= report.letters >= LETTERS
    if unlisted:
        yield f"Only the first {len(report.errors):,} errors and {len(report.warnings):,} warnings are listed."
    blank = f", {count(report.blank_lines, 'blank line')} passed over" if report.blank_lines else ""
    yield f"{count(report.rows, 'row')}: {report.accepted:,} can be trained, {report.rejected:,} cannot{blank}."


def _accept(report: Report, summary: Summary, row: Row, notices: Iterable[Notice]) -> None:
    report.accepted += 1
    if len(report.accepted_rows) < ACCEPTED_SHOWN:
        report.accepted_rows.append(row.row)
    summary.add(row)
    for notice in notices:
        report.note(report.warnings, notice)
