"""Images of an example: where they stand in a row as it was written, and in the form in which it is stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tensorant_app.domain.examples import IMAGE_KINDS

IMAGE_MARK = "<image>"
STORED_NAME = re.compile(r"[0-9a-f]{64}\.(?:png|jpg)")
Example = Mapping[str, object]


class Given(NamedTuple):
    """An image that a row names or holds."""

    path: str
    """Where it stands in the row."""
    source: object
    """A path inside the folder, or a data: URL; anything else is a fault."""


def given_images(example: Example) -> Iterator[Given]:
    """Those of content parts, then those of the list `images`."""
    for n, message in enumerate(_messages(example)):
        for k, part in enumerate(_parts(message)):
            if part.get("type") in IMAGE_KINDS and (source := _source_of(part)) is not None:
                yield Given(f"messages[{n}].content[{k}]", source)
    listed = example.get("images")
    for k, source in enumerate(listed_images(example)):
        yield Given(f"images[{k}]" if isinstance(listed, list) else "images", source)


def listed_images(example: Example) -> list[object]:
    """A single path given as text is one image."""
    listed = example.get("images")
    return listed if isinstance(listed, list) else [] if listed is None else [listed]


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
    return {**{key: value for key, value in example.items() if key != "images"}, "messages": messages}


def stored_images(example: Example) -> Iterator[str]:
    """Names of the images of a stored example, in order."""
    for message in _messages(example):
        for part in _parts(message):
            if part.get("type") == "image" and isinstance(name := part.get("image"), str):
                yield name


def _messages(example: Example) -> Sequence[Mapping[str, object]]:
    messages = example["messages"]
    return messages if isinstance(messages, list) else []


def _parts(message: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _source_of(part: Mapping[str, object]) -> object:
    """None for a mark without an image, whose image stands in `images`."""
    held = part.get("image_url", part.get("image", part.get("url")))
    return held.get("url") if isinstance(held, dict) else held
