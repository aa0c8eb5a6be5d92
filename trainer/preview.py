"""A conversation as the template renders it whole, what of that text is trained, and what the template did to it unasked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from trainer.chat import Encoded, Span
from trainer.template import QUESTION, REPLY, SYSTEM_ROLES, Message, Template, learned_places, plain_messages, rendered

MARK = "\u2603"
"""Stands for a text that is looked for; no template and hardly a conversation holds it."""
SHOWN = 60
_DATE_FORM = re.compile(r"""strftime_now\(\s*["']([^"']+)["']""")
_SPACE_AT_THE_ENDS = re.compile(r"^\s|\s$")


@dataclass(frozen=True, slots=True)
class Preview:
    """Where the template keeps history as it was written, this is the very sequence that is trained."""

    text: str
    tokens: int
    trained_tokens: int
    """Tokens of `text` that are trained. Sequences of their own may hold thinking that `text` no longer shows."""
    spans: tuple[Span, ...]
    """The trained ranges, in characters of `text`."""
    warnings: tuple[str, ...]


def preview(template: Template, example: Mapping[str, Any], sequences: Sequence[Encoded]) -> Preview:
    """Of a row that has been encoded: `sequences` are what the model reads of it."""
    messages, tools = plain_messages(example["messages"]), example.get("tools")
    places = learned_places(messages)
    last = places[-1]
    alone = sequences[0] if len(sequences) == 1 and sequences[0].is_whole else None
    text = alone.text if alone else rendered(template, messages, tools, last + 1)
    notes = tuple(warnings_of(template, messages[: last + 1], text, sequences))
    if alone:
        return Preview(text, len(alone.ids), alone.trained_tokens, tuple(alone.spans), notes)
    found = [_where(template, messages[: last + 1], tools, place, text) for place in places]
    encoding = template.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    spans = [_with_closing(template, encoding, span) for span in found if span]
    trained = sum(sum(start <= at < end for at, _ in encoding["offset_mapping"]) for start, end in spans)
    return Preview(text, len(encoding["input_ids"]), trained, tuple(spans), notes)


def _where(
    template: Template, messages: Sequence[Message], tools: Sequence[Message] | None, place: int, text: str
) -> Span | None:
    """What differs in the whole text once this reply says something else; the last turn begins with its prompt's end."""
    if messages[place].get("tool_calls"):
        prompt, whole = (
            rendered(template, messages, tools, place, prompt=True),
            rendered(template, messages, tools, place + 1),
        )
        written = whole[_alike(prompt, whole) :].rstrip()
        return (text.find(written), text.find(written) + len(written)) if written in text else None
    marked = [{**message, "content": MARK} if i == place else message for i, message in enumerate(messages)]
    other = rendered(template, marked, tools, len(marked))
    start = _alike(text, other)
    end = len(text) - _alike(text[start:][::-1], other[start:][::-1])
    prompt = rendered(template, messages, tools, place, prompt=True)
    if text.startswith(prompt):
        start = min(start, len(prompt))
    return (start, end) if start < end else None


def _with_closing(template: Template, encoding: Any, span: Span) -> Span:
    """The control token that closes the turn belongs to the reply."""
    start, end = span
    for token, (first, last) in zip(encoding["input_ids"], encoding["offset_mapping"], strict=True):
        if first >= end:
            closes = token in template.eos_ids or token in template.tokenizer.added_tokens_decoder
            return (start, last) if closes and first == end else span
    return span


def warnings_of(template: Template, messages: Sequence[Message], text: str, sequences: Sequence[Encoded]) -> list[str]:
    """Whole sentences; none of them is a reason to refuse the row."""
    notes = []
    added = "" if any(message["role"] in SYSTEM_ROLES for message in messages) else added_system(template)
    if added and added in text:
        notes.append(f'The template adds a system prompt that is not in the data: "{_short(added)}".')
    notes += _lost_thinking(messages, text, sequences)
    notes += _dates(template, text)
    notes += _changed_texts(messages, text)
    trained = sum(one.trained_tokens for one in sequences)
    if len(sequences) > 1:
        notes.append(
            f"The template writes an earlier reply otherwise once the conversation goes on, so each of the {len(sequences)} replies "
            f"is a sequence of its own, as the model meets it when it answers: {sum(len(one.ids) for one in sequences):,} tokens, "
            f"{trained:,} of them trained."
        )
    if any(len(one.text) > len(text) or not _ends_in(template, text) for one in sequences):
        notes.append("The template ends a reply without a stop token, so the tokenizer's own is added after it.")
    return notes


@lru_cache(maxsize=8)
def added_system(template: Template) -> str:
    """The text that the template puts before a conversation without a system message; empty where it puts none."""
    try:
        first = template.render([QUESTION], None, prompt=False)
        later = template.render([QUESTION, REPLY, QUESTION], None, prompt=False)
    except Exception:  # jinja raises whatever a template calls
        return ""
    head = first[: max(first.find("question"), 0)]
    between = later[later.rfind("probeword") + len("probeword") : later.rfind("question")]
    head = head[: len(head) - _alike(head[::-1], between[::-1])]
    for token in template.tokenizer.added_tokens_decoder.values():
        head = head.replace(token.content, "\n")
    lines = [line.strip() for line in head.splitlines()]
    lines = [line for line in lines if line and line.casefold() not in ("system", "user", "developer")]
    longest = max(lines, key=len, default="")
    return longest if " " in longest else ""


def _lost_thinking(messages: Sequence[Message], text: str, sequences: Sequence[Encoded]) -> list[str]:
    thoughts = [(i, thought) for i, message in enumerate(messages) if (thought := _thought(message))]
    lost = [i for i, thought in thoughts if thought not in text]
    if not lost:
        return []
    gone = [i for i, thought in thoughts if not any(thought in one.text for one in sequences)]
    fate = "their thinking is not trained" if gone else "it is trained only in the sequence of its own reply"
    return [
        f"The template drops {len(lost)} of the {len(thoughts)} think blocks ({_paths(lost)}) from the conversation; {fate}."
    ]


def _dates(template: Template, text: str) -> list[str]:
    forms = _DATE_FORM.findall(str(template.tokenizer.chat_template))
    if not any(datetime.now().strftime(form) in text for form in forms):  # the template reads the local clock too
        return []
    return ["The template writes the date of today into the prompt, so the same row reads otherwise on another day."]


def _changed_texts(messages: Sequence[Message], text: str) -> list[str]:
    trimmed, missing = [], []
    squeezed = " ".join(text.split())
    for i, message in enumerate(messages):
        content = message.get("content")
        if not isinstance(content, str) or not content.strip() or _thought(message):
            continue
        if _SPACE_AT_THE_ENDS.search(content) and content not in text:
            trimmed.append(i)
        elif " ".join(content.split()) not in squeezed:
            missing.append(i)
    notes = [f"The template trims the white space around the text of {_paths(trimmed)}."] if trimmed else []
    return notes + ([f"The text of {_paths(missing)} does not appear in the rendering."] if missing else [])


def _thought(message: Message) -> str:
    if message["role"] != "assistant":
        return ""
    if named := message.get("reasoning_content") or message.get("thinking"):
        return str(named).strip()
    content = message.get("content")
    if not isinstance(content, str) or "</think>" not in content:
        return ""
    return content.rpartition("</think>")[0].rpartition("<think>")[2].strip()


def _ends_in(template: Template, text: str) -> bool:
    tokenizer = template.tokenizer
    return any(text.rstrip().endswith(str(tokenizer.convert_ids_to_tokens(stop))) for stop in template.eos_ids)


def _paths(places: Sequence[int]) -> str:
    return ", ".join(f"messages[{place}]" for place in places)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
