"""A validator for the few words of JSON Schema that our shapes use; its complaints read like the provider's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def errors_in(schema: Schema, value: Any, at: str = "$") -> list[str]:
    """What is wrong with `value`, each with its place; empty where nothing is."""
    return list(_errors(schema, value, at))


def _errors(schema: Schema, value: Any, at: str) -> Iterator[str]:
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(kind, value) for kind in kinds):
        yield f"{at}: got {_kind_of(value)}, want {' or '.join(kinds)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: value must be one of {', '.join(repr(word) for word in schema['enum'])}"
    if isinstance(value, str):
        yield from _text_errors(schema, value, at)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number_errors(schema, value, at)
    elif isinstance(value, list):
        yield from _list_errors(schema, value, at)
    elif isinstance(value, dict):
        yield from _object_errors(schema, value, at)


def _text_errors(schema: Schema, value: str, at: str) -> Iterator[str]:
    if len(value) < schema.get("minLength", 0):
        yield f"{at}: minLength: got {len(value)}, want {schema['minLength']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at}: {value!r} does not match pattern {schema['pattern']!r}"


def _number_errors(schema: Schema, value: float, at: str) -> Iterator[str]:
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{at}: minimum: got {value}, want {schema['minimum']}"
    if "maximum" in schema and value > schema["maximum"]:
        yield f"{at}: maximum: got {value}, want {schema['maximum']}"


def _list_errors(schema: Schema, value: list[Any], at: str) -> Iterator[str]:
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{at}: maxItems: got {len(value)}, want {schema['maxItems']}"
    if "items" in schema:
        for i, item in enumerate(value):
            yield from _errors(schema["items"], item, f"{at}[{i}]")


def _object_errors(schema: Schema, value: dict[str, Any], at: str) -> Iterator[str]:
    known = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        yield f"{at}: missing properties {', '.join(repr(name) for name in missing)}"
    if len(value) < schema.get("minProperties", 0):
        yield f"{at}: minProperties: got {len(value)}, want {schema['minProperties']}"
    others = schema.get("additionalProperties", True)
    strays = [name for name in value if name not in known]
    if others is False and strays:
        yield f"{at}: additional properties {', '.join(repr(name) for name in strays)} not allowed"
    for name, item in value.items():
        inner = known.get(name, others)
        if isinstance(inner, Mapping):
            yield from _errors(inner, item, f"{at}.{name}")


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool) and kind != "boolean":
        return False
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _kind_of(value: Any) -> str:
    return next(
        kind for kind in ("null", "boolean", "integer", "number", "string", "array", "object") if _is(kind, value)
    )
