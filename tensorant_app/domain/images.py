"""Images of an example: where they stand in a row as it was written, and in the form in which it is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tensorant_app.domain.examples import IMAGE_KINDS
from tensorant_app.domain.json_text import parse

IMAGE_MARK = "<image>"
STORED_NAME = re.compile(r"[0-9a-f]{64}\.(?:png|jpg)")
_LIST, _ONE = "images", "image"
"""Columns that hold what the marks of a row stand for; the second one only where the row's parts hold no images."""
_LONGEST_PATH = 80
Example = Mapping[str, object]


class Given(NamedTuple):
    """An image that a row names or holds."""

    path: str
    """Where it stands in the row."""
    source: object
    """A path inside the folder, or a data: URL; anything else is a fault."""


def given_images(example: Example) -> Iterator[Given]:
    """Those of content parts, then those of the list `images`; of a faulty row what can be told."""
    for n, message in enumerate(_messages(example)):
        for k, part in enumerate(_parts(message)):
            if part.get("type") in IMAGE_KINDS and (source := _source_of(part)) is not None:
                yield Given(f"messages[{n}].content[{k}]", source)
    column, listed = column_of(example), listed_images(example)
    is_list = isinstance(example.get(column), list)
    for k, source in enumerate(listed):
        yield Given(f"{column}[{k}]" if is_list or len(listed) > 1 else column, source)


def listed_images(example: Example) -> list[object]:
    """A single path given as text is one image; a list written as JSON text is the list."""
    listed = example.get(column_of(example))
    if isinstance(listed, str):
        found = parse(listed) if listed.lstrip().startswith("[") else listed
        listed = found if isinstance(found, list) else listed.strip() or None
    return listed if isinstance(listed, list) else [] if listed is None else [listed]


def column_of(example: Example) -> str:
    """What the column of the row's images is called."""
    if _is_filled(example, _LIST) or not _is_filled(example, _ONE):
        return _LIST
    parts = (part for message in _messages(example) for part in _parts(message))
    held = any(part.get("type") in IMAGE_KINDS and _source_of(part) is not None for part in parts)
    return _LIST if held else _ONE


def is_path(source: object) -> bool:
    """Names a file, and is neither an image in base64 nor an address."""
    return isinstance(source, str) and not source.startswith("data:") and "://" not in source[:12]


def show_path(path: str) -> str:
    """As short ASCII; of a long path its end, by which it is known."""
    text = json.dumps(path)
    return text if len(text) <= _LONGEST_PATH else f'"...{text[-_LONGEST_PATH:]}'


def count_marks(example: Example) -> int:
    """Places that an image of the list `images` belongs to: marks in texts, and image parts without an image."""
    marks = 0
    for message in _messages(example):
        content = message.get("content")
        marks += content.count(IMAGE_MARK) if isinstance(content, str) else 0
        for part in _parts(message):
            if part.get("type") in IMAGE_KINDS:
                marks += _source_of(part) is None
            else:
                marks += str(part.get("text", "")).count(IMAGE_MARK)
    return marks


def parts_without_image(example: Example) -> list[str]:
    """Places of image parts that hold no image, where no list `images` holds them either."""
    if listed_images(example):
        return []
    return [
        f"messages[{n}].content[{k}]"
        for n, message in enumerate(_messages(example))
        for k, part in enumerate(_parts(message))
        if part.get("type") in IMAGE_KINDS and _source_of(part) is None
    ]


def counted(listed: int, marks: int) -> str:
    """What is wrong with so many images for so many places."""
    if marks == 0:
        return f"holds {listed}, and no text says where; write {IMAGE_MARK} into a question for each."
    if listed == 0:
        return f"holds none for {marks} {IMAGE_MARK} marks; name the images, or remove the marks."
    return f"holds {listed} for {marks} {IMAGE_MARK} marks; give each mark one."


def with_stored_images(example: Example, name_of: Callable[[object], str]) -> dict[str, object]:
    """Each image as a part of its own that names a stored file; `images` is used up. Only for a row without faults."""
    listed = iter(listed_images(example))

    def pieces(text: str) -> Iterator[dict[str, object]]:
        for n, piece in enumerate(text.split(IMAGE_MARK)):
            if n:
                yield {"type": "image", "image": name_of(next(listed))}
            if piece:
                yield {"type": "text", "text": piece}

    def placed(message: Mapping[str, object]) -> Mapping[str, object]:
        content = message.get("content")
        if isinstance(content, str):
            return {**message, "content": [*pieces(content)]} if IMAGE_MARK in content else message
        if not isinstance(content, list):
            return message
        made: list[dict[str, object]] = []
        for part in _parts(message):
            if part.get("type") in IMAGE_KINDS:
                source = _source_of(part)
                made.append({"type": "image", "image": name_of(next(listed) if source is None else source)})
            else:
                made += pieces(str(part["text"]))
        return {**message, "content": made}

    messages = [placed(message) for message in _messages(example)]
    used = column_of(example)
    return {**{key: value for key, value in example.items() if key != used}, "messages": messages}


def stored_images(example: Example) -> Iterator[str]:
    """Names of the images of a stored example, in order."""
    for message in _messages(example):
        for part in _parts(message):
            if part.get("type") == "image" and isinstance(name := part.get("image"), str):
                yield name


def with_paths(example: Example, place: Callable[[str], str]) -> dict[str, object]:
    """Every image of a stored example under the path that `place` makes of its name."""

    def placed(part: Mapping[str, object]) -> Mapping[str, object]:
        name = part.get("image")
        return {**part, "image": place(name)} if part.get("type") == "image" and isinstance(name, str) else part

    messages = [
        {**message, "content": [placed(part) for part in _parts(message)]} if _parts(message) else message
        for message in _messages(example)
    ]
    return {**example, "messages": messages}


def _is_filled(example: Example, column: str) -> bool:
    return example.get(column) not in (None, "", [])


def _messages(example: Example) -> Sequence[Mapping[str, object]]:
    messages = example.get("messages")
    return [one if isinstance(one, dict) else {} for one in messages] if isinstance(messages, list) else []


def _parts(message: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
    content = message.get("content")
    return [one if isinstance(one, dict) else {} for one in content] if isinstance(content, list) else []


def _source_of(part: Mapping[str, object]) -> object:
    """None for a mark without an image, whose image stands in `images`."""
    held = part.get("image_url", part.get("image", part.get("url")))
    return held.get("url") if isinstance(held, dict) else held
