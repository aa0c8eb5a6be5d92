"""All chat templates that TRL ships, on both kinds of tokenizers: what is learned is what the model must write."""

from __future__ import annotations

import re

import pytest

from tests.trainer.corpus import CONVERSATIONS, TEMPLATES, TOKENIZERS
from trainer.chat import encode_example, encode_prompt
from trainer.errors import TrainerError
from trainer.preview import preview
from trainer.template import plain_messages, template_of

REFUSED = {
    "cohere": {"tools"},
    "cohere2": {"tools"},
    "deepseek_r1_distill": {"tools"},
    "gemma": {"system", "tools"},
    "gemma3": {"tools"},
    "idefics3": {"tools"},
    "lfm2": {"tools"},
    "llama3": {"tools"},
    "llava_next": {"tools"},
    "phi3": {"tools"},
    "phi3_5": {"tools"},
    "qwen2_5_vl": {"tools"},
    "smolvlm": {"tools"},
}
"""Templates that have no word for a tool or a system text: the row is named instead of being learned without them."""


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template(name: str, kind: str) -> None:
    tokenizer = TOKENIZERS[kind](TEMPLATES[name])
    stops = frozenset({tokenizer.eos_token_id})
    refused = set()

    for title, example in CONVERSATIONS.items():
        try:
            sequences = encode_example(tokenizer, example, stops)
        except TrainerError:
            refused.add(title)
            continue
        replies = [m for m in plain_messages(example["messages"]) if m["role"] == "assistant"]
        learned = [tokenizer.decode(one.ids[start:end]) for one in sequences for start, end in one.trained]
        assert len(learned) == len(replies), title
        for text, reply in zip(learned, replies, strict=True):
            after_thought = " ".join(str(reply["content"]).rpartition("</think>")[2].split())
            assert after_thought in " ".join(text.split()), title
            for call in reply.get("tool_calls", ()):
                assert call["function"]["name"] in text
        assert all(one.ids[end - 1] in stops for one in sequences for _, end in one.trained), title
        _require_inference_prompts(tokenizer, example, sequences)
        seen = preview(template_of(tokenizer, stops), example, sequences)
        assert seen.tokens > seen.trained_tokens
        if not example.get("tools"):
            for (start, end), reply in zip(seen.spans, replies, strict=False):
                assert str(reply["content"]).rpartition("</think>")[2].strip() in seen.text[start:end]

    assert refused == REFUSED.get(name, set())


def _require_inference_prompts(tokenizer, example, sequences) -> None:  # type: ignore[no-untyped-def]
    """What stands before a reply is what the model reads; at most a thought that the prompt began is left to the reply."""
    places = [i for i, m in enumerate(example["messages"]) if m["role"] == "assistant"]
    starts = [(one, start) for one in sequences for start, _ in one.trained]
    for place, (one, start) in zip(places, starts, strict=True):
        prompt = encode_prompt(tokenizer, example["messages"][:place], example.get("tools"), [tokenizer.eos_token_id])
        assert one.ids.count(tokenizer.bos_token_id) <= 1
        assert one.ids[:start] == prompt[:start]
        assert not re.sub(r"think|[<>/\s]", "", tokenizer.decode(prompt[start:]))
