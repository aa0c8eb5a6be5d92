"""Finds in a rendered conversation the tokens that the model must learn, and writes prompts in the very same way."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainer.template import (
    ADVICE_SYSTEM,
    SYSTEM_ROLES,
    Message,
    Template,
    learned_places,
    plain_messages,
    refused,
    rendered,
    template_of,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Span = tuple[int, int]


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
    is_whole: bool = False
    """The conversation as the template writes it, with all its replies."""
    image_tokens: int = 0
    """Tokens that its images take beyond the marks in `text`."""

    @property
    def trained_tokens(self) -> int:
        return sum(end - start for start, end in self.trained)


@dataclass(frozen=True, slots=True)
class _Turn:
    """One assistant message inside its rendered conversation."""

    place: int
    """Among the messages, from 0."""
    prompt: str
    whole: str
    """Up to the end of this turn."""
    cut: int
    """The character of `whole` with which the turn begins."""


def encode_example(
    tokenizer: PreTrainedTokenizerBase, example: Mapping[str, Any], eos_ids: Collection[int]
) -> list[Encoded]:
    """One sequence where the template keeps history as it was written, else one for each assistant turn."""
    template = template_of(tokenizer, frozenset(eos_ids))
    messages, tools = plain_messages(example["messages"]), example.get("tools")
    places = learned_places(messages)
    if not places:
        raise refused(len(messages) - 1, "there is no assistant reply to learn from")
    turns = [_render_turn(template, messages, tools, i) for i in places]
    _require_questions(messages[: places[-1]], turns[-1].whole)
    if tools:
        _require_tools(tools, turns[-1].whole)
    together = _as_one(template, turns)
    return [together] if together else [_alone(template, turn) for turn in turns]


def encode_prompt(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Message],
    tools: Sequence[Message] | None = None,
    eos_ids: Collection[int] = (),
) -> list[int]:
    """What the model reads before it answers; the very tokens that training put before the reply."""
    template = template_of(tokenizer, frozenset(eos_ids))
    return template.tokens(rendered(template, plain_messages(messages), tools, len(messages) + 1, prompt=True))


def encode_reply(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Message],
    reply: Message,
    eos_ids: Collection[int],
    tools: Sequence[Message] | None = None,
) -> list[int]:
    """The tokens, stop token last, that training would ask for as an answer to these messages."""
    template = template_of(tokenizer, frozenset(eos_ids))
    whole = plain_messages([*messages, reply])
    encoded = _alone(template, _render_turn(template, whole, tools, len(messages)))
    return [token for start, end in encoded.trained for token in encoded.ids[start:end]]


def switches_of(tokenizer: PreTrainedTokenizerBase) -> Mapping[str, bool]:
    """The template switches in use, to be recorded beside the adapter."""
    return template_of(tokenizer, frozenset()).switches


def _render_turn(template: Template, messages: Sequence[Message], tools: Sequence[Message] | None, place: int) -> _Turn:
    prompt = rendered(template, messages, tools, place, prompt=True)
    whole = rendered(template, messages, tools, place + 1)
    turn = _Turn(place, prompt, whole, _cut(prompt, whole, _reply_of(messages[place])))
    _require_content(messages[place], turn)
    return turn


def _cut(prompt: str, whole: str, reply: str) -> int:
    """Where the turn begins; a reply may begin with what the prompt goes on with, such as the "<" of "<think>"."""
    shared = _shared(prompt, whole)
    if shared == len(prompt) or reply in whole[shared:] or reply not in whole:
        return shared
    return min(shared, whole.rfind(reply))


def _require_content(message: Message, turn: _Turn) -> None:
    """Some templates drop what they don't know: a reply that isn't there would be learned as silence."""
    completion, place = turn.whole[turn.cut :], turn.place
    if _squeezed(_reply_of(message)) not in _squeezed(completion):
        raise refused(place, "this assistant reply could not be found in the model's chat template")
    for call in message.get("tool_calls") or ():
        if str(call["function"].get("name", "")) not in completion:
            raise refused(place, f"the model's chat template leaves out the tool call {call['function'].get('name')}")


def _require_questions(messages: Sequence[Message], whole: str) -> None:
    """Some templates write the first system text alone, or none: the others would be trained without, unnoticed."""
    for place, message in enumerate(messages):
        is_system = message.get("role") in SYSTEM_ROLES
        if (is_system or message.get("role") == "user") and not _holds(whole, message["content"]):
            what = f"system text{ADVICE_SYSTEM}" if is_system else "question"
            raise refused(place, f"the model's chat template leaves out this {what}")


def _holds(whole: str, content: object) -> bool:
    """Every text of it, but for white space and switches such as /no_think, which templates take out."""
    texts = [content] if isinstance(content, str) else [_text_of([part]) for part in _parts_of(content)]
    missing = [text for text in texts if text not in whole]
    written = _unswitched(whole) if missing else ""
    return all(_unswitched(text) in written for text in missing)


def _unswitched(text: str) -> str:
    return " ".join(word for word in text.split() if word not in ("/think", "/no_think"))


def _require_tools(tools: Sequence[Message], whole: str) -> None:
    for tool in tools:
        name = tool.get("function", tool).get("name", "")
        if name not in whole:
            raise refused(
                0, f"the model's chat template leaves out the tool {name}; choose a base model that knows tools"
            )


def _as_one(template: Template, turns: Sequence[_Turn]) -> Encoded | None:
    """All turns in one sequence, or None where that would not be what the model reads when it answers."""
    full = turns[-1].whole
    if not all(turn.whole.startswith(turn.prompt) and full.startswith(turn.whole) for turn in turns):
        return None
    ids = template.tokens(full)
    trained, spans = [], []
    for turn in turns:
        before = template.tokens(turn.prompt)
        upto = ids if turn.whole == full else template.tokens(turn.whole)
        end = _end_of_turn(template, upto, len(before))
        if ids[: len(before)] != before or ids[: len(upto)] != upto or end is None:
            return None
        trained.append((len(before), end))
        spans.append((len(turn.prompt), len(turn.whole.rstrip())))
    return Encoded(ids, trained, full, spans, is_whole=True)


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
    return "".join(str(part.get("text", "")) for part in _parts_of(content))


def _parts_of(content: object) -> list[Mapping[str, Any]]:
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, Sequence) else []


def _squeezed(text: str) -> str:
    return " ".join(text.split())
