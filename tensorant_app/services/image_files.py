"""Images of a row, looked for inside one folder or archive and decoded whole; nothing is ever fetched."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from tensorant_app.domain.data_codes import RowCode
from tensorant_app.domain.datasets import Record, Row, RowError, name_of, store
from tensorant_app.domain.file_kinds import IMAGE_BYTES, IMAGES_MOST
from tensorant_app.domain.images import IMAGE_MARK, count_marks, given_images, listed_images, with_stored_images
from tensorant_app.domain.json_values import show
from tensorant_app.services.image_cleaning import BadImage, clean, decode

IMAGES, THUMBNAILS = "images", "thumbnails"


class Fault(Exception):
    """What is wrong with one image: its code, and the end of the sentence."""

    def __init__(self, code: RowCode, end: str) -> None:
        super().__init__(end)
        self.code, self.end = code, end


class Images(Protocol):
    """Where images lie that rows name by a path."""

    def read(self, name: str) -> bytes:
        """Raises `Fault`."""
        ...


class ImageFolder:
    """A folder of this computer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def read(self, name: str) -> bytes:
        try:
            file = (self._folder / name).resolve()
            if not file.is_relative_to(self._folder):
                raise Fault(RowCode.IMAGE_OUTSIDE, f"is {show(name)}, which leaves the folder of images.")
            if file.is_file():
                with file.open("rb") as opened:
                    return opened.read(IMAGE_BYTES + 1)
        except (OSError, ValueError):
            pass
        raise Fault(RowCode.IMAGE_MISSING, f"is {show(name)}, and the folder of images has no such file.")


class ImageArchive:
    """A zip beside whose data file the images lie; paths count from the archive's root or from the data file."""

    def __init__(self, archive: zipfile.ZipFile, member: str) -> None:
        self._archive, self._beside = archive, posixpath.dirname(member)
        self._members = {info.filename: info for info in archive.infolist() if not info.is_dir()}

    def read(self, name: str) -> bytes:
        plain = posixpath.normpath(name.replace("\\", "/"))
        if plain.startswith(("../", "/")) or plain == "..":
            raise Fault(RowCode.IMAGE_OUTSIDE, f"is {show(name)}, which leaves the archive.")
        info = self._members.get(plain) or self._members.get(posixpath.join(self._beside, plain))
        if info is None:
            raise Fault(RowCode.IMAGE_MISSING, f"is {show(name)}, and the archive holds no such file.")
        try:
            with self._archive.open(info) as opened:
                return opened.read(IMAGE_BYTES + 1)
        except (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise Fault(RowCode.IMAGE_BROKEN, f"is {show(name)}, which the archive holds damaged ({error}).") from error


class NoImages:
    """Rows bring their images along, or have none."""

    def read(self, name: str) -> bytes:
        raise Fault(
            RowCode.IMAGE_MISSING, f"is {show(name)}, and no images came with the rows; pack both into one zip."
        )


class ImageReader:
    """Looks at every image of every row; with a folder to `keep` them in, rows come out in their stored form."""

    def __init__(self, images: Images, keep: Path | None = None) -> None:
        self._images, self._keep = images, keep
        self._names: dict[str, str] = {}
        """Path of a sound image, or hash of one that stands in a row → the name it is stored under."""
        self._stored: set[str] = set()

    def read_row(self, row: Row) -> Iterator[Row | RowError]:
        """The row, or its faults."""
        example = json.loads(row.example)
        faults = [
            RowError(row.row, row.line, p, code, f"{name_of(row)}: {p} {end}") for p, code, end in self._faults(example)
        ]
        if faults:
            yield from faults
        elif self._keep is None or not any(True for _ in given_images(example)):
            yield row
        else:
            placed = with_stored_images(example, lambda source: self._name_of(str(source)))
            yield replace_row(row, placed)

    def _faults(self, example: dict[str, object]) -> Iterator[tuple[str, RowCode, str]]:
        marks, listed = count_marks(example), len(listed_images(example))
        if marks != listed:
            yield "images", RowCode.IMAGE_COUNT, f"holds {listed} for {marks} {IMAGE_MARK} marks; give each mark one."
        for path, source in given_images(example):
            try:
                if not isinstance(source, str) or not source:
                    raise Fault(RowCode.IMAGE_BROKEN, "is no path of an image and no image in base64.")
                self._name_of(source)
            except Fault as fault:
                yield path, fault.code, fault.end

    def _name_of(self, source: str) -> str:
        if source.startswith("data:"):
            return self._name_of_url(source)
        if "://" in source[:12]:
            end = "is an address, and nothing is fetched; put the image into the folder."
            raise Fault(RowCode.IMAGE_ELSEWHERE, end)
        if source not in self._names:
            try:
                self._names[source] = self._sound(self._images.read(source))
            except BadImage as error:
                raise Fault(RowCode.IMAGE_BROKEN, f"is {show(source)}, which cannot be decoded ({error}).") from error
        return self._names[source]

    def _name_of_url(self, url: str) -> str:
        key = f"data:{hashlib.sha256(url.encode()).hexdigest()}"
        if key not in self._names:
            try:
                self._names[key] = self._sound(_decoded(url))
            except (BadImage, ValueError) as error:
                raise Fault(RowCode.IMAGE_BROKEN, f"holds an image that cannot be decoded ({error}).") from error
        return self._names[key]

    def _sound(self, data: bytes) -> str:
        """Decodes it, and keeps it once under the name of its content."""
        if self._keep is None:
            decode(data)
            return ""
        cleaned = clean(data)
        digest = hashlib.sha256(cleaned.data).hexdigest()
        name = f"{digest}.{cleaned.suffix}"
        if name not in self._stored:
            if len(self._stored) == IMAGES_MOST:
                raise BadImage(f"it is one more than {IMAGES_MOST:,} different ones, the most of an import")
            for folder, file, content in (
                (IMAGES, name, cleaned.data),
                (THUMBNAILS, f"{digest}.webp", cleaned.thumbnail),
            ):
                (self._keep / folder).mkdir(parents=True, exist_ok=True)
                (self._keep / folder / file).write_bytes(content)
            self._stored.add(name)
        return name


def replace_row(row: Row, example: dict[str, object]) -> Row:
    """The same row with another content; what its texts were called in the file stays."""
    return store(Record(row.row, row.line, b""), example, row.places)


def _decoded(source: str) -> bytes:
    head, _, body = source.partition(",")
    if not head.endswith(";base64"):
        raise ValueError("it is not in base64")
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
