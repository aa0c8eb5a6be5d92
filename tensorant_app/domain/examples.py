"""What one chat example may hold, and where exactly it is at fault.

Keys that are not known here are kept as they are; training ignores them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeGuard

DEPTH_LIMIT = 64
"""Objects and lists inside each other."""

ROLES = ("system", "developer", "user", "assistant", "tool")


class RowCode(StrEnum):
    NOT_UTF8 = "not_utf8"
    NOT_JSON = "not_json"
    NOT_OBJECT = "not_object"
    TOO_DEEP = "too_deep"
    REPEATED_KEY = "repeated_key"
    NOT_FINITE = "not_finite"
    BAD_CHARACTER = "bad_character"
    NO_MESSAGES = "no_messages"
    BAD_MESSAGE = "bad_message"
    BAD_ROLE = "bad_role"
    BAD_CONTENT = "bad_content"
    BAD_TOOLS = "bad_tools"
    BAD_WEIGHT = "bad_weight"
    EMPTY_REPLY = "empty_reply"
    NO_REPLY = "no_reply"
    LAST_NOT_REPLY = "last_not_reply"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something odd in a row that can be trained all the same."""

    path: str
    message: str


Fault = tuple[str, RowCode, str]
"""Path, code, and the sentence's end, which the row's name and path come before."""


class RepeatedKey(dict[str, object]):
    """An object in which a key stands twice."""

    key: str


def faults_of(example: Mapping[str, object]) -> list[Fault]:
    """Every reason why the example cannot be trained, not only the first."""
    faults = list(_value_faults(example))
    too_deep = any(code is RowCode.TOO_DEEP for _, code, _ in faults)
    return faults if too_deep else [*faults, *_chat_faults(example)]


def notices_of(example: Mapping[str, object]) -> Iterator[Notice]:
    for path, _, value in walk(example):
        if isinstance(value, str) and (found := _INVISIBLE.search(value)):
            yield Notice(path, f"{path} holds the invisible character U+{ord(found[0]):04X}.")


def hash_example(example: Mapping[str, object]) -> str:
    canonical = json.dumps(example, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def walk(value: object) -> Iterator[tuple[str, int, object]]:
    """Every value inside, itself first: its path, its depth, and the value; without recursion."""
    stack = [("", 1, value)]
    while stack:
        path, depth, item = stack.pop()
        yield path, depth, item
        if depth > DEPTH_LIMIT:
            continue
        if isinstance(item, dict):
            stack += [(_join(path, key), depth + 1, inner) for key, inner in reversed(item.items())]
        elif isinstance(item, list):
            stack += [(f"{path}[{n}]", depth + 1, inner) for n, inner in reversed(list(enumerate(item)))]


def kind_of(value: object) -> str:
    """Its JSON type, for a sentence."""
    return _KINDS.get(type(value), "an object")


def show(value: object) -> str:
    """A value as short ASCII, safe for every page, log and database."""
    text = json.dumps(value, default=str) if value is not None else "missing"
    return text if len(text) <= 40 else f"{text[:37]}..."


_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    type(None): "missing or null",
}
_BAD_CHARACTER = re.compile("[\0\ud800-\udfff]")
_INVISIBLE = re.compile("[\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069]")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,59}")


def _value_faults(example: Mapping[str, object]) -> Iterator[Fault]:
    """What no example may hold, wherever it stands."""
    for path, depth, value in walk(example):
        where = path or "the row"
        if depth > DEPTH_LIMIT:
            yield path, RowCode.TOO_DEEP, f"more than {DEPTH_LIMIT} objects and lists inside each other."
            return
        if isinstance(value, RepeatedKey):
            yield path, RowCode.REPEATED_KEY, f"{where} holds the key {show(value.key)} twice; keep one."
        if isinstance(value, float) and not math.isfinite(value):
            yield path, RowCode.NOT_FINITE, f"{where} is NaN or infinite; write a number or null."
        texts = value.keys() if isinstance(value, dict) else [value] if isinstance(value, str) else ()
        if any(_BAD_CHARACTER.search(text) for text in texts):
            yield path, RowCode.BAD_CHARACTER, f"{where} holds half a character (a lone surrogate) or NUL; remove it."


def _chat_faults(example: Mapping[str, object]) -> Iterator[Fault]:
    messages = example.get("messages")
    if not isinstance(messages, list) or not messages:
        held = ", ".join(show(key) for key in list(example)[:5]) or "nothing"
        yield "messages", RowCode.NO_MESSAGES, f"messages must be a list of messages; the row holds {held}."
        return
    for n, message in enumerate(messages):
        yield from _message_faults(f"messages[{n}]", message)
    roles = [message.get("role") if isinstance(message, dict) else None for message in messages]
    last = f"messages[{len(messages) - 1}]"
    if "assistant" not in roles:
        yield "messages", RowCode.NO_REPLY, "no message is of the assistant, so there is no reply to learn."
    elif roles[-1] != "assistant":
        yield last, RowCode.LAST_NOT_REPLY, f"{last} must be the assistant's reply; remove what follows the last one."
    yield from _tool_faults(example, messages)


def _message_faults(path: str, message: object) -> Iterator[Fault]:
    if not isinstance(message, dict):
        yield path, RowCode.BAD_MESSAGE, f"{path} is {kind_of(message)}; it must be an object with role and content."
        return
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
    if role not in ROLES:
        yield f"{path}.role", RowCode.BAD_ROLE, f"{path}.role is {show(role)}; use one of {', '.join(ROLES)}."
    if role == "assistant" and message.get("weight", 1) not in (1, None):
        end = f"{path}.weight is {show(message['weight'])}; every reply is trained, so remove the weight or the reply."
        yield f"{path}.weight", RowCode.BAD_WEIGHT, end
    if role == "assistant" and _is_blank(content):
        if not calls:
            yield f"{path}.content", RowCode.EMPTY_REPLY, f"{path}.content is empty; write the reply to learn."
    elif not isinstance(content, str):
        end = f"{path}.content is {kind_of(content)}; write it as one text (lists of parts cannot be trained yet)."
        yield f"{path}.content", RowCode.BAD_CONTENT, end
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        end = f"{path}.tool_call_id is missing; name the call that this result answers."
        yield f"{path}.tool_call_id", RowCode.BAD_TOOLS, end
    if calls is not None:
        yield from _call_faults(f"{path}.tool_calls", calls)


def _call_faults(path: str, calls: object) -> Iterator[Fault]:
    if not _are_objects(calls):
        yield path, RowCode.BAD_TOOLS, f"{path} must be a list of objects; remove it where nothing is called."
        return
    for n, call in enumerate(calls):
        where = f"{path}[{n}].function"
        function = call.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            yield where, RowCode.BAD_TOOLS, f"{where} must be an object with the function's name."
        elif not _is_json_object(function.get("arguments", {})):
            end = f"{where}.arguments is not a JSON object, nor one written as text."
            yield f"{where}.arguments", RowCode.BAD_TOOLS, end


def _tool_faults(example: Mapping[str, object], messages: Sequence[object]) -> Iterator[Fault]:
    """The list of tools, and calls of functions that are not in it."""
    tools = example.get("tools")
    if tools is None:
        return
    if not _are_objects(tools):
        yield "tools", RowCode.BAD_TOOLS, "tools must be a list of objects; remove it where there are none."
        return
    functions = [tool.get("function", tool) for tool in tools]
    known = [function.get("name") for function in functions if isinstance(function, dict)]
    for n, message in enumerate(messages):
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for k, call in enumerate(calls if _are_objects(calls) else ()):
            function, path = call.get("function"), f"messages[{n}].tool_calls[{k}].function.name"
            if isinstance(function, dict) and isinstance(function.get("name"), str) and function["name"] not in known:
                yield path, RowCode.BAD_TOOLS, f"{path} is {show(function['name'])}, which is not among the tools."


def _is_blank(content: object) -> bool:
    return content is None or (isinstance(content, str) and not content.strip())


def _is_json_object(value: object) -> bool:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return False
    return isinstance(value, dict)


def _are_objects(value: object) -> TypeGuard[list[dict[str, object]]]:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _join(path: str, key: str) -> str:
    name = key if _PLAIN_KEY.fullmatch(key) else show(key)
    return f"{path}.{name}" if path else name
