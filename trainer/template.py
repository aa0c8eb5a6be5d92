"""A tokenizer's chat template: how a conversation becomes text, and text becomes tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from trainer.errors import TrainerError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = Mapping[str, Any]
SWITCHES: tuple[Mapping[str, bool], ...] = ({}, {"enable_thinking": False}, {"thinking": False})
"""Tried in this order until a prompt is the beginning of its conversation; the same one is used in evaluation."""
SYSTEM_ROLES = ("system", "developer")
ADVICE_SYSTEM = "; the system text can be put before the first user text instead (merge_system)"
QUESTION: Message = {"role": "user", "content": "question"}
REPLY: Message = {"role": "assistant", "content": "probeword"}
CALL: Message = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "call00001", "type": "function", "function": {"name": "probeword", "arguments": {}}}],
}


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A tokenizer's chat template with the switches that make its prompts beginnings of its conversations."""

    tokenizer: PreTrainedTokenizerBase
    eos_ids: frozenset[int]
    switches: Mapping[str, bool] = field(default_factory=dict)
    in_parts: bool = False
    """A vision model's template reads a list of parts where others read a text."""
    quotes_arguments: bool = False
    """The template writes a tool call's arguments as they are, so they are handed over as JSON text."""

    def render(
        self, messages: Sequence[Message], tools: Sequence[Message] | None, *, prompt: bool, **more: object
    ) -> str:
        options: dict[str, Any] = {"tools": list(tools) if tools else None, "tokenize": False, **self.switches, **more}
        conversation: list[Any] = [self._shaped(message) for message in messages]
        return str(self.tokenizer.apply_chat_template(conversation, add_generation_prompt=prompt, **options))

    def _shaped(self, message: Message) -> Message:
        if self.in_parts and isinstance(message.get("content"), str):
            message = {**message, "content": [{"type": "text", "text": message["content"]}]}
        if self.quotes_arguments and message.get("tool_calls"):
            message = {**message, "tool_calls": [_with_text_arguments(call) for call in message["tool_calls"]]}
        return message

    def tokens(self, text: str) -> list[int]:
        """Without special tokens: the template has written them, a second beginning-of-text would be wrong."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def readable(self, token: int) -> str:
        return str(self.tokenizer.decode([token]))

    @property
    def stop(self) -> int:
        own = self.tokenizer.eos_token_id
        return int(own) if own is not None else min(self.eos_ids)


@lru_cache(maxsize=8)
def template_of(tokenizer: PreTrainedTokenizerBase, eos_ids: frozenset[int]) -> Template:
    """Chosen with probes, not by row: evaluation sees no reply and must make the same choice."""
    template = Template(tokenizer, eos_ids)
    template = replace(
        template, in_parts=_shows(template, REPLY) is not True and _shows(_parts(template), REPLY) is True
    )
    quoting = replace(template, quotes_arguments=True)
    if _shows(template, CALL) is None and _shows(quoting, CALL) is True:
        template = quoting
    for switches in SWITCHES:
        switched = replace(template, switches=switches)
        with suppress(Exception):  # a template's own refusal of the probe; real rows will tell
            prompt = switched.render([QUESTION], None, prompt=True)
            if switched.render([QUESTION, REPLY], None, prompt=False).startswith(prompt):
                return switched
    return template


def _parts(template: Template) -> Template:
    return replace(template, in_parts=True)


def _shows(template: Template, reply: Message) -> bool | None:
    """Whether the probe's word is in the rendered text; None where the template refuses it."""
    try:
        return "probeword" in template.render([QUESTION, reply], None, prompt=False)
    except Exception:  # jinja raises whatever a template calls
        return None


def _with_text_arguments(call: Message) -> Message:
    function = dict(call.get("function", {}))
    if not isinstance(function.get("arguments"), str):
        function["arguments"] = json.dumps(function.get("arguments", {}), ensure_ascii=False)
    return {**call, "function": function}


def merge_system(messages: Sequence[Message]) -> list[Message]:
    """The system text before the first user text, for templates without a system role."""
    texts = [_plain_text(message.get("content", "")) for message in messages if message.get("role") in SYSTEM_ROLES]
    rest = [message for message in messages if message.get("role") not in SYSTEM_ROLES]
    first = next((i for i, message in enumerate(rest) if message.get("role") == "user"), None)
    if not texts or first is None:
        return list(messages)
    content = rest[first].get("content", "")
    if isinstance(content, list):
        merged: object = [{"type": "text", "text": "\n\n".join([*texts, ""])}, *content]
    else:
        merged = "\n\n".join([*texts, str(content)])
    rest[first] = {**rest[first], "content": merged}
    return rest


def _plain_text(content: object) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def rendered(
    template: Template, messages: Sequence[Message], tools: Sequence[Message] | None, upto: int, *, prompt: bool = False
) -> str:
    try:
        return template.render(messages[:upto], tools, prompt=prompt)
    except Exception as error:  # jinja raises whatever a template calls; its text is what helps
        place = _guilty(template, messages[:upto], tools, str(error))
        advice = ADVICE_SYSTEM if messages[place].get("role") in SYSTEM_ROLES else ""
        raise refused(place, f"the model's chat template refuses it ({error}){advice}") from error


def _guilty(template: Template, messages: Sequence[Message], tools: Sequence[Message] | None, words: str) -> int:
    """The first message with which the template says the same words."""
    for count in range(1, len(messages)):
        try:
            template.render(messages[:count], tools, prompt=False)
        except Exception as error:
            if str(error) == words:
                return count - 1
    return len(messages) - 1


def plain_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Templates write a tool call's arguments as JSON; given JSON text they would quote it twice."""
    return [_plain_message(message) for message in messages]


def _plain_message(message: Message) -> dict[str, Any]:
    plain = {key: value for key, value in message.items() if value is not None}
    plain.setdefault("content", "")
    if calls := plain.get("tool_calls"):
        plain["tool_calls"] = [_plain_call(call) for call in calls]
    return plain


def _plain_call(call: Message) -> dict[str, Any]:
    function = dict(call.get("function", {}))
    if isinstance(function.get("arguments"), str):
        with suppress(ValueError):  # not JSON after all: the template gets what the row holds
            function["arguments"] = json.loads(function["arguments"] or "{}")
    return {**call, "function": function}


def learned_places(messages: Sequence[Message]) -> list[int]:
    """Where the assistant's replies stand; one with weight 0 is read and not learned."""
    return [i for i, m in enumerate(messages) if m["role"] == "assistant" and m.get("weight") != 0]


def refused(place: int, reason: str) -> TrainerError:
    """`place` counts from 0, as the message's path in the row's JSON does."""
    return TrainerError("row_error", text=f"messages[{place}]: {reason}.", turn=place, reason=reason)
