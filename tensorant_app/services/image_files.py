"""Images of rows, each decoded whole, and kept once under the name of what is kept of it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorant_app.domain.conversions import convert
from tensorant_app.domain.data_codes import RowCode
from tensorant_app.domain.datasets import Record, Row, RowError, name_of, source_path, store, usual_places
from tensorant_app.domain.file_kinds import IMAGES_MOST
from tensorant_app.domain.images import (
    column_of,
    count_marks,
    counted,
    given_images,
    is_path,
    listed_images,
    parts_without_image,
    show_path,
    with_stored_images,
)
from tensorant_app.domain.json_text import parse_object
from tensorant_app.domain.json_values import value_faults
from tensorant_app.domain.layouts import ColumnMapping
from tensorant_app.services.image_cleaning import BadImage, clean, look
from tensorant_app.services.image_sources import Fault, Images

IMAGES, THUMBNAILS, IMAGE_NAMES = "images", "thumbnails", "image_names.json"


class ImageReader:
    """Looks at every image of every row, which comes out in its stored form; images are kept where there is a folder to
    `keep` them in."""

    def __init__(
        self, images: Images, keep: Path | None = None, tell: Callable[[int], None] = lambda taken: None
    ) -> None:
        self._images, self._keep, self._tell = images, keep, tell
        self._names: dict[str, str] = {}
        """Path of a sound image, or hash of one that stands in a row → the name it is stored under."""
        self._faulty: dict[str, Fault] = {}
        """The same of those that are not sound, so that none is decoded for every row that names it."""
        self._stored: set[str] = set()

    def read_row(self, row: Row) -> Iterator[Row | RowError]:
        """The row, or its faults."""
        example = json.loads(row.example)
        faults = [*self._faults(example)]
        if faults:
            places: list[str] = json.loads(row.places) if row.places else []
            yield from (_error(row, _in_file(path, places), code, end) for path, code, end in faults)
        elif not any(True for _ in given_images(example)):
            yield row
        else:
            placed = with_stored_images(example, lambda source: self._name_of(str(source)))
            yield replace_row(row, placed)

    def look_at(self, record: Record, mapping: ColumnMapping) -> Iterator[RowError]:
        """What is wrong with the images of a row that is rejected for other reasons; sound ones are kept for its mending."""
        body = record.body
        parsed = parse_object(body) if isinstance(body, bytes | str) else body
        if isinstance(parsed, tuple) or any(True for _ in value_faults(parsed)):
            return
        made = convert(parsed, mapping)
        yield from (_error(record, made.source_path(path), code, end) for path, code, end in self._faults(made.example))

    def keep_names(self) -> None:
        """Writes down what each image was called in the file, beside the images."""
        if self._keep is not None and self._names:
            (self._keep / IMAGE_NAMES).write_text(json.dumps(self._names))

    def _faults(self, example: Mapping[str, object]) -> Iterator[tuple[str, RowCode, str]]:
        marks, listed, bare = count_marks(example), len(listed_images(example)), parts_without_image(example)
        for path in bare:
            end = "holds no image: write its path or its data: URL under image or image_url, or name it in images."
            yield path, RowCode.IMAGE_COUNT, end
        if marks - len(bare) != listed:
            yield column_of(example), RowCode.IMAGE_COUNT, counted(listed, marks - len(bare))
        for path, source in given_images(example):
            try:
                if not isinstance(source, str) or not source:
                    raise Fault(RowCode.IMAGE_BROKEN, "is no path of an image and no image in base64.")
                self._name_of(source)
            except Fault as fault:
                yield path, fault.code, fault.end

    def _name_of(self, source: str) -> str:
        """The name under which the image is stored; raises `Fault`."""
        if not is_path(source) and not source.startswith("data:"):
            end = "is an address, and nothing is fetched; put the image into the folder."
            raise Fault(RowCode.IMAGE_ELSEWHERE, end)
        key = key_of(source)
        if key in self._faulty:
            raise self._faulty[key]
        if key not in self._names:
            try:
                self._names[key] = self._sound(source)
            except Fault as fault:
                if len(self._faulty) < IMAGES_MOST:
                    self._faulty[key] = fault
                raise
            self._tell(self._images.taken)
        return self._names[key]

    def _sound(self, source: str) -> str:
        is_url = source.startswith("data:")
        what = "holds an image that" if is_url else f"is {show_path(source)}, which"
        try:
            return self._kept(_decoded(source) if is_url else self._images.read(source))
        except (BadImage, ValueError) as error:
            raise Fault(RowCode.IMAGE_BROKEN, f"{what} cannot be decoded ({error}).") from error

    def _kept(self, data: bytes) -> str:
        """Decodes it, and keeps it once under the name of its content."""
        if self._keep is None:
            look(data)
            return f"{hashlib.sha256(data).hexdigest()}.png"
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


def key_of(source: str) -> str:
    """What an image is called in `IMAGE_NAMES`: its path, or the hash of what stands in the row."""
    return f"data:{hashlib.sha256(source.encode()).hexdigest()}" if source.startswith("data:") else source


_PLACE = re.compile(r"messages\[(\d+)\]\.content")


def _in_file(path: str, places: Sequence[str]) -> str:
    """A path of the conversation as the row's author knows it."""
    found = _PLACE.match(path)
    place = places[int(found[1])] if found is not None and int(found[1]) < len(places) else ""
    return place + path[found.end() :] if found and place.endswith("content") else source_path(path, places)


def _error(row: Record | Row, path: str, code: RowCode, end: str) -> RowError:
    return RowError(row.row, row.line, path, code, f"{name_of(row)}: {path} {end}")


def replace_row(row: Row, example: dict[str, object]) -> Row:
    """The same row with its images in parts of their own; what its texts were called in the file stays."""
    before, after = (_contents(one) for one in (json.loads(row.example), example))
    places = json.loads(row.places) if row.places else usual_places(len(before))
    for n, (old, new) in enumerate(zip(before, after, strict=True)):
        is_divided = isinstance(old, str) or (isinstance(old, list) and len(old) != len(new))
        if isinstance(new, list) and is_divided and places[n].endswith("."):
            places[n] += "content"
    told = "" if places == usual_places(len(places)) else json.dumps(places)
    return store(Record(row.row, row.line, b""), example, told)


def _contents(example: Mapping[str, Any]) -> list[Any]:
    return [message.get("content") for message in example["messages"]]


def _decoded(source: str) -> bytes:
    head, _, body = source.partition(",")
    if not head.endswith(";base64"):
        raise ValueError("it is not in base64")
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
