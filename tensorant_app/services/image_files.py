"""Images of a row, looked for inside one folder and decoded whole; nothing is ever fetched."""

from __future__ import annotations

import base64
import binascii
import io
import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tensorant_app.domain.data_codes import RowCode
from tensorant_app.domain.datasets import Row, RowError, name_of
from tensorant_app.domain.examples import IMAGE_KINDS
from tensorant_app.domain.file_kinds import IMAGE_PIXELS
from tensorant_app.domain.json_values import show

IMAGE_MARK = "<image>"
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
Fault = tuple[str, RowCode, str]


class ImageFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._sound: set[Path] = set()
        """Files that were decoded once already."""

    def faults_of(self, row: Row) -> Iterator[RowError]:
        example = json.loads(row.example)
        for path, code, end in self._faults(example):
            yield RowError(row.row, row.line, path, code, f"{name_of(row)}: {path} {end}")

    def _faults(self, example: Mapping[str, Any]) -> Iterator[Fault]:
        marks = inline = 0
        for n, message in enumerate(example["messages"]):
            content = message.get("content")
            if isinstance(content, str):
                marks += content.count(IMAGE_MARK)
                continue
            for k, part in enumerate(content or ()):
                if part.get("type") in IMAGE_KINDS:
                    source = _source_of(part)
                    inline += source is not None
                    marks += source is None
                    if source is not None:
                        yield from self._image_faults(f"messages[{n}].content[{k}]", source)
                else:
                    marks += part["text"].count(IMAGE_MARK)
        listed = example.get("images")
        images = listed if isinstance(listed, list) else [] if listed is None else [listed]
        if len(images) != marks:
            yield (
                "images",
                RowCode.IMAGE_COUNT,
                f"holds {len(images)} for {marks} {IMAGE_MARK} marks; give each mark one.",
            )
        for k, image in enumerate(images):
            yield from self._image_faults(f"images[{k}]" if isinstance(listed, list) else "images", image)

    def _image_faults(self, path: str, source: object) -> Iterator[Fault]:
        if not isinstance(source, str) or not source:
            yield path, RowCode.IMAGE_BROKEN, "is no path of an image and no image in base64."
        elif source.startswith("data:"):
            yield from _data_faults(path, source)
        elif "://" in source[:12]:
            yield path, RowCode.IMAGE_ELSEWHERE, "is an address, and nothing is fetched; put the image into the folder."
        else:
            yield from self._file_faults(path, source)

    def _file_faults(self, path: str, source: str) -> Iterator[Fault]:
        try:
            file = (self._folder / source).resolve()
            inside = file.is_relative_to(self._folder)
            found = inside and file.is_file()
        except (OSError, ValueError):
            inside, found = True, False
        if not inside:
            yield path, RowCode.IMAGE_OUTSIDE, f"is {show(source)}, which leaves the folder of images."
        elif not found:
            yield path, RowCode.IMAGE_MISSING, f"is {show(source)}, and the folder of images has no such file."
        elif file not in self._sound:
            if (reason := _undecodable(file)) is None:
                self._sound.add(file)
            else:
                yield path, RowCode.IMAGE_BROKEN, f"is {show(source)}, which cannot be decoded ({reason})."


def _source_of(part: Mapping[str, Any]) -> object:
    """None for a mark without an image, whose image stands in `images`."""
    held = part.get("image_url", part.get("image", part.get("url")))
    return held.get("url") if isinstance(held, dict) else held


def _data_faults(path: str, source: str) -> Iterator[Fault]:
    head, _, body = source.partition(",")
    try:
        if not head.endswith(";base64"):
            raise ValueError("it is not in base64")
        reason = _undecodable(io.BytesIO(base64.b64decode(body, validate=True)))
    except (binascii.Error, ValueError) as error:
        reason = str(error)
    if reason is not None:
        yield path, RowCode.IMAGE_BROKEN, f"holds an image that cannot be decoded ({reason})."


def _undecodable(source: Path | io.BytesIO) -> str | None:
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(source, formats=_FORMATS) as image:
                if image.width * image.height > IMAGE_PIXELS:
                    return f"it has {image.width * image.height:,} pixels, more than {IMAGE_PIXELS:,}"
                image.load()
    except Exception as error:  # Pillow raises whatever a damaged file makes of its decoders
        return str(error).replace(str(source), "the file") or type(error).__name__
    return None
