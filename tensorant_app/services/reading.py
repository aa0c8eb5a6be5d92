"""The one reading of a data file: the page's import and `tensorant data check` both go through it."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Union

from tensorant_app.domain.conversions import convert
from tensorant_app.domain.data_codes import FileCode, NoticeCode, RowCode
from tensorant_app.domain.datasets import FileError, Notice, Record, Row, RowError, read_record
from tensorant_app.domain.file_kinds import PROBE_MOST, PROBE_ROWS, SHARED_FROM, FileKind, Wrapping
from tensorant_app.domain.images import given_images, is_path, show_path
from tensorant_app.domain.json_lines import Tally
from tensorant_app.domain.json_text import begins_object, parse_object
from tensorant_app.domain.json_values import show, show_keys
from tensorant_app.domain.layouts import LAYOUTS, ColumnMapping, Layout, is_preference, recognise
from tensorant_app.services.containers import FileRefused, Opened, open_file, open_tables, read_text, text_begins
from tensorant_app.services.fast_rows import read_plain_row
from tensorant_app.services.image_files import ImageReader
from tensorant_app.services.image_sources import ImageArchive, ImageFolder, NoImages
from tensorant_app.services.parquet_files import read_parquet
from tensorant_app.services.processes import WORKERS
from tensorant_app.services.records import read_records
from tensorant_app.services.workbooks import read_workbook

if TYPE_CHECKING:
    from tensorant_app.services.batches import Batch

Found = Union[Row, RowError, Notice, FileError, "Batch"]
_Raw = Record | RowError | Notice | FileError


@dataclass(slots=True)
class Reading:
    """One pass over a file. Iterate it once; the other attributes tell what has been seen so far."""

    path: Path
    layout: Layout | None = None
    """None: recognised by the first rows."""
    mapping: ColumnMapping | None = None
    """Which columns hold what; counts more than `layout`."""
    images: Path | None = None
    """The folder of a vision project's images."""
    with_images: bool = False
    """A vision project's file, whose images lie in the same archive or in the rows; otherwise one is a fault."""
    keep: Path | None = None
    """The folder that receives the images, whose rows then come in their stored form; None only looks at them."""
    tell: Callable[[int], None] = lambda at: None
    """Hears how many bytes of the file have been read."""
    shares_in: Path | None = None
    """A folder in which several processes hand over what they read of a large plain file; its rows then come as a
    `Batch` of many."""
    kind: FileKind | None = None
    opened: Opened | None = None
    tally: Tally = field(default_factory=Tally)
    rows: int = 0
    """The number of the last row seen."""
    _text: int = 0
    _taken: int = 0
    """Bytes of the file that were read as rows, and as images."""

    @property
    def format(self) -> str:
        """Layout, kind and wrapping, such as `chat:jsonl` or `alpaca:csv+zip`; empty where nothing was recognised."""
        if self.kind is None:
            return ""
        layout = self.mapping.layout.value if self.mapping else "unknown"
        wrapping = f"+{self.opened.wrapping.value}" if self.opened and self.opened.wrapping else ""
        return f"{layout}:{self.kind.value}{wrapping}"

    def __iter__(self) -> Iterator[Found]:
        """Rows and faults in order; a `FileError` is the last thing and stands for all before it."""
        try:
            yield from self._read()
        except FileRefused as refused:
            yield refused.error
        except MemoryError:
            yield FileError(FileCode.TOO_LARGE, _TOO_LARGE)

    def _read(self) -> Iterator[Found]:
        self.opened = open_file(self.path)
        raw = self._records(self.opened)
        probe = _Probe(raw)
        if self.mapping is None:
            self.mapping = probe.mapping(self.layout, self.kind, self.tally.columns)
            if probe.is_spent:
                self.tally = Tally()
                raw, probe.seen = self._records(self.opened), []
        if self.with_images and self.images is None and not self.opened.images:
            probe.require_no_paths(self.mapping)
        if self.opened.images and not self._reads_images:
            said = f"The zip file holds {self.opened.images:,} images, and a text project reads none of them."
            yield Notice(None, None, "", NoticeCode.IMAGES_LEFT_OUT, said)
        is_plain_chat = not self._reads_images and self.mapping == ColumnMapping(Layout.CHAT, {"messages": "messages"})
        if self.shares_in and is_plain_chat and self.kind is FileKind.JSON_LINES and _is_large(self.path):
            yield from self._shared(self.opened, self.mapping, self.shares_in)
            return
        with self._image_reader(self.opened) as images:
            for found in chain(probe.seen, raw):
                if isinstance(found, Record):
                    row = read_plain_row(found) if is_plain_chat and not found.fault else None
                    if row is not None:
                        yield row
                    else:
                        yield from self._strictly(found, self.mapping, images)
                else:
                    yield found
                if isinstance(found, FileError):
                    return
                self.rows = found.row or self.rows
        if self.rows == 0:
            yield FileError(FileCode.EMPTY, _HEADER_ALONE if self.kind in _TABLES else _EMPTY)

    def _shared(self, opened: Opened, mapping: ColumnMapping, folder: Path) -> Iterator[Found]:
        """The file once more from its beginning, which was read for its layout."""
        from tensorant_app.services.batches import parts_of, read_batches, stretches_of

        begin, self.tally = text_begins(opened), Tally()
        parts = parts_of(read_text(opened, self.tell)) if begin is None else stretches_of(self.path, begin, self.tell)
        for batch in read_batches(parts, mapping, folder):
            self.rows += batch.rows
            self.tally.blank_lines += batch.blank_lines
            yield batch
            if batch.refused is not None:
                yield batch.refused
                return

    @property
    def _reads_images(self) -> bool:
        return self.with_images or self.images is not None

    @contextmanager
    def _image_reader(self, opened: Opened) -> Iterator[ImageReader | None]:
        if self.images is not None:
            yield ImageReader(ImageFolder(self.images), self.keep)
        elif self.with_images and opened.images:
            with zipfile.ZipFile(opened.path) as archive:
                reader = ImageReader(ImageArchive(archive, opened.members[0]), self.keep, self._tell_images)
                yield reader
                reader.keep_names()
        elif self.with_images:
            reader = ImageReader(NoImages(), self.keep)
            yield reader
            reader.keep_names()
        else:
            yield None

    def _tell_text(self, at: int) -> None:
        self._text = at
        self.tell(self._text + self._taken)

    def _tell_images(self, taken: int) -> None:
        """Rows are read in a moment and their images take minutes: both count."""
        self._taken = taken
        self.tell(self._text + self._taken)

    def _strictly(self, record: Record, mapping: ColumnMapping, images: ImageReader | None) -> Iterator[Row | RowError]:
        read = read_record(record, mapping, with_images=images is not None)
        if not isinstance(read, Row):
            yield from read
            if images is not None:
                yield from images.look_at(record, mapping)
        elif images is not None:
            yield from images.read_row(read)
        else:
            yield read

    def _records(self, opened: Opened) -> Iterator[_Raw]:
        self.kind = opened.kind
        match opened.kind:
            case FileKind.PARQUET:
                return read_parquet(open_tables(opened))
            case FileKind.XLSX:
                return read_workbook(opened.path, self.tally)
        self.kind, records = read_records(read_text(opened, self._tell_text), self.tally)
        return iter(records)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first rows of a file, and what they show."""

    kind: FileKind | None = None
    wrapping: Wrapping = Wrapping.NONE
    records: tuple[Record, ...] = ()
    columns: tuple[str, ...] = ()
    """Keys of the rows, in the order in which they are met."""
    mapping: ColumnMapping | None = None
    """None where no layout is recognised."""
    error: FileError | None = None
    """Why the file as a whole is refused, or, with `columns`, why it needs a mapping."""


def read_beginning(path: Path, *, with_images: bool = False) -> Beginning:
    """Looks at no more rows than the recognition does; of a vision project, whether their images came along."""
    reading = Reading(path)
    probe, mapping, error = None, None, None
    try:
        reading.opened = open_file(path)
        probe = _Probe(reading._records(reading.opened))
        mapping = probe.mapping(None, reading.kind, reading.tally.columns)
        if with_images and not reading.opened.images:
            probe.require_no_paths(mapping)
        error = next((found for found in probe.seen if isinstance(found, FileError)), None)
        if not probe.seen:
            error = FileError(FileCode.EMPTY, _HEADER_ALONE if reading.kind in _TABLES else _EMPTY)
    except FileRefused as refused:
        error = refused.error
    except MemoryError:
        error = FileError(FileCode.TOO_LARGE, _TOO_LARGE)
    return Beginning(
        reading.kind,
        reading.opened.wrapping if reading.opened else Wrapping.NONE,
        tuple(found for found in probe.seen if isinstance(found, Record)) if probe else (),
        tuple(dict.fromkeys(key for value in probe.objects for key in value)) if probe else (),
        mapping,
        error,
    )


def raw_rows(path: Path) -> tuple[FileKind | None, Iterator[Record | RowError]]:
    """The rows of a file that was read before as they stand there; those that have no cells as they were refused."""
    reading = Reading(path)
    raw = reading._records(open_file(path))
    return reading.kind, (found for found in raw if isinstance(found, Record | RowError))


def _is_large(path: Path) -> bool:
    return WORKERS > 1 and path.stat().st_size >= SHARED_FROM


class _Probe:
    """The first records, by which a file's layout is told; further ones are looked at until one can be trained."""

    def __init__(self, raw: Iterator[_Raw]) -> None:
        self.seen: list[_Raw] = []
        self.objects: list[dict[str, object]] = []
        self.is_spent = False
        """Records behind those that were kept were looked at, so that the file has to be read again."""
        self._raw = raw
        self._values: list[tuple[Record, dict[str, object]]] = []
        self._first_fault: tuple[Record, str] | None = None
        self._is_utf8 = self._is_json = False
        """Whether any row of those that are no objects is text, and whether any was meant as an object."""
        for found in raw:
            self.seen.append(found)
            if (value := self._look(found)) is not None:
                self._values.append(value)
            if isinstance(found, FileError) or len(self.seen) == PROBE_ROWS:
                break

    def mapping(self, layout: Layout | None, kind: FileKind | None, header: Sequence[str] = ()) -> ColumnMapping:
        """The layout of the first row that can be trained in it, or else of the first row or the header that has one.

        Raises `FileRefused` where no layout fits.
        """
        known: ColumnMapping | None = None
        has_preference, needs_one = False, kind in (FileKind.JSON_LINES, FileKind.JSON_ARRAY)
        for found, value in chain(self._values, self._further()):
            mapping = recognise(value)
            if is_preference(value):
                has_preference = True
            elif mapping is not None and layout in (None, mapping.layout):
                known = known or mapping
                if isinstance(read_record(found, mapping, with_images=True), Row):
                    return mapping
            if self.is_spent and not needs_one:
                break
        if known is not None:
            return known
        if has_preference:
            raise FileRefused(FileCode.PREFERENCES, _PREFERENCES)
        if self.objects:
            code, said = _no_layout(self.objects[0], layout)
            raise FileRefused(code, said + _inside(self.objects[0]) + self._left_out())
        if self.seen and isinstance(self.seen[0], FileError):
            raise FileRefused(self.seen[0].code, self.seen[0].message)
        if self._first_fault and not any(isinstance(found, FileError) for found in self.seen):
            self._require_rows(*self._first_fault)
        return (
            _named_by(header, layout) if header and self.seen else ColumnMapping(Layout.CHAT, {"messages": "messages"})
        )

    def require_no_paths(self, mapping: ColumnMapping) -> None:
        """Of a file that came without images: no row can be trained that names one."""
        for value in self.objects:
            named = next(
                (one.source for one in given_images(convert(value, mapping).example) if is_path(one.source)), None
            )
            if named is not None:
                raise FileRefused(FileCode.IMAGES_NOT_SENT, _not_sent(str(named)))

    def _left_out(self) -> str:
        """Columns that may well have held the question or the reply."""
        names = [show(one.path) for one in self.seen if isinstance(one, Notice)]
        return f" Not read, because JSON has no such values: {', '.join(names[:5])}." if names else ""

    def _further(self) -> Iterator[tuple[Record, dict[str, object]]]:
        if len(self.seen) < PROBE_ROWS:
            return
        for found in islice(self._raw, PROBE_MOST - PROBE_ROWS):
            self.is_spent = True
            if (value := self._look(found)) is not None:
                yield value

    def _look(self, found: _Raw) -> tuple[Record, dict[str, object]] | None:
        if not isinstance(found, Record):
            return None
        body = found.body
        value = parse_object(body) if isinstance(body, bytes | str) else dict(body)
        if isinstance(value, dict):
            if len(self.objects) < PROBE_ROWS:
                self.objects.append(value)
            return found, value
        self._first_fault = self._first_fault or (found, value[2])
        self._is_utf8 = self._is_utf8 or value[1] is not RowCode.NOT_UTF8
        self._is_json = self._is_json or begins_object(body)
        return None

    def _require_rows(self, first: Record, end: str) -> None:
        """Broken rows are named one by one, but not those of a file that holds no JSON."""
        if not self._is_utf8:
            said = f"The file is in an encoding that is not read: in line {first.line}, {end}"
            raise FileRefused(FileCode.OTHER_ENCODING, said)
        if not self._is_json:
            said = f"No row is a JSON object; of line {first.line}: {end}"
            raise FileRefused(
                FileCode.NOT_JSONL,
                f'{said} Put one whole object such as {{"messages": [...]}} on each line. A table needs a header, and commas, '
                "semicolons or tabs.",
            )


_TABLES = (FileKind.CSV, FileKind.TSV, FileKind.SEMICOLONS, FileKind.XLSX)
_EMPTY = "The file is empty; put at least one example into it."
_HEADER_ALONE = "The file has a header and no row; put at least one example into it."
_TOO_LARGE = "The file needs more memory than an import may take. Split it, or write JSON Lines."
_PREFERENCES = (
    "The file holds preferences (a chosen and a rejected reply, or a verdict of true or false on each reply). Training on "
    "preferences comes later; choose a file with one reply to learn in each row."
)


def _inside(row: Mapping[str, object]) -> str:
    """Rows may lie in a field of another object, as some services hand them out."""
    for key, value in row.items():
        inner = value[0] if isinstance(value, list) and value else value
        if isinstance(inner, dict) and recognise(inner):
            return f" Rows of a known layout lie inside {show(key)}: write each of them as a row of the file."
    return ""


def _named_by(header: Sequence[str], layout: Layout | None) -> ColumnMapping:
    """Of a table in which no row fits the header."""
    mapping = recognise(header)
    if mapping is None or layout not in (None, mapping.layout):
        raise FileRefused(*_no_layout(dict.fromkeys(header), layout))
    return mapping


def _no_layout(row: Mapping[str, object], layout: Layout | None) -> tuple[FileCode, str]:
    if layout is None:
        return FileCode.UNKNOWN_LAYOUT, _unknown(row)
    info = LAYOUTS[layout]
    said = f"No row holds {' and '.join(info.required)}, which the layout {info.title} needs; the first row holds"
    return FileCode.WRONG_LAYOUT, f"{said} {show_keys(row)}."


def _not_sent(path: str) -> str:
    return (
        f"The rows name images, such as {show_path(path)}, and the file holds none. Pack the file of rows and the folder "
        "of images into one zip, so that each path leads from the rows to its image, and send the zip."
    )


def _unknown(row: Mapping[str, object]) -> str:
    return (
        f"The rows hold {show_keys(row)}, which is no layout that is known: messages, conversations, "
        "instruction and output, or prompt and completion. Say which columns hold the question and the reply."
    )
