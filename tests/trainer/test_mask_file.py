"""The check of a file of rows, with the right values of cases tp-01, tp-03, tp-05 and tp-07 on rows of our own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.tiny_base import make_tiny_tokenizer
from trainer.batching import pad_rows
from trainer.chat import encode_example
from trainer.mask_file import MaskedRow, mask_file

FORGETFUL = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are Moss, a helper.<|im_end|>\n{% endif %}"
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}{% set c = m.content %}"
    "{% if m.role == 'assistant' and loop.index0 < ns.last %}{% set c = c.split('</think>')[-1].lstrip('\n') %}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ c }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
STRICT = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('No system here') }}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Take turns') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKER = (
    "{% for m in messages %}{% if m.role == 'user' %}Q: {{ m.content }}{% else %}\nA: {{ m.content }}<|im_end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}\nA: {% endif %}"
)


def conversation(*texts: str, system: str | None = None, roles: Sequence[str] = ()) -> dict[str, Any]:
    turns = roles or [("user", "assistant")[i % 2] for i in range(len(texts))]
    messages = [{"role": role, "content": text} for role, text in zip(turns, texts, strict=True)]
    return {"messages": [{"role": "system", "content": system}, *messages] if system else messages}


def masked(folder: Path, template: str, rows: Sequence[dict[str, Any]], **more: Any) -> list[MaskedRow]:
    make_tiny_tokenizer(template).save_pretrained(folder / "tokenizer")
    file = folder / "rows.jsonl"
    file.write_text("\n\n".join(json.dumps(row) for row in rows) + "\n")
    return list(mask_file(file, folder / "tokenizer", context=more.pop("context", None), **more))


def test_thinking_that_a_template_forgets_is_counted_on_the_whole_text_and_kept_in_sequences_of_its_own(
    tmp_path: Path,
) -> None:
    rows = [
        conversation("2+3?", "<think>add</think>\n\n5", "and 1?", "<think>6</think>\n\n6"),
        conversation("4?", "<think>x</think>\n\nfour", system="Be brief."),
        conversation("7?", "seven"),
    ]

    thinking, system, plain = masked(tmp_path, FORGETFUL, rows)

    text = (
        "<|im_start|>system\nYou are Moss, a helper.<|im_end|>\n<|im_start|>user\n2+3?<|im_end|>\n<|im_start|>assistant\n5<|im_end|>\n"
        "<|im_start|>user\nand 1?<|im_end|>\n<|im_start|>assistant\n<think>6</think>\n\n6<|im_end|>\n"
    )
    assert (thinking.rendered_chars, thinking.rendered_sha256) == (
        len(text),
        hashlib.sha256(text.encode()).hexdigest(),
    )
    assert [text[start:end] for start, end in thinking.spans] == ["5<|im_end|>", "<think>6</think>\n\n6<|im_end|>"]
    assert thinking.trained_tokens == 2 + 20
    assert [trained for _, trained in thinking.sequences] == [22, 20]
    assert any("1 of the 2 think blocks (messages[1])" in warning for warning in thinking.warnings)
    assert any('"You are Moss, a helper."' in warning for warning in plain.warnings)
    assert (system.warnings, system.error) == ((), None)
    assert len(plain.warnings) == 1


def test_every_row_that_a_template_refuses_is_named_with_the_place_and_its_words(tmp_path: Path) -> None:
    rows = [
        conversation("tea?", "yes"),
        conversation("milk?", "no", system="One word."),
        conversation("a", "b", "c", roles=("user", "user", "assistant")),
        conversation("a", "b", "c", roles=("user", "assistant", "assistant")),
    ]

    _, system, users, assistants = masked(tmp_path, STRICT, rows)

    assert "Row 2, messages[0]" in str(system.error)
    assert "No system here" in str(system.error)
    assert "Row 3, messages[1]" in str(users.error)
    assert "Row 4, messages[2]" in str(assistants.error)
    assert "Take turns" in str(assistants.error)


def test_a_system_text_can_be_put_before_the_first_user_text(tmp_path: Path) -> None:
    (row,) = masked(tmp_path, STRICT, [conversation("milk?", "no", system="One word.")], merged=True)

    text = "<|im_start|>user\nOne word.\n\nmilk?<|im_end|>\n<|im_start|>assistant\nno<|im_end|>\n"
    assert (row.error, row.rendered_sha256) == (None, hashlib.sha256(text.encode()).hexdigest())


def test_the_stop_token_is_trained_although_it_is_also_the_filling(tmp_path: Path) -> None:
    rows = masked(tmp_path, MARKER, [conversation("hi", "yo"), conversation("a", "b", "c", "d")])

    assert [(row.tokens, row.trained_tokens) for row in rows] == [(11, 3), (18, 4)]


def test_a_row_longer_than_the_context_names_both_numbers_and_trimmed_space_is_told(tmp_path: Path) -> None:
    rows = [conversation("x" * 60, "y"), conversation("pad", "  z ")]

    long, padded = masked(tmp_path, STRICT, rows, context=64)

    assert long.error == f"Row 1 has {long.tokens} tokens, more than the context length of 64."
    assert any("trims the white space around the text of messages[1]" in warning for warning in padded.warnings)


def test_a_line_that_is_no_conversation_is_a_row_with_an_error(tmp_path: Path) -> None:
    rows = masked(tmp_path, STRICT, [{"text": "hello"}, conversation("only a question")])

    assert "is not a conversation" in str(rows[0].error)
    assert "there is no assistant reply" in str(rows[1].error)


def test_padding_with_the_stop_token_is_never_learned(tmp_path: Path) -> None:
    """Case tp-05: one right-padded batch in which the filling is the stop token."""
    tokenizer = make_tiny_tokenizer(MARKER)
    rows = [conversation("hi", "yo"), conversation("a", "b", "c", "d"), conversation("bye", "so long")]
    encoded = [one for row in rows for one in encode_example(tokenizer, row, frozenset({tokenizer.eos_token_id}))]

    batch = pad_rows(encoded)

    padding = sum(len(line) for line in batch.ids) - sum(len(one.ids) for one in encoded)
    real = {(line, at) for line, one in enumerate(encoded) for at in range(len(one.ids) - 1)}
    assert padding > 0
    assert len(batch.labels) == sum(one.trained_tokens for one in encoded) == 3 + 4 + 8
    assert batch.labels.count(tokenizer.eos_token_id) == 4
    assert set(batch.picks) <= real
