"""Turns a row into the question that a model is asked, and its reply into an answer that can be scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainer.chat import encode_prompt, encode_reply
from trainer.contract import Answer
from trainer.data import Example
from trainer.errors import TrainerError
from trainer.generate import Question, Reply
from trainer.scores import exact_match, rouge_l, token_f1
from trainer.template import learned_places, plain_messages

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


LABEL_SLACK = 4
"""Tokens: a label may be cut differently after the prompt, and a stop token follows it."""


@dataclass(frozen=True, slots=True)
class Task:
    """A row as the model is asked it."""

    row: int
    expected: str
    question: Question


def answer_room(most: int, labels: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> int:
    """New tokens that an answer may have: with labels no more than the longest of them could need."""
    if not labels:
        return most
    longest = max(len(tokenizer(label, add_special_tokens=False)["input_ids"]) for label in labels)
    return min(most, longest + LABEL_SLACK)


def task_of(
    tokenizer: PreTrainedTokenizerBase,
    stops: frozenset[int],
    example: Example,
    labels: Sequence[str],
    max_new_tokens: int,
    context_length: int,
) -> Task:
    parsed = example.parse()
    messages, tools = parsed["messages"], parsed.get("tools")
    place = max(learned_places(messages), default=-1)
    if place < 1:
        raise TrainerError("row_error", text="", turn=0, reason="it has no assistant reply that answers something")
    before, reply = messages[:place], messages[place]
    prompt = encode_prompt(tokenizer, before, tools, stops)
    if len(prompt) + max_new_tokens > context_length:
        reason = f"its prompt of {len(prompt):,} tokens and {max_new_tokens:,} new ones exceed the context length"
        raise TrainerError("row_error", text="", turn=place, reason=f"{reason} of {context_length:,}")
    choices = [encode_reply(tokenizer, before, _says(label), stops, tools) for label in labels]
    expected = _expected(tokenizer, reply, encode_reply(tokenizer, before, reply, stops, tools))
    return Task(example.row, expected, Question(prompt, choices))


def answer_of(task: Task, reply: Reply, tokenizer: PreTrainedTokenizerBase, labels: Sequence[str]) -> Answer:
    answer = readable(tokenizer, reply.ids)
    likely = labels[max(range(len(labels)), key=reply.likelihoods.__getitem__)] if labels else None
    return Answer(
        row=task.row,
        expected=task.expected,
        answer=answer,
        exact=exact_match(task.expected, answer),
        f1=round(token_f1(task.expected, answer), 6),
        stopped=reply.stopped,
        likely=likely,
        likely_correct=None if likely is None else exact_match(task.expected, likely),
        rouge_l=round(rouge_l(task.expected, answer), 6),
    )


def readable(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    return _after_thought(str(tokenizer.decode(list(ids), skip_special_tokens=True)))


def _says(label: str) -> Mapping[str, Any]:
    return {"role": "assistant", "content": label}


def _expected(tokenizer: PreTrainedTokenizerBase, reply: Mapping[str, Any], ids: Sequence[int]) -> str:
    """A tool call is compared in the template's own words."""
    content = plain_messages([reply])[0]["content"]
    if reply.get("tool_calls") or not isinstance(content, str):
        return readable(tokenizer, ids)
    return _after_thought(content)


def _after_thought(text: str) -> str:
    return text.rpartition("</think>")[2].strip()
