"""The only code that knows chat templates: renders a conversation and finds the tokens that the model must learn."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from trainer.errors import TrainerError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Span = tuple[int, int]
Message = Mapping[str, Any]
SWITCHES: tuple[Mapping[str, bool], ...] = ({}, {"enable_thinking": False}, {"thinking": False})
"""Tried in this order until a prompt is the beginning of its conversation; the same one is used in evaluation."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """One sequence as the model sees it, with what it learns from it."""

    ids: list[int]
    trained: list[Span]
    """Ranges of token positions."""
    text: str
    """What the template rendered."""
    spans: list[Span]
    """The trained ranges, in characters of `text`."""
    row: int = 0
    """The row in the imported file."""

    @property
    def trained_tokens(self) -> int:
        return sum(end - start for start, end in self.trained)


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


@dataclass(frozen=True, slots=True)
class _Turn:
    """One assistant message inside its rendered conversation."""

    number: int
    """Its place among the messages, from 1."""
    prompt: str
    whole: str
    """Up to the end of this turn."""
    cut: int
    """The character of `whole` with which the turn begins."""


def encode_example(
    tokenizer: PreTrainedTokenizerBase, example: Mapping[str, Any], eos_ids: Collection[int]
) -> list[Encoded]:
    """One sequence where the template keeps history as it was written, else one for each assistant turn."""
    template = _template(tokenizer, frozenset(eos_ids))
    messages, tools = plain_messages(example["messages"]), example.get("tools")
    places = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    if not places:
        raise _refused(1, "there is no assistant reply, so there is nothing to learn from it")
    turns = [_render_turn(template, messages, tools, i) for i in places]
    if tools:
        _require_tools(tools, turns[-1].whole)
    together = _as_one(template, _rendered(template, messages, tools, places[-1] + 1), turns)
    return [together] if together else [_alone(template, turn) for turn in turns]


def encode_prompt(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Message],
    tools: Sequence[Message] | None = None,
    eos_ids: Collection[int] = (),
) -> list[int]:
    """What the model reads before it answers; the very tokens that training put before the reply."""
    template = _template(tokenizer, frozenset(eos_ids))
    return template.tokens(_rendered(template, plain_messages(messages), tools, len(messages) + 1, prompt=True))


def encode_reply(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Message],
    reply: Message,
    eos_ids: Collection[int],
    tools: Sequence[Message] | None = None,
) -> list[int]:
    """The tokens, stop token last, that training would ask for as an answer to these messages."""
    template = _template(tokenizer, frozenset(eos_ids))
    whole = plain_messages([*messages, reply])
    encoded = _alone(template, _render_turn(template, whole, tools, len(messages)))
    return [token for start, end in encoded.trained for token in encoded.ids[start:end]]


def switches_of(tokenizer: PreTrainedTokenizerBase) -> Mapping[str, bool]:
    """The template switches in use, to be recorded beside the adapter."""
    return _template(tokenizer, frozenset()).switches


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


@lru_cache(maxsize=8)
def _template(tokenizer: PreTrainedTokenizerBase, eos_ids: frozenset[int]) -> Template:
    """Chosen with a probe, not by row: evaluation sees no reply and must make the same choice."""
    user, reply = {"role": "user", "content": "question"}, {"role": "assistant", "content": "answer"}
    for switches in SWITCHES:
        template = Template(tokenizer, eos_ids, switches)
        with suppress(Exception):  # a template's own refusal of the probe; real rows will tell
            prompt = template.render([user], None, prompt=True)
            if template.render([user, reply], None, prompt=False).startswith(prompt):
                return template
    return Template(tokenizer, eos_ids)


def _rendered(
    template: Template, messages: Sequence[Message], tools: Sequence[Message] | None, upto: int, *, prompt: bool = False
) -> str:
    try:
        return template.render(messages[:upto], tools, prompt=prompt)
    except Exception as error:  # jinja raises whatever a template calls; its text is what helps
        advice = "; merge the system text into the first user message" if "system" in str(error).lower() else ""
        raise _refused(min(upto, len(messages)), f"the model's chat template refuses it ({error}){advice}") from error


def _render_turn(template: Template, messages: Sequence[Message], tools: Sequence[Message] | None, place: int) -> _Turn:
    prompt = _rendered(template, messages, tools, place, prompt=True)
    whole = _rendered(template, messages, tools, place + 1)
    turn = _Turn(place + 1, prompt, whole, _cut(prompt, whole, _reply_of(messages[place])))
    _require_content(messages[place], turn)
    return turn


def _cut(prompt: str, whole: str, reply: str) -> int:
    """Where the turn begins; a reply may begin with what the prompt goes on with, such as the "<" of "<think>"."""
    shared = _shared(prompt, whole)
    return shared if shared == len(prompt) or reply in whole[shared:] else min(shared, whole.rfind(reply) % len(whole))


def _require_content(message: Message, turn: _Turn) -> None:
    """Some templates drop what they don't know: a reply that isn't there would be learned as silence."""
    completion, number = turn.whole[turn.cut :], turn.number
    if _squeezed(_reply_of(message)) not in _squeezed(completion):
        raise _refused(number, "this assistant reply could not be found in the model's chat template")
    for call in message.get("tool_calls") or ():
        if str(call["function"].get("name", "")) not in completion:
            raise _refused(number, f"the model's chat template leaves out the tool call {call['function'].get('name')}")


def _require_tools(tools: Sequence[Message], whole: str) -> None:
    for tool in tools:
        name = tool.get("function", tool).get("name", "")
        if name not in whole:
            raise _refused(
                1, f"the model's chat template leaves out the tool {name}; choose a base model that knows tools"
            )


def _as_one(template: Template, full: str, turns: Sequence[_Turn]) -> Encoded | None:
    """All turns in one sequence, or None where that would not be what the model reads when it answers."""
    ids = template.tokens(full)
    trained, spans = [], []
    for turn in turns:
        if not (turn.whole.startswith(turn.prompt) and full.startswith(turn.whole)):
            return None
        before = template.tokens(turn.prompt)
        upto = ids if turn.whole == full else template.tokens(turn.whole)
        end = _end_of_turn(template, upto, len(before))
        if ids[: len(before)] != before or ids[: len(upto)] != upto or end is None:
            return None
        trained.append((len(before), end))
        spans.append((len(turn.prompt), len(turn.whole.rstrip())))
    return Encoded(ids, trained, full, spans)


def _alone(template: Template, turn: _Turn) -> Encoded:
    """One turn as a sequence of its own, which always ends in a stop token."""
    ids, start = _joined(template, turn)
    end = _end_of_turn(template, ids, start)
    text = turn.whole.rstrip()
    if end is None:
        ids = [*_without_trailing_space(template, ids, start), template.stop]
        text, end = text + str(template.tokenizer.convert_ids_to_tokens(template.stop)), len(ids)
    return Encoded(ids[:end], [(start, end)], text, [(turn.cut, len(text))])


def _joined(template: Template, turn: _Turn) -> tuple[list[int], int]:
    """The turn's tokens and the position of the first one to learn."""
    prompt, whole = template.tokens(turn.prompt), template.tokens(turn.whole)
    if not turn.whole.startswith(turn.prompt):
        # In tokens, not characters: a shared "<" of two different special tokens belongs to both.
        return whole, min(_shared(prompt, whole), _shared(template.tokens(turn.whole[: turn.cut]), whole))
    if whole[: len(prompt)] == prompt:
        return whole, len(prompt)
    # A token straddles the border, and the model will never see it when it answers.
    return prompt + template.tokens(turn.whole[len(turn.prompt) :]), len(prompt)


def _end_of_turn(template: Template, ids: Sequence[int], start: int) -> int | None:
    """Just after the stop token that ends the turn: what follows it is never generated. None where there is none."""
    kept = _without_trailing_space(template, ids, start)
    return len(kept) if len(kept) > start and kept[-1] in template.eos_ids else None


def _without_trailing_space(template: Template, ids: Sequence[int], start: int) -> list[int]:
    end = len(ids)
    while end > start and ids[end - 1] not in template.eos_ids and not template.readable(ids[end - 1]).strip():
        end -= 1
    return list(ids[:end])


def _shared(one: Sequence[object], other: Sequence[object]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _reply_of(message: Message) -> str:
    """The reply's text without its thoughts."""
    return _text_of(message["content"]).rpartition("</think>")[2].strip()


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _refused(number: int, reason: str) -> TrainerError:
    return TrainerError("row_error", text=f"Message {number}: {reason}.", turn=number, reason=reason)
