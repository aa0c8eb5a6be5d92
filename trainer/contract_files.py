"""The form of the files between console and trainer: dataclasses as JSON, written whole or not at all."""

from __future__ import annotations

import functools
import json
import os
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from enum import StrEnum
from pathlib import Path

T = typing.TypeVar("T")


def write_file(path: Path, text: str, *, is_durable: bool = True) -> None:
    """Replace a file whole: a reader, and a crash, see the old one or the new one.

    What is worth nothing after a crash, such as a bar of progress, need not wait for the disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    if is_durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def dump(value: object) -> str:
    """A dataclass as JSON text."""
    return json.dumps(asdict(value), ensure_ascii=False, allow_nan=False)  # type: ignore[call-overload]


def load(cls: type[T], text: str) -> T:
    """A dataclass from JSON text; unknown keys are ignored, missing ones raise."""
    value: T = _build(cls, json.loads(text))
    return value


def load_lines(cls: type[T], lines: Sequence[str]) -> Iterator[T]:
    """JSON lines; a last line cut short by a crash is left out."""
    for line in lines:
        if line.endswith("\n"):
            yield load(cls, line)


@functools.lru_cache(maxsize=64)
def _hints(cls: type) -> Mapping[str, typing.Any]:
    """Read from their text once: it takes longer than all the rest."""
    return typing.get_type_hints(cls)


def _build(hint: typing.Any, value: typing.Any) -> typing.Any:
    """`value` from JSON as the type that a field declares."""
    if is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, dict):
            raise ValueError(f"{hint.__name__} must be an object")
        hints = _hints(hint)
        return hint(**{f.name: _build(hints[f.name], value[f.name]) for f in fields(hint) if f.name in value})
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _build(next(a for a in arguments if a is not type(None)), value)
    if origin is tuple:
        return tuple(_build(arguments[0], item) for item in value)
    if origin is Mapping or hint is Mapping:
        return {key: _build(arguments[1], item) for key, item in value.items()} if arguments else dict(value)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint(value)
    return value
