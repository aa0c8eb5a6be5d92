"""A tokenizer's chat template: how a conversation becomes text, and text becomes tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from trainer.errors import TrainerError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = Mapping[str, Any]
SWITCHES: tuple[Mapping[str, bool], ...] = ({}, {"enable_thinking": False}, {"thinking": False})
"""Tried in this order until a prompt is the beginning of its conversation; the same one is used in evaluation."""


@dataclass(frozen=True, slots=True)
class Template:
    """A tokenizer's chat template with the switches that make its prompts beginnings of its conversations."""

    tokenizer: PreTrainedTokenizerBase
    eos_ids: frozenset[int]
    switches: Mapping[str, bool] = field(default_factory=dict)

    def render(self, messages: Sequence[Message], tools: Sequence[Message] | None, *, prompt: bool) -> str:
        options: dict[str, Any] = {"tools": list(tools) if tools else None, "tokenize": False, **self.switches}
        conversation: list[Any] = list(messages)
        return str(self.tokenizer.apply_chat_template(conversation, add_generation_prompt=prompt, **options))

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
    """Chosen with a probe, not by row: evaluation sees no reply and must make the same choice."""
    user, reply = {"role": "user", "content": "question"}, {"role": "assistant", "content": "answer"}
    for switches in SWITCHES:
        template = Template(tokenizer, eos_ids, switches)
        with suppress(Exception):  # a template's own refusal of the probe; real rows will tell
            prompt = template.render([user], None, prompt=True)
            if template.render([user, reply], None, prompt=False).startswith(prompt):
                return template
    return Template(tokenizer, eos_ids)


def rendered(
    template: Template, messages: Sequence[Message], tools: Sequence[Message] | None, upto: int, *, prompt: bool = False
) -> str:
    try:
        return template.render(messages[:upto], tools, prompt=prompt)
    except Exception as error:  # jinja raises whatever a template calls; its text is what helps
        advice = "; merge the system text into the first user message" if "system" in str(error).lower() else ""
        raise refused(min(upto, len(messages)), f"the model's chat template refuses it ({error}){advice}") from error


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


def refused(number: int, reason: str) -> TrainerError:
    return TrainerError("row_error", text=f"Message {number}: {reason}.", turn=number, reason=reason)
