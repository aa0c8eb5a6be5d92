"""What one chat example may hold, and where exactly it is at fault.

Layouts other than chat are turned into chat first (`conversions.py`). Keys that are not known here are kept as they
are; training ignores them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tensorant_app.domain.data_codes import RowCode
from tensorant_app.domain.json_text import parse, why_no_json
from tensorant_app.domain.json_values import Fault, are_objects, is_blank, kind_of, show, value_faults

ROLES = ("system", "user", "assistant", "tool")
"""`developer` and `function` are other names of the first and the last."""

Message = Mapping[str, object]


def faults_of(example: Mapping[str, object], *, with_images: bool = False) -> Iterator[Fault]:
    """Every reason why the example cannot be trained, not only the first; what any value may hold is looked at before."""
    messages = example.get("messages")
    if not isinstance(messages, list) or not messages:
        return  # named by the conversion
    for n, message in enumerate(messages):
        if isinstance(message, dict):
            yield from _message_faults(f"messages[{n}]", message, with_images)
        else:
            end = f"is {kind_of(message)}; it must be an object with a role and content (from and value in ShareGPT)."
            yield f"messages[{n}]", RowCode.BAD_MESSAGE, end
    if not with_images and (images := example.get("images")) not in (None, "", []):
        count = len(images) if isinstance(images, list) else 1
        what = "is an image" if count == 1 else f"holds {count} images"
        yield "images", RowCode.IMAGE_IN_TEXT, f"{what}, and this is a text project; choose a vision model."
    yield from _reply_faults([message if isinstance(message, dict) else {} for message in messages])
    tools = example.get("tools")
    faults = [*_tool_faults(tools)]
    yield from faults
    if are_objects(messages):
        is_known = tools is not None and not faults
        yield from _call_faults(messages, [name for _, name in _names_of(tools)] if is_known else None)


def _message_faults(path: str, message: Message, with_images: bool) -> Iterator[Fault]:
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
    if role not in ROLES:
        yield f"{path}.role", RowCode.BAD_ROLE, f"is {show(role)}; use one of system, developer, user, assistant, tool."
    weight = message.get("weight")
    if weight is not None and (isinstance(weight, bool) or weight not in (0, 1)):
        yield f"{path}.weight", RowCode.BAD_WEIGHT, f"is {show(weight)}; it may be 0 (not learned) or 1."
    if role == "assistant" and (is_blank(content) or content == []):
        if not calls:
            what = "is missing or null" if content is None else "is empty"
            yield f"{path}.content", RowCode.EMPTY_REPLY, f"{what}, and nothing is called; write the reply to learn."
    elif content == []:
        yield f"{path}.content", RowCode.BAD_CONTENT, "is an empty list; write a text, or remove the message."
    elif isinstance(content, list):
        yield from _part_faults(f"{path}.content", content, with_images)
    elif not isinstance(content, str):
        yield f"{path}.content", RowCode.BAD_CONTENT, f"is {kind_of(content)}; write it as one text."
    if calls is not None and not are_objects(calls):
        end = "must be a list of objects; remove it where nothing is called."
        yield f"{path}.tool_calls", RowCode.BAD_CALL, end
    elif calls and role != "assistant":
        yield f"{path}.tool_calls", RowCode.BAD_CALL, "stands in a message that is not the assistant's; remove it."


def _part_faults(path: str, parts: Sequence[object], with_images: bool) -> Iterator[Fault]:
    for n, part in enumerate(parts):
        where, kind = f"{path}[{n}]", part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part, dict) and isinstance(part.get("text"), str):
            continue
        if kind not in IMAGE_KINDS:
            yield where, RowCode.BAD_CONTENT, 'is no part that can be trained; write {"type": "text", "text": "..."}.'
        elif not with_images:
            yield where, RowCode.IMAGE_IN_TEXT, "is an image, and this is a text project; choose a vision model."


IMAGE_KINDS = ("image_url", "image", "input_image")


def _reply_faults(messages: Sequence[Message]) -> Iterator[Fault]:
    roles = [message.get("role") for message in messages]
    last = len(messages) - 1
    first = next((n for n, role in enumerate(roles) if role != "system"), None)
    if first is not None and roles[first] == "assistant":
        end = "is the assistant's, before anybody asked; begin with the user's message."
        yield f"messages[{first}].role", RowCode.BAD_ORDER, end
    replies = [message for message in messages if message.get("role") == "assistant"]
    if not replies:
        yield "messages", RowCode.NO_REPLY, "holds no message of the assistant, so there is no reply to learn."
    elif roles[last] != "assistant":
        end = "must be the assistant's reply; remove what follows the last one."
        yield f"messages[{last}]", RowCode.LAST_NOT_REPLY, end
    elif all(message.get("weight") == 0 for message in replies):
        yield "messages", RowCode.NO_TRAINED_REPLY, "holds no trained reply: the weight of every one is 0."


def _tool_faults(tools: object) -> Iterator[Fault]:
    if tools is not None and not isinstance(tools, list):
        why = why_no_json(tools) if isinstance(tools, str) else ""
        end = f"is {kind_of(tools)}{f' ({why})' if why else ''}; it must be a list of objects, each with a name of its own."
        yield "tools", RowCode.BAD_TOOLS, end
        return
    names = [*_names_of(tools)]
    for path, name in names:
        if not isinstance(name, str) or not name:
            what = "has no text" if path.endswith("name") else "is no object"
            yield path, RowCode.BAD_TOOLS, f"{what}; each tool is an object with a name of its own."
    twice = next((name for name, times in Counter(str(name) for _, name in names if name).items() if times > 1), None)
    if twice is not None:
        yield "tools", RowCode.BAD_TOOLS, f"holds {show(twice)} twice; each tool needs a name of its own."


def _names_of(tools: object) -> Iterator[tuple[str, object]]:
    """Place and name of each declared tool; None for the name where there is none."""
    for n, tool in enumerate(tools if isinstance(tools, list) else ()):
        function = tool.get("function", tool) if isinstance(tool, dict) else None
        if isinstance(function, dict):
            yield f"tools[{n}].function.name" if "function" in tool else f"tools[{n}].name", function.get("name")
        else:
            yield f"tools[{n}]", None


def _call_faults(messages: Sequence[Message], known: Sequence[object] | None) -> Iterator[Fault]:
    """Calls against the declared tools, None where they are not known, and answers against the calls before them."""
    waiting: list[object] = []
    before: Message = {}
    for n, message in enumerate(messages):
        path, role, calls = f"messages[{n}]", message.get("role"), message.get("tool_calls")
        if role == "tool":
            if waiting or not _calls_in_text(before):
                yield from _answer_faults(path, message.get("tool_call_id"), waiting)
            continue
        before, waiting = message, []
        for k, call in enumerate(calls if are_objects(calls) else ()):
            waiting.append(call.get("id"))
            yield from _one_call(f"{path}.tool_calls[{k}].function", call.get("function"), known)


_CALL_IN_TEXT = re.compile(
    r"<tool_call>|<function[=_>]|\[TOOL_CALLS\]|<\|python_tag\|>|\A\s{0,9}\[\s{0,9}[A-Za-z][\w .-]{0,99}\("
)
"""Some datasets write a call as models do, inside of the reply's text; what answers it has no id then."""


def _calls_in_text(message: Message) -> bool:
    is_reply = message.get("role") == "assistant" and not message.get("tool_calls")
    return is_reply and _CALL_IN_TEXT.search(str(message.get("content"))) is not None


def _answer_faults(path: str, answers: object, waiting: list[object]) -> Iterator[Fault]:
    """Takes the answered call off the list."""
    if not waiting:
        yield f"{path}.role", RowCode.BAD_ORDER, "is tool, but no call waits for an answer here."
    elif answers is None and any(call is not None for call in waiting):
        yield f"{path}.tool_call_id", RowCode.UNKNOWN_CALL, "is missing; name the call that this result answers."
    elif answers is not None and answers not in waiting and any(call is not None for call in waiting):
        end = f"is {show(answers)}, and no call before it that waits has this id."
        yield f"{path}.tool_call_id", RowCode.UNKNOWN_CALL, end
    else:
        waiting.remove(answers if answers in waiting else waiting[0])


def _one_call(path: str, function: object, known: Sequence[object] | None) -> Iterator[Fault]:
    if not isinstance(function, dict) or not isinstance(name := function.get("name"), str) or not name.strip():
        yield path, RowCode.BAD_CALL, "must be an object with the function's name."
        return
    if not _is_json_object(given := function.get("arguments")):
        why = why_no_json(given) if isinstance(given, str) else ""
        end = f"is not a JSON object, nor one written as text{f' ({why})' if why else ''}."
        yield f"{path}.arguments", RowCode.BAD_CALL, end
    if known is not None and name not in known:
        end = f"is {show(name)}, which is not among the tools."
        yield f"{path}.name", RowCode.UNKNOWN_TOOL, end


def _is_json_object(value: object) -> bool:
    """Arguments may be left out where a function takes none."""
    if isinstance(value, str) and value.strip():
        value = parse(value)
        return isinstance(value, dict) and not list(value_faults(value))
    return value in (None, "") or isinstance(value, dict)
