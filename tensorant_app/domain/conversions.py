"""Turns a row of any layout into one chat example, remembering where each message stood in the row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tensorant_app.domain.data_codes import RowCode
from tensorant_app.domain.json_text import parse, why_no_json
from tensorant_app.domain.json_values import Fault, are_objects, is_blank, join, kind_of, show, show_keys, value_faults
from tensorant_app.domain.layouts import ColumnMapping, Layout

Value = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message stands in the row as it was written."""

    whole: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """A field of the chat message, such as `content`, to the path that holds it; the longest that fits counts."""
    keeps_rest: bool = True
    """What follows the field in a path means the same in the row."""


@dataclass(slots=True)
class Converted:
    """A chat example, faults found while turning the row into it, and the places of its messages."""

    example: dict[str, object]
    faults: list[Fault] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    tools: str = "tools"
    messages: str = "messages"

    def source_path(self, path: str) -> str:
        """A path of the example as the row's author knows it."""
        found = MESSAGE_PATH.match(path)
        if found is None:
            for name, column in (("tools", self.tools), ("messages", self.messages)):
                if path == name or path.startswith((f"{name}.", f"{name}[")):
                    return column + path[len(name) :]
            return path
        n, rest = int(found[1]), path[found.end() :].removeprefix(".")
        if n >= len(self.places):
            return path
        place = self.places[n]
        for name in sorted(place.fields, key=len, reverse=True):
            if rest.startswith(name):
                return place.fields[name] + (rest[len(name) :] if place.keeps_rest else "")
        return f"{place.whole}.{rest}" if rest and place.keeps_rest else place.whole


MESSAGE_PATH = re.compile(r"messages\[(\d+)\]")
CALL = "tool_calls[0].function"
"""Where a call of the old form is stored."""


def convert(row: Value, mapping: ColumnMapping) -> Converted:
    """Never fails: what cannot be turned is left for the checks of the example, or named in `faults`."""
    return _CONVERTERS[mapping.layout](row, mapping)


def plain_message(message: Value) -> dict[str, object]:
    """Role and content first, null fields gone, a list of text parts as one text."""
    role, content = message.get("role"), message.get("content")
    role = "system" if role == "developer" else role
    rest = {key: value for key, value in message.items() if key not in ("role", "content") and value is not None}
    return {"role": role, "content": _as_text(content), **rest}


def _as_text(content: object) -> object:
    parts = content if isinstance(content, list) and content and are_objects(content) else ()
    texts = [part.get("text") for part in parts if part.get("type") == "text" and not set(part) - {"type", "text"}]
    if texts and len(texts) == len(parts) and all(isinstance(text, str) for text in texts):
        return "".join(map(str, texts))
    return content


def _chat(row: Value, mapping: ColumnMapping) -> Converted:
    column, tools = mapping.column("messages"), mapping.column("tools")
    found = _unpacked(row.get(column))
    made = Converted({"messages": found}, messages=path_of(column), tools=path_of(tools))
    if not isinstance(found, list) or not found:
        end = f"must be a list of messages; {_instead(row, column, found)}."
        made.faults.append((made.messages, RowCode.NO_MESSAGES, end))
        return made
    messages = _system_first(row, mapping, made, found[0])
    made.example["messages"] = messages + list(_chat_messages(found, made.messages, made))
    functions = row.get("functions")
    if not is_blank(declared := row.get(tools)):
        made.example["tools"] = _unpacked(declared)
        if functions and functions != _functions_of(made.example["tools"]):
            end = "stands beside tools and declares others; keep one list."
            made.faults.append(("functions", RowCode.BAD_TOOLS, end))
    elif functions is not None:
        made.example["tools"], made.tools = functions, "functions"
    return _with_rest(made, row, {column, tools, "functions", mapping.column("system")})


def _functions_of(tools: object) -> list[object]:
    return [tool.get("function", tool) for tool in tools] if are_objects(tools) else []


def _chat_messages(messages: Sequence[object], column: str, made: Converted) -> Iterator[object]:
    """Calls of the old form get ids made from their place, so that their answers find them."""
    waiting, called, places = None, None, made.places
    for n, message in enumerate(messages):
        whole = f"{column}[{n}]"
        if not isinstance(message, dict):
            places.append(Place(whole))
            yield message
            continue
        plain = plain_message(message)
        fields = {}
        call = plain.get("function_call")
        if call is not None and "tool_calls" not in plain:
            waiting, called = f"call_{n}", call.get("name") if isinstance(call, dict) else None
            plain["tool_calls"] = [{"id": waiting, "type": "function", "function": plain.pop("function_call")}]
            fields[CALL] = f"{whole}.function_call"
        elif call is not None:
            end = "stands beside tool_calls, and only those would be learned; keep one of them."
            made.faults.append((f"{whole}.function_call", RowCode.BAD_CALL, end))
        elif plain["role"] == "function":
            plain.update(role="tool", tool_call_id=waiting)
            if waiting is not None and plain.get("name") not in (None, called):
                end = f"is {show(plain['name'])}, and the call before it is of {show(called)}."
                made.faults.append((f"{whole}.name", RowCode.UNKNOWN_CALL, end))
        places.append(Place(whole, fields))
        yield plain


_SHAREGPT_ROLES = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "model", "chatgpt", "bot", "bing", "bard"), "assistant"),
    "system": "system",
    **dict.fromkeys(("function_call", "tool_call"), "call"),
    **dict.fromkeys(("observation", "tool", "tool_response", "function_response"), "tool"),
}


def _sharegpt(row: Value, mapping: ColumnMapping) -> Converted:
    column, tools = mapping.column("conversations"), mapping.column("tools")
    turns = _unpacked(row.get(column))
    made = Converted({"messages": []}, messages=path_of(column), tools=path_of(tools))
    if not isinstance(turns, list) or not turns:
        end = f"must be a list of turns; {_instead(row, column, turns)}."
        made.faults.append((made.messages, RowCode.NO_MESSAGES, end))
        return made
    messages = _system_first(row, mapping, made)
    waiting: list[str] = []
    for n, turn in enumerate(turns):
        whole = f"{made.messages}[{n}]"
        if not isinstance(turn, dict):
            messages.append(turn)
            made.places.append(Place(whole))
            continue
        role, value = ("role", "content") if "from" not in turn and "role" in turn else ("from", "value")
        fields = {"role": f"{whole}.{role}", **dict.fromkeys(("content", "tool_call"), f"{whole}.{value}")}
        made.places.append(Place(whole, fields, keeps_rest=False))
        messages.append(_sharegpt_message(turn, (role, value), made, waiting))
    made.example["messages"] = messages
    if not is_blank(declared := row.get(tools)):
        made.example["tools"] = _unpacked(declared)
    return _with_rest(made, row, {column, tools, mapping.column("system")})


def _sharegpt_message(turn: Value, names: tuple[str, str], made: Converted, waiting: list[str]) -> dict[str, object]:
    """`waiting` holds the ids of calls without an answer, oldest first."""
    whole, (role_name, value_name) = made.places[-1].whole, names
    said, value = turn.get(role_name), turn.get(value_name)
    role = _SHAREGPT_ROLES.get(said) if isinstance(said, str) else None
    rest = {key: value for key, value in turn.items() if key not in names and value is not None}
    if role is None:
        end = f"is {show(said)}; use one of {', '.join(_SHAREGPT_ROLES)}."
        made.faults.append((f"{whole}.{role_name}", RowCode.BAD_ROLE, end))
        role = "user"
    if role == "tool":
        return {"role": role, "content": value, **({"tool_call_id": waiting.pop(0)} if waiting else {}), **rest}
    if role != "call":
        return {"role": role, "content": value, **rest}
    calls = _unpacked(value)
    calls = calls if isinstance(calls, list) else [calls]
    waiting[:] = [f"call_{len(made.places) - 1}_{k}" for k in range(len(calls))]
    if not are_objects(calls):
        end = f"is {_kind(value)}, no JSON object with name and arguments."
        made.faults.append((f"{whole}.{value_name}", RowCode.BAD_CALL, end))
        waiting.clear()
        return {"role": "assistant", "content": "call", **rest}
    made_calls = [{"id": i, "type": "function", "function": c} for i, c in zip(waiting, calls, strict=True)]
    return {"role": "assistant", "content": None, "tool_calls": made_calls, **rest}


def _alpaca(row: Value, mapping: ColumnMapping) -> Converted:
    names = {name: mapping.column(name) for name in ("instruction", "input", "output", "system", "history")}
    made = Converted({"messages": []})
    messages = _system_first(row, mapping, made)
    history = _unpacked(row.get(names["history"]))
    if not is_blank(history) and not isinstance(history, list):
        end = f"is {_kind(history)}; it must be a list of [question, reply], or left out."
        made.faults.append((path_of(names["history"]), RowCode.BAD_MESSAGE, end))
    for n, pair in enumerate(history if isinstance(history, list) else ()):
        where = f"{path_of(names['history'])}[{n}]"
        if not isinstance(pair, list) or len(pair) != 2:
            made.faults.append((where, RowCode.BAD_MESSAGE, f"is {kind_of(pair)}; it must be [question, reply]."))
            continue
        _add(made, messages, "user", pair[0], f"{where}[0]")
        _add(made, messages, "assistant", pair[1], f"{where}[1]")
    question = _needed(row, names["instruction"], made)
    more = row.get(names["input"])
    if not is_blank(more) and not isinstance(more, str):
        made.faults.append((path_of(names["input"]), RowCode.BAD_CONTENT, f"is {kind_of(more)}; write it as one text."))
    elif isinstance(more, str) and more.strip() and isinstance(question, str):
        question = f"{question}\n\n{more}"
    _add(made, messages, "user", question, path_of(names["instruction"]))
    _add(made, messages, "assistant", row.get(names["output"]), path_of(names["output"]))
    made.example["messages"] = messages
    return _with_rest(made, row, set(names.values()))


def _prompt(row: Value, mapping: ColumnMapping) -> Converted:
    prompt, completion, tools = (mapping.column(name) for name in ("prompt", "completion", "tools"))
    made = Converted({"messages": []}, tools=path_of(tools))
    messages = _system_first(row, mapping, made)
    for column, role in ((prompt, "user"), (completion, "assistant")):
        value = row.get(column)
        if isinstance(value, list) and value:
            messages += _chat_messages(value, path_of(column), made)
        else:
            _add(made, messages, role, _needed(row, column, made) if role == "user" else value, path_of(column))
    made.example["messages"] = messages
    if not is_blank(declared := row.get(tools)):
        made.example["tools"] = _unpacked(declared)
    return _with_rest(made, row, {prompt, completion, tools, mapping.column("system")})


def path_of(column: str) -> str:
    return join("", column)


def _system_first(row: Value, mapping: ColumnMapping, made: Converted, first: object = None) -> list[object]:
    """The system text of a column of its own, unless it is that of the first message as well."""
    messages: list[object] = []
    column = mapping.column("system")
    text = _as_text(row.get(column))
    is_there = isinstance(first, dict) and plain_message(first) == {"role": "system", "content": text}
    if not is_blank(text) and not is_there:
        _add(made, messages, "system", text, path_of(column))
    return messages


def _add(made: Converted, messages: list[object], role: str, text: object, path: str) -> None:
    messages.append({"role": role, "content": text})
    made.places.append(Place(path, keeps_rest=False))


def _instead(row: Value, column: str, found: object) -> str:
    if column not in row:
        return f"the row holds {show_keys(row)}"
    return "it is an empty list" if found == [] else "it is null" if found is None else f"it is {_kind(found)}"


def _kind(value: object) -> str:
    """Its JSON type, and what keeps a text from being the list or object that it was meant as."""
    why = why_no_json(value) if isinstance(value, str) else ""
    return f"{kind_of(value)} ({why})" if why else kind_of(value)


def _needed(row: Value, column: str, made: Converted) -> object:
    """The value of a field without which there is no question; an empty text stands in for a missing one."""
    if is_blank(value := row.get(column)):
        end = f"is empty or missing; the row holds {show_keys(row)}."
        made.faults.append((path_of(column), RowCode.MISSING_FIELD, end))
        return ""
    return value


def _unpacked(value: object) -> object:
    """JSON inside a text, as other tools write lists into tables; a text that is no sound JSON stays."""
    if not isinstance(value, str):
        return value
    found = parse(value)
    return value if isinstance(found, tuple) or list(value_faults(found)) else found


def _with_rest(made: Converted, row: Value, used: set[str]) -> Converted:
    """Keys that no layout knows are kept, behind what is trained."""
    made.example |= {key: value for key, value in row.items() if key not in used and key not in made.example}
    return made


_CONVERTERS: Mapping[Layout, Callable[[Value, ColumnMapping], Converted]] = {
    Layout.CHAT: _chat,
    Layout.SHAREGPT: _sharegpt,
    Layout.ALPACA: _alpaca,
    Layout.PROMPT: _prompt,
}
