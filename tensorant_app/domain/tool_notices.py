"""Tool calls that can be trained and are odd all the same: against the tools of the row, and against their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tensorant_app.domain.data_codes import NoticeCode
from tensorant_app.domain.json_text import parse
from tensorant_app.domain.json_values import are_objects, join, kind_of, show

Found = tuple[str, NoticeCode, str]
Value = Mapping[str, object]

MISMATCHES = 5
"""Places of one call that are named."""


def call_notices(messages: Sequence[Value], tools: object) -> Iterator[Found]:
    """Of the messages and tools of a row that can be trained."""
    schemas = dict(_schemas(tools))
    for name, schema, path in _declared(tools):
        if schema is not None and not isinstance(schema, dict):
            end = f"is {kind_of(schema)}; the parameters of {show(name)} are a JSON schema, an object."
            yield path, NoticeCode.ODD_TOOL, end
    for n, message in enumerate(messages):
        calls = message.get("tool_calls")
        if not are_objects(calls) or not calls:
            continue
        path = f"messages[{n}]"
        for k, call in enumerate(calls):
            where = f"{path}.tool_calls[{k}]"
            function = call.get("function")
            if tools is None:
                yield f"{where}.function.name", NoticeCode.UNDECLARED_CALL, "is called, and the row declares no tools."
            elif isinstance(function, dict):
                yield from _arguments(f"{where}.function.arguments", function, schemas)
            if call.get("id") is not None and call.get("id") in [earlier.get("id") for earlier in calls[:k]]:
                end = "is the id of another call of the same message, so that nobody can tell their answers apart."
                yield f"{where}.id", NoticeCode.REPEATED_CALL_ID, end
        yield from _unanswered(path, calls, messages[n + 1 :])


def _unanswered(path: str, calls: Sequence[Value], after: Sequence[Value]) -> Iterator[Found]:
    """Nothing, where the row ends with the calls."""
    if not after:
        return
    answers = []
    for message in after:
        if message.get("role") != "tool":
            break
        answers.append(message.get("tool_call_id"))
    if not answers:
        yield path, NoticeCode.UNANSWERED_CALL, "calls a tool, and no answer of it follows."
        return
    for k, call in enumerate(calls):
        if call.get("id") in answers:
            answers.remove(call.get("id"))
        elif None in answers:
            answers.remove(None)
        elif not answers or call.get("id") is not None:
            yield (
                f"{path}.tool_calls[{k}]",
                NoticeCode.UNANSWERED_CALL,
                "has no answer; other calls beside it have one.",
            )
        else:
            answers.pop(0)


def _declared(tools: object) -> Iterator[tuple[object, object, str]]:
    """Name, parameters and their path of each tool."""
    for n, tool in enumerate(tools if are_objects(tools) else ()):
        function = tool.get("function", tool)
        where = f"tools[{n}].function" if "function" in tool else f"tools[{n}]"
        if isinstance(function, dict):
            yield function.get("name"), function.get("parameters"), f"{where}.parameters"


def _schemas(tools: object) -> Iterator[tuple[object, Value]]:
    for name, schema, _ in _declared(tools):
        if isinstance(schema, dict) and (schema.get("type") == "object" or isinstance(schema.get("properties"), dict)):
            yield name, schema


def _arguments(path: str, function: Value, schemas: Mapping[object, Value]) -> Iterator[Found]:
    schema, given = schemas.get(function.get("name")), function.get("arguments")
    if schema is None:
        return
    value = {} if given in (None, "") else parse(given) if isinstance(given, str) else given
    for n, (place, end) in enumerate(_mismatches(path, value, schema)):
        if n == MISMATCHES:
            return
        yield place, NoticeCode.CALL_MISMATCH, end


def _mismatches(path: str, value: object, schema: Value) -> Iterator[tuple[str, str]]:
    """What plainly contradicts the schema; words of it that are not known here contradict nothing."""
    kinds = schema.get("type")
    wanted = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str)]
    if wanted and {*wanted} <= _TYPES.keys() and not any(_is_of(value, kind) for kind in wanted):
        yield path, f"is {kind_of(value)}, and the tool declares {' or '.join(wanted)}."
        return
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        yield path, "is none of the values that the tool declares."
    inner = schema.get("properties")
    properties = inner if isinstance(inner, dict) else {}
    if isinstance(value, dict):
        needed = schema.get("required")
        for name in needed if isinstance(needed, list) else ():
            if isinstance(name, str) and name not in value:
                yield path, f"lacks {show(name)}, which the tool requires."
        is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        for name, item in value.items():
            if isinstance(known := properties.get(name), dict):
                yield from _mismatches(join(path, name), item, known)
            elif is_closed and name not in properties:
                yield join(path, name), "is no parameter that the tool declares, and it allows no others."
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        for n, item in enumerate(value):
            yield from _mismatches(f"{path}[{n}]", item, items)


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def _is_of(value: object, kind: str) -> bool:
    if isinstance(value, bool) and kind != "boolean":
        return False
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])
