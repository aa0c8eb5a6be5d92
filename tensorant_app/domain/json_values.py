"""JSON values: walking them, naming them, and what no example may hold wherever it stands."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import TypeGuard

from tensorant_app.domain.data_codes import RowCode

DEPTH_LIMIT = 64
"""Objects and lists inside each other."""
LARGEST_WHOLE_NUMBER = 2**63

Fault = tuple[str, RowCode, str]
"""Path, code, and the sentence's end; the row's name and the path come before it."""


class RepeatedKey(dict[str, object]):
    """An object in which a key stands twice."""

    key: str


def value_faults(example: object) -> Iterator[Fault]:
    """What makes values unfit to be stored, trained or shown."""
    for path, depth, value in walk(example):
        if depth > DEPTH_LIMIT:
            yield path, RowCode.TOO_DEEP, f"has more than {DEPTH_LIMIT} objects and lists inside each other."
            return
        if isinstance(value, RepeatedKey):
            yield path, RowCode.REPEATED_KEY, f"holds the key {show(value.key)} twice; keep one."
        if isinstance(value, float) and not math.isfinite(value):
            yield path, RowCode.NOT_FINITE, "is NaN or infinite; write a number or null."
        if isinstance(value, int) and not -LARGEST_WHOLE_NUMBER <= value < LARGEST_WHOLE_NUMBER:
            yield path, RowCode.NUMBER_TOO_LARGE, "is a whole number beyond 64 bits; write it as text."
        texts = value.keys() if isinstance(value, dict) else [value] if isinstance(value, str) else ()
        if any(_BAD_CHARACTER.search(text) for text in texts):
            yield path, RowCode.BAD_CHARACTER, "holds half a character (a lone surrogate) or NUL; remove it."


def walk(value: object) -> Iterator[tuple[str, int, object]]:
    """Every value inside, itself first: its path, its depth, and the value; without recursion."""
    stack = [("", 1, value)]
    while stack:
        path, depth, item = stack.pop()
        yield path, depth, item
        if depth > DEPTH_LIMIT:
            continue
        if isinstance(item, dict):
            stack += [(join(path, key), depth + 1, inner) for key, inner in reversed(item.items())]
        elif isinstance(item, list):
            stack += [(f"{path}[{n}]", depth + 1, inner) for n, inner in reversed(list(enumerate(item)))]


def join(path: str, key: str) -> str:
    is_plain = _PLAIN_KEY.fullmatch(key) and (len(key) < 11 or not _PERSONAL.search(key))
    name = key if is_plain else show(key)
    return f"{path}.{name}" if path else name


def kind_of(value: object) -> str:
    """Its JSON type, for a sentence."""
    return _KINDS.get(type(value), "an object")


def show(value: object) -> str:
    """A value as short ASCII, safe for every page, log and database; what may be personal is hidden in it."""
    if value is None:
        return "missing"
    text = json.dumps(value, default=str, ensure_ascii=False)[:_SHOWN_OF]
    text = _NO_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], _PERSONAL.sub("(hidden)", text))
    return text if len(text) <= 40 else f"{text[:37]}..."


def show_keys(example: Mapping[str, object]) -> str:
    return ", ".join(show(key) for key in list(example)[:5]) or "nothing"


def are_objects(value: object) -> TypeGuard[list[dict[str, object]]]:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def is_blank(content: object) -> bool:
    return content is None or (isinstance(content, str) and not content.strip())


_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    type(None): "missing or null",
}
_SHOWN_OF = 200
"""Characters of a value that are looked at where it is shown."""
_PERSONAL = re.compile(r"[^\s\"]+@[^\s\"]+|[A-Z]{2}[0-9]{2}[A-Z0-9 -]{11,}|[+\uff0b]?[0-9](?:[^0-9]{0,3}[0-9]){6,}")
"""Whatever looks like an e-mail address, an account, a telephone number or a card: more than is surely one."""
_NO_ASCII = re.compile(r"[^\x00-\x7f]")
_BAD_CHARACTER = re.compile("[\0\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,59}")
