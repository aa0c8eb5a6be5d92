"""Opens a data file as UTF-8 text in pieces, whatever it is wrapped in, within stated bounds of memory and disk."""

from __future__ import annotations

import codecs
import gzip
import io
import posixpath
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tensorant_app.domain.data_codes import FileCode
from tensorant_app.domain.datasets import FileError
from tensorant_app.domain.file_kinds import (
    ARCHIVE_INDEX_LIMIT,
    UNPACKED_FLOOR,
    UNPACKED_LIMIT,
    UNPACKED_RATIO,
    FileKind,
    Wrapping,
    is_image_name,
    kind_by_magic,
)
from trainer.contract import Split

CHUNK = 1024 * 1024


class FileRefused(Exception):
    """Ends the reading of a file; the reading turns it into its last word."""

    def __init__(self, code: FileCode, message: str) -> None:
        super().__init__(message)
        self.error = FileError(code, message)


@dataclass(frozen=True, slots=True)
class Opened:
    """A file whose wrapping is known. Parquet and workbooks are opened by their own readers, all else is text."""

    path: Path
    wrapping: Wrapping = Wrapping.NONE
    kind: FileKind | None = None
    """None: text, whose kind its first rows tell."""
    members: tuple[str, ...] = ()
    """Names of the data inside a zip: one file, or all splits of an exported version."""
    begins: int = 0
    """Where the first one begins there, in bytes."""
    images: int = 0
    """Images that lie beside it."""


def open_file(path: Path) -> Opened:
    """Looks at the first bytes and, of a zip, at its index; raises `FileRefused`."""
    with path.open("rb") as file:
        found = kind_by_magic(file.read(512))
    match found:
        case FileKind():
            return Opened(path, kind=found)
        case Wrapping.ZIP:
            return _open_zip(path)
        case Wrapping():
            return Opened(path, found)
        case None:
            return Opened(path)
    raise FileRefused(FileCode.OTHER_FORMAT, f"The file is {_named(found)}. {_TYPES}")


_TYPES = "Save it as JSON Lines, JSON, CSV, TSV, Parquet or .xlsx; gzip and zip may be around it."


def read_text(opened: Opened, tell: Callable[[int], None] = lambda at: None) -> Iterator[bytes]:
    """UTF-8 in pieces of about a mebibyte, without byte order mark; `tell` hears how much of the file has been read.

    Single bytes that are not UTF-8 pass: the row they stand in is named later.
    """
    with opened.path.open("rb") as file:
        pieces = _unpacked(opened, file)
        first = next(pieces, b"")
        inner = kind_by_magic(first[:512])
        if opened.wrapping and inner is not None:
            where = f"The {opened.wrapping} file"
            if inner in (Wrapping.GZIP, Wrapping.ZIP) and not (
                opened.wrapping is Wrapping.GZIP and _is_workbook(first)
            ):
                raise FileRefused(FileCode.ARCHIVE_IN_ARCHIVE, f"{where} holds another archive; unpack it first.")
            raise FileRefused(FileCode.OTHER_FORMAT, f"{where} holds no text but {_named(inner)}; unpack it first.")
        for piece in _as_utf8(first, pieces):
            tell(max(file.tell() - opened.begins, 0))
            yield piece


def text_begins(opened: Opened) -> int | None:
    """At which byte of the file itself its UTF-8 text begins; None where it has to be unpacked or decoded first."""
    if opened.wrapping is not Wrapping.NONE:
        return None
    with opened.path.open("rb") as file:
        encoding, skipped = _encoding_of(file.read(4))
    return skipped if encoding is None else None


def _named(kind: FileKind | Wrapping | str) -> str:
    """With its article."""
    name = kind.value if isinstance(kind, FileKind | Wrapping) else kind
    return f"{'an' if name.startswith(_AN) else 'a'} {name}"


_AN = ("Arrow", "HDF5", "SQLite", "xlsx", "xz")


def _is_workbook(start: bytes) -> bool:
    return b"[Content_Types].xml" in start[:200]


def _unpacked(opened: Opened, file: IO[bytes]) -> Iterator[bytes]:
    if opened.wrapping is Wrapping.NONE:
        yield from iter(lambda: file.read(CHUNK), b"")
        return
    size = opened.path.stat().st_size
    limit, done = unpacked_limit(size), 0
    try:
        for inner in _insides(opened, file):
            while piece := inner.read(CHUNK):
                done += len(piece)
                if done > limit:
                    raise too_much(size, None, limit)
                yield piece
    except (FileRefused, MemoryError):
        raise
    except Exception as error:  # a damaged archive makes its readers raise whatever their parsing stumbles over
        said = f"The {opened.wrapping} file is damaged or was cut off ({error}). Pack it again and send it whole."
        raise FileRefused(FileCode.BROKEN_ARCHIVE, said) from error


def _insides(opened: Opened, file: IO[bytes]) -> Iterator[gzip.GzipFile | IO[bytes]]:
    if opened.wrapping is Wrapping.GZIP:
        with gzip.GzipFile(fileobj=file) as inner:
            yield inner
        return
    with zipfile.ZipFile(file) as archive:
        for name in opened.members:
            with archive.open(name) as member:
                yield member


def open_tables(opened: Opened) -> Iterator[Path | IO[bytes]]:
    """The Parquet file, or those inside a zip: read in their place where they are stored, else unpacked in memory."""
    if opened.wrapping is Wrapping.NONE:
        yield opened.path
        return
    try:
        with zipfile.ZipFile(opened.path) as archive:
            for name in opened.members:
                yield _table(archive, archive.getinfo(name))
    except (FileRefused, MemoryError):
        raise
    except Exception as error:  # as above
        raise FileRefused(FileCode.BROKEN_ARCHIVE, f"The zip file is damaged ({error}). Pack it again.") from error


def _table(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.compress_type == zipfile.ZIP_STORED:
        return archive.open(info)
    if info.file_size > UNPACKED_FLOOR:
        said = (
            f"In the zip file, {info.filename!r} is a compressed Parquet file of {info.file_size:,} bytes, and at most "
            f"{UNPACKED_FLOOR:,} are unpacked. Pack it without compression (store); Parquet has its own."
        )
        raise FileRefused(FileCode.TOO_LARGE, said)
    with archive.open(info) as member:
        return io.BytesIO(member.read(UNPACKED_FLOOR + 1))


def unpacked_limit(size: int) -> int:
    return min(max(UNPACKED_FLOOR, UNPACKED_RATIO * size), UNPACKED_LIMIT)


def too_much(size: int, unpacked: int | None, limit: int) -> FileRefused:
    what = f"It unpacks to {unpacked:,} bytes" if unpacked is not None else "It unpacks to more than may be"
    rule = f"a file of {size:,} bytes may unpack to {limit:,} (the unpacked-size limit)"
    return FileRefused(FileCode.UNPACKED_TOO_LARGE, f"{what}; {rule}. Send it unpacked, or split it.")


_JUNK_NAMES = {".DS_Store", "Thumbs.db", "desktop.ini", "ehthumbs.db", ".localized", "Icon\r"}
_JUNK_FOLDERS = {"__MACOSX", ".Spotlight-V100", ".Trashes", ".fseventsd", "$RECYCLE.BIN", "System Volume Information"}
_ARCHIVES = (".zip", ".gz", ".tgz", ".tar", ".7z", ".rar", ".bz2", ".xz", ".zst")


def _open_zip(path: Path) -> Opened:
    try:
        _check_index(path)
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (FileRefused, MemoryError):
        raise
    except Exception as error:  # as above
        raise FileRefused(FileCode.BROKEN_ARCHIVE, f"The zip file is damaged ({error}). Pack it again.") from error
    names = {member.filename for member in members}
    if "[Content_Types].xml" in names:
        if "xl/workbook.xml" in names:
            return Opened(path, kind=FileKind.XLSX)
        raise FileRefused(FileCode.OTHER_FORMAT, f"The file is an Office document that is no workbook. {_TYPES}")
    if "mimetype" in names and "content.xml" in names:
        raise FileRefused(FileCode.OTHER_FORMAT, f"The file is an OpenDocument file. {_TYPES}")
    for member in members:
        _check_member(member)
    files = [member for member in members if not member.is_dir() and not _is_junk(member.filename)]
    data = [member for member in files if not is_image_name(member.filename)]
    chosen = _exported(data) or data
    if len(chosen) != 1 and chosen is data:
        raise _not_one(data, len(files) - len(data))
    first = chosen[0].filename
    if first.lower().endswith(_ARCHIVES):
        raise FileRefused(FileCode.ARCHIVE_IN_ARCHIVE, f"The zip file holds the archive {first}; unpack it first.")
    size, unpacked = path.stat().st_size, sum(member.file_size for member in chosen)
    if unpacked > (limit := unpacked_limit(size)):
        raise too_much(size, unpacked, limit)
    return Opened(
        path,
        Wrapping.ZIP,
        FileKind.PARQUET if first.lower().endswith(_PARQUET) else None,
        tuple(member.filename for member in chosen),
        chosen[0].header_offset,
        len(files) - len(data),
    )


_PARQUET = ".parquet"
_ABOUT = "version.json"


def _exported(data: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """The splits of a version that was exported whole, in their order; empty for any other archive."""
    members = {posixpath.basename(member.filename): member for member in data}
    if _ABOUT not in members or len({posixpath.dirname(member.filename) for member in data}) != 1:
        return []
    for suffix in (".jsonl", _PARQUET):
        splits = [members[name] for split in Split if (name := f"{split.value}{suffix}") in members]
        if splits and len(splits) == len(data) - 1:
            return splits
    return []


def _not_one(data: list[zipfile.ZipInfo], images: int) -> FileRefused:
    if not data:
        held = f"{images:,} images and no file of rows" if images else "no data file"
        return FileRefused(FileCode.ARCHIVE_HOLDS_NONE, f"The zip file holds {held}; pack the one with the rows.")
    listed = ", ".join(member.filename for member in data[:5])
    beside = ", beside its images" if images else ""
    said = f"The zip file holds {len(data)} files ({listed}); pack one data file{beside}."
    return FileRefused(FileCode.ARCHIVE_HOLDS_SEVERAL, said)


def _check_member(member: zipfile.ZipInfo) -> None:
    name, parts = member.filename, member.filename.replace("\\", "/").split("/")
    is_link = stat.S_ISLNK(member.external_attr >> 16)
    if not name:
        raise FileRefused(FileCode.BROKEN_ARCHIVE, "The zip file is damaged (a member has no name). Pack it again.")
    if is_link or ".." in parts or name.startswith(("/", "\\")) or ":" in parts[0]:
        why = "is a link" if is_link else "lies outside the archive's folder"
        raise FileRefused(FileCode.ARCHIVE_LEAVES_FOLDER, f"In the zip file, {name!r} {why}; pack plain files only.")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        said = f"In the zip file, {name!r} is packed by a method that is not read; pack it the usual way (deflate)."
        raise FileRefused(FileCode.BROKEN_ARCHIVE, said)
    if member.flag_bits & 1:
        raise FileRefused(
            FileCode.BROKEN_ARCHIVE, f"In the zip file, {name!r} is locked by a password; pack it without."
        )


def _is_junk(name: str) -> bool:
    """What systems add; some write folders with a backslash at their end, as files that hold nothing."""
    parts = name.replace("\\", "/").split("/")
    return not (parts[-1] and _JUNK_FOLDERS.isdisjoint(parts)) or parts[-1] in _JUNK_NAMES or parts[-1].startswith("._")


def _check_index(path: Path) -> None:
    """The index is read whole by `zipfile`, so its size is looked at first."""
    with path.open("rb") as file:
        length = file.seek(0, 2)
        file.seek(max(0, length - 65_557 - 20))
        tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0:
        raise zipfile.BadZipFile("its end is missing")
    (size,) = struct.unpack_from("<L", tail, at + 12)
    if tail[max(0, at - 20) : at].startswith(b"PK\x06\x07"):
        (place,) = struct.unpack_from("<Q", tail, at - 12)
        with path.open("rb") as file:
            file.seek(place)
            (size,) = struct.unpack_from("<Q", file.read(56), 40)
    if size > ARCHIVE_INDEX_LIMIT:
        said = f"The zip file's list of members takes {size:,} bytes, more than {ARCHIVE_INDEX_LIMIT:,}."
        raise FileRefused(FileCode.TOO_LARGE, f"{said} Pack one data file.")


def _as_utf8(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    encoding, skipped = _encoding_of(first)
    if encoding is None:
        yield first[skipped:]
        yield from rest
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    at = skipped
    try:
        yield decoder.decode(first[skipped:]).encode()
        at = len(first)
        for piece in rest:
            yield decoder.decode(piece).encode()
            at += len(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        said = f"The file begins as UTF-16 and is none at byte {at + error.start + 1:,} or soon before."
        raise FileRefused(FileCode.OTHER_ENCODING, f"{said} Save it as UTF-8.") from error


def _encoding_of(start: bytes) -> tuple[str | None, int]:
    """None for UTF-8, and the bytes of the mark at the beginning."""
    if start.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        raise FileRefused(FileCode.OTHER_ENCODING, "The file is UTF-32, from its byte 1 on. Save it as UTF-8.")
    for mark, encoding in ((b"\xef\xbb\xbf", None), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if start.startswith(mark):
            return encoding, len(mark)
    if len(start) >= 4 and start[1] == start[3] == 0 and start[0] and start[2]:
        return "utf-16-le", 0
    if len(start) >= 4 and start[0] == start[2] == 0 and start[1] and start[3]:
        return "utf-16-be", 0
    _require_no_half_words(start[:4096])
    return None, 0


def _require_no_half_words(start: bytes) -> None:
    """Text of other letters than Latin ones in UTF-16 without its mark: every line end has its NUL, on one side."""
    try:
        start[: start.rfind(b"\n") + 1].decode()
    except UnicodeDecodeError as error:
        for end, encoding in ((b"\n\0", "utf-16-le"), (b"\0\n", "utf-16-be")):
            if start.count(b"\n") == start.count(end) > 0 and _is_text(start, encoding):
                said = f"The file is no UTF-8 at byte {error.start + 1:,}, and looks like UTF-16 without its byte order mark."
                raise FileRefused(FileCode.OTHER_ENCODING, f"{said} Save it as UTF-8.") from None


def _is_text(start: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(start)
    except UnicodeDecodeError:
        return False
    return True
