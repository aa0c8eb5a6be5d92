"""Messages of a row as bubbles: their text, the tools they call and the images they hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tensorant_app.components.chats import Bubble, ToolCall
from tensorant_app.domain.examples import IMAGE_KINDS
from tensorant_app.domain.images import stored_images
from tensorant_app.domain.wording import count


def bubble_of(message: Mapping[str, Any]) -> Bubble:
    role = str(message.get("role", ""))
    is_trained = role == "assistant" and message.get("weight", 1) != 0
    name = f" · {message['name']}" if isinstance(message.get("name"), str) else ""
    content = message.get("content")
    return Bubble(role, role.capitalize() + name, words_of(content), is_trained, _calls(message), _images(content))


def pictured(message: Mapping[str, Any], address: Callable[[str], str]) -> Bubble:
    """The same with thumbnails; `address` says where the one of a stored image lies."""
    pictures = [address(name) for name in stored_images({"messages": [message]})]
    return replace(bubble_of(message), pictures=pictures, **({"images": []} if pictures else {}))


def snippet_of(messages: Sequence[Mapping[str, Any]], length: int) -> str:
    """The beginning of what is asked; of a question without words, how many images it holds."""
    asked = next((one for one in messages if one.get("role") == "user"), messages[0] if messages else {})
    words = " ".join(words_of(asked.get("content")).split())
    return words[:length] or (count(images, "image") if (images := len(_images(asked.get("content")))) else "")


def words_of(content: object) -> str:
    """A text, or the texts of its parts."""
    if isinstance(content, list):
        return "\n".join(str(part["text"]) for part in content if isinstance(part, dict) and "text" in part)
    return str(content) if content is not None else ""


def _calls(message: Mapping[str, Any]) -> list[ToolCall]:
    calls = message.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return [ToolCall(str(f.get("name", "")), _arguments(f.get("arguments"))) for f in functions if isinstance(f, dict)]


def _arguments(value: object) -> str:
    """As an object on several lines, where it is one."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return str(value)
    return json.dumps(found, ensure_ascii=False, indent=1) if found else ""


def _images(content: object) -> list[str]:
    """What each image is called; a picture that stands in the row itself has no name."""
    parts = content if isinstance(content, list) else []
    return [_image_name(part) for part in parts if isinstance(part, dict) and part.get("type") in IMAGE_KINDS]


def _image_name(part: Mapping[str, Any]) -> str:
    place = part.get("image_url", part.get("image", part.get("path", "")))
    place = place.get("url", "") if isinstance(place, dict) else place
    return "image in the row" if not isinstance(place, str) or place.startswith("data:") else place[-80:]
