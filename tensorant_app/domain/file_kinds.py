"""The kinds of files that are read, what their first bytes are, and every limit of the reading."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tensorant_app.domain.datasets import FAULT_LIMIT, ROW_LIMIT
from tensorant_app.domain.json_values import DEPTH_LIMIT
from tensorant_app.domain.tables import COLUMN_LIMIT

MIB = 1024 * 1024


class FileKind(StrEnum):
    JSON_LINES = "jsonl"
    JSON_ARRAY = "json-array"
    JSON_COLUMNS = "json-columns"
    CSV = "csv"
    TSV = "tsv"
    SEMICOLONS = "semicolons"
    PARQUET = "parquet"
    XLSX = "xlsx"


class Wrapping(StrEnum):
    NONE = ""
    GZIP = "gzip"
    ZIP = "zip"


KINDS: Mapping[FileKind, str] = {
    FileKind.JSON_LINES: "JSON Lines: one object on each line, ended by LF, CRLF or CR; blank lines are passed over",
    FileKind.JSON_ARRAY: "one JSON array of objects, read element by element",
    FileKind.JSON_COLUMNS: "one JSON object of columns: lists of equal length, or objects with the same keys; or of rows under names",
    FileKind.CSV: "comma-separated table with a header; quoted cells may hold commas, quotation marks and line ends",
    FileKind.TSV: "the same with tabs",
    FileKind.SEMICOLONS: "the same with semicolons",
    FileKind.PARQUET: "Parquet, also with nested columns; null fields count as left out",
    FileKind.XLSX: "Excel workbook with one filled sheet, its first row the header; dates are read as ISO text",
}
WRAPPINGS: Mapping[Wrapping, str] = {
    Wrapping.GZIP: "gzip, also of several members, around any text format",
    Wrapping.ZIP: "zip around one file of any text format or one Parquet file, and the images that it names, or around "
    "an exported version; what macOS and Windows add is passed over",
}
ENCODINGS = "UTF-8 with or without byte order mark, UTF-16 with one (or plainly recognisable without)"

UNPACKED_RATIO = 100
UNPACKED_FLOOR = 64 * MIB
UNPACKED_LIMIT = 16 * 1024 * MIB
ARCHIVE_INDEX_LIMIT = 32 * MIB
WHOLE_LIMIT = 16 * MIB
WORKBOOK_LIMIT = 512 * MIB
WORKBOOK_TEXTS_LIMIT = 48 * MIB
PROBE_ROWS = 20
PROBE_MOST = 100_000
IMAGE_PIXELS = 80_000_000
IMAGE_BYTES = 20 * MIB
IMAGE_SIDE = 65_500
IMAGES_MOST = 100_000
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".gif")
OTHER_IMAGE_SUFFIXES = (".bmp", ".tif", ".tiff", ".heic", ".heif", ".avif", ".jxl", ".jp2", ".svg", ".ico", ".dng")
"""Images that are not read; one that a row names is a fault of that row, and no second file of rows."""
MEMORY_LIMIT = 1024 * MIB
FAR = 20
"""So many times longer or shorter than the median reply is suspicious."""
FEWEST_ROWS = 10
"""Of fewer nobody can tell what is usual."""
SHORT_BELOW = 100
"""Where the median reply has fewer characters, short ones are usual."""
LONG_ABOVE = 2_000
SHARED_FROM = 16 * MIB
"""From this size on a plain file is read by two processes; below, the second one costs more than it brings."""

IMAGE_FORMS: Mapping[str, str] = {
    "JPEG": "as it is, CMYK too; EXIF, XMP, IPTC and comments go",
    "PNG": "as it is, with its palette and transparency; texts and EXIF go",
    "PNG with 16 bits of gray": "PNG with 8 bits: the upper ones (cut off, nearly all would be white)",
    "WebP, GIF, animated PNG": "PNG of the first picture",
    "any that a camera turned (EXIF orientation)": "written anew upright, as JPEG (quality 95) or PNG",
    "BMP, TIFF, HEIC, AVIF, SVG and others": "nothing: a row that names one has the error `image_broken`",
}
"""What came, and what is stored of it."""

LIMITS: Mapping[str, str] = {
    "one row": f"{ROW_LIMIT // MIB} MiB of text",
    "depth of a row": f"{DEPTH_LIMIT} objects and lists inside each other",
    "whole numbers": "64 bits",
    "faults of one row": f"{FAULT_LIMIT} are listed; a row with more says so",
    "columns of a table": f"{COLUMN_LIMIT:,}",
    "gzip and zip": f"unpack to at most {UNPACKED_RATIO} times their size (never less than {UNPACKED_FLOOR // MIB} MiB), "
    f"and {UNPACKED_LIMIT // MIB // 1024} GiB; they are unpacked as they are read, nothing is written to disk",
    "Parquet inside a zip": f"any size where it is stored uncompressed, else {UNPACKED_FLOOR // MIB} MiB",
    "index of a zip": f"{ARCHIVE_INDEX_LIMIT // MIB} MiB",
    "JSON columns": f"{WHOLE_LIMIT // MIB} MiB, because such a file cannot be read piece by piece",
    "workbook": f"{WORKBOOK_LIMIT // MIB} MiB unpacked, {WORKBOOK_TEXTS_LIMIT // MIB} MiB of it shared texts",
    "rows looked at for the layout": f"{PROBE_ROWS}, and where none of them can be trained, up to {PROBE_MOST:,}",
    "usual replies": f"between a {FAR}th of the median reply (where that has {SHORT_BELOW} characters or more) and {FAR} times "
    f"it (or {LONG_ABOVE:,} characters, if that is more), in a file of {FEWEST_ROWS} good rows or more",
    "an image": f"{IMAGE_PIXELS:,} pixels, {IMAGE_SIDE:,} on a side and {IMAGE_BYTES // MIB} MiB; PNG, JPEG, WebP or GIF, "
    "of which the first picture counts",
    "images of an import": f"{IMAGES_MOST:,} different ones",
    "memory of an import, or a check": f"{MEMORY_LIMIT // MIB} MiB in each of at most three processes; a file that needs more is "
    "refused",
}


def is_image_name(name: str) -> bool:
    return name.lower().endswith((*IMAGE_SUFFIXES, *OTHER_IMAGE_SUFFIXES))


def kind_by_magic(start: bytes) -> FileKind | Wrapping | str | None:
    """What the first bytes say; a text for a kind that is not read, None for text."""
    for magic, kind in _MAGIC.items():
        if start.startswith(magic):
            return kind
    return "tar archive" if start[257:262] == b"ustar" else None


_MAGIC: Mapping[bytes, FileKind | Wrapping | str] = {
    b"\x1f\x8b": Wrapping.GZIP,
    b"PK\x03\x04": Wrapping.ZIP,
    b"PK\x05\x06": Wrapping.ZIP,
    b"PAR1": FileKind.PARQUET,
    b"%PDF": "PDF document",
    b"BZh": "bzip2 file",
    b"\xfd7zXZ": "xz file",
    b"\x28\xb5\x2f\xfd": "Zstandard file",
    b"7z\xbc\xaf": "7-Zip archive",
    b"Rar!": "RAR archive",
    b"\xd0\xcf\x11\xe0": "file of an old Office program",
    b"SQLite format 3": "SQLite database",
    b"ARROW1": "Arrow file",
    b"\x89PNG": "picture",
    b"\xff\xd8\xff": "picture",
    b"\x89HDF": "HDF5 file",
    b"\x80\x04\x95": "Python pickle",
    b"\x80\x05\x95": "Python pickle",
    b"\x93NUMPY": "NumPy file",
    b"version https://git-lfs": "Git LFS pointer, which stands for the data and holds none",
    b"<!DOCTYPE html": "web page",
    b"<!doctype html": "web page",
    b"<html": "web page",
    b"{\\rtf": "Rich Text document",
}
