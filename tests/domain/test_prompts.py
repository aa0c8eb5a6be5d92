"""Prompts that a project pins."""

from __future__ import annotations

import pytest

from tensorant_app.domain.errors import Invalid
from tensorant_app.domain.prompts import read_prompts


def test_each_line_is_a_prompt_once_and_in_its_order() -> None:
    assert read_prompts("  Where is it?\n\nWho pays?\nWhere is it?\r\n") == ["Where is it?", "Who pays?"]
    assert read_prompts(" \n") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\n".join(map(str, range(9))), "At most 8 prompts can be pinned; these are 9"),
        ("a\n" + "b" * 2001, "Prompt 2 has 2,001"),
    ],
)
def test_too_many_or_too_long_are_refused_with_the_line(text: str, words: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read_prompts(text)

    assert words in refusal.value.fields["prompts"]
