"""The images of an import: what each was called in its file, and those that a row may name once it is edited."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tensorant_app.domain.datasets import Row
from tensorant_app.domain.errors import NotFound
from tensorant_app.domain.images import (
    STORED_NAME,
    column_of,
    count_marks,
    counted,
    given_images,
    listed_images,
    show_path,
    with_stored_images,
)
from tensorant_app.services.connections import store
from tensorant_app.services.image_files import IMAGE_NAMES, IMAGES, THUMBNAILS, key_of, replace_row
from tensorant_app.services.imports import folder_key


def image_folder(import_id: object) -> Path:
    """Where the images of its rows lie; there is none where no row has any."""
    return store().fetch(f"{folder_key(import_id)}/{IMAGES}")


def thumbnail_in(imports: Sequence[object], name: str) -> Path:
    """The first that there is; `NotFound` for everything that is no name of a stored image."""
    if STORED_NAME.fullmatch(name):
        for one in imports:
            file = store().fetch(f"{folder_key(one)}/{THUMBNAILS}") / f"{name.partition('.')[0]}.webp"
            if file.is_file():
                return file
    raise NotFound("There is no such image here.")


def place_images(row: Row, imports: Sequence[object]) -> Row | list[str]:
    """An edited row in its stored form, or what is wrong with its images.

    It may name images as they are stored, of any of the `imports`, and as the first one's file names them.
    """
    example = json.loads(row.example)
    if not any(True for _ in given_images(example)) and not count_marks(example):
        return row
    folders, names = [image_folder(one) for one in imports], _names_in_file(imports[0])
    found = {str(given.source): _find(str(given.source), folders, names) for given in given_images(example)}
    faults = [
        f"{given.path} {_unknown(given.source)}" for given in given_images(example) if not found[str(given.source)]
    ]
    marks, listed = count_marks(example), len(listed_images(example))
    if marks != listed:
        faults.append(f"{column_of(example)} {counted(listed, marks)}")
    return faults or replace_row(row, with_stored_images(example, lambda source: found[str(source)] or ""))


def _find(source: str, folders: Sequence[Path], names: Mapping[str, str]) -> str | None:
    name = source if STORED_NAME.fullmatch(source) else names.get(key_of(source), "")
    return name if name and any((folder / name).is_file() for folder in folders) else None


def _names_in_file(import_id: object) -> Mapping[str, str]:
    path = store().fetch(f"{folder_key(import_id)}/{IMAGE_NAMES}")
    return json.loads(path.read_text()) if path.is_file() else {}


def _unknown(source: object) -> str:
    named = show_path(source) if isinstance(source, str) and not source.startswith("data:") else "an image"
    return (
        f"is {named}, which did not come with this file. Keep the row's images or remove some; to use another one, import "
        "it with its row as a file of its own and add its rows."
    )
