"""What the model learns is exactly what it would have to write, whatever the chat template does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tiny_base import CHATML, make_tiny_tokenizer
from trainer.chat import Encoded, encode_example, encode_prompt, encode_reply, switches_of
from trainer.errors import TrainerError
from trainer.template import merge_system

IM_END = 2
STOPS = frozenset({IM_END})
HELLO = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
TWO_TURNS = [
    {"role": "system", "content": "Be kind."},
    *HELLO,
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "again"},
]
THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and not loop.last %}{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TRIMMING = CHATML.replace("message['content']", "message['content'] | trim")
WITHOUT_STOP = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
NO_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + CHATML
)
SWITCHED = CHATML.replace(
    "{% if add_generation_prompt %}<|im_start|>assistant\n",
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is not false %}<think>\n{% endif %}",
)
ALWAYS_THINKING = CHATML.replace(
    "{% if add_generation_prompt %}<|im_start|>assistant\n",
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n",
)


def encode(template: str, messages: list[dict[str, Any]], **more: Any) -> list[Encoded]:
    return encode_example(make_tiny_tokenizer(template), {"messages": messages, **more}, STOPS)


def learned(encoded: Encoded, template: str = CHATML) -> list[str]:
    tokenizer = make_tiny_tokenizer(template)
    return [tokenizer.decode(encoded.ids[start:end]) for start, end in encoded.trained]


def test_chatml_learns_the_reply_and_its_stop_token_but_not_the_newline_after_it() -> None:
    (one,) = encode(CHATML, HELLO)

    assert learned(one) == ["hello<|im_end|>"]
    assert one.ids[one.trained[0][1] - 1] == IM_END
    assert make_tiny_tokenizer().decode(one.ids).endswith("hello<|im_end|>\n")


def test_all_turns_of_a_stable_template_stand_in_one_sequence() -> None:
    (one,) = encode(CHATML, TWO_TURNS)

    assert learned(one) == ["hello<|im_end|>", "again<|im_end|>"]


def test_a_reply_with_weight_0_is_read_and_not_learned() -> None:
    guessed = [*TWO_TURNS[:2], {**TWO_TURNS[2], "weight": 0}, *TWO_TURNS[3:]]

    (one,) = encode(CHATML, guessed)

    assert learned(one) == ["again<|im_end|>"]
    assert "hello" in one.text
    with pytest.raises(TrainerError, match="no assistant reply to learn from"):
        encode(CHATML, guessed[:3])


def test_the_spans_of_the_text_are_the_trained_tokens() -> None:
    (one,) = encode(CHATML, TWO_TURNS)

    assert [one.text[start:end] for start, end in one.spans] == learned(one)


def test_what_stands_before_a_reply_is_what_inference_reads() -> None:
    tokenizer = make_tiny_tokenizer()

    (one,) = encode_example(tokenizer, {"messages": TWO_TURNS}, STOPS)

    for place, (start, _) in zip((2, 4), one.trained, strict=True):
        assert one.ids[:start] == encode_prompt(tokenizer, TWO_TURNS[:place])


def test_a_template_that_drops_old_thoughts_gets_one_sequence_for_each_reply() -> None:
    messages = [dict(m) for m in TWO_TURNS]
    messages[2]["content"] = "<think>hm</think>hello"

    first, second = encode(THINKING, messages)

    assert learned(first) == ["<think>hm</think>hello<|im_end|>"]
    assert learned(second) == ["again<|im_end|>"]
    assert "hm" not in second.text


def test_a_template_that_trims_still_finds_its_reply() -> None:
    (one,) = encode(TRIMMING, [HELLO[0], {"role": "assistant", "content": "  hello \n"}])

    assert learned(one) == ["hello<|im_end|>"]


def test_a_missing_stop_token_is_added_or_the_model_would_never_stop() -> None:
    first, second = encode(WITHOUT_STOP, TWO_TURNS)

    assert learned(first) == ["hello<|im_end|>"]
    assert learned(second) == ["again<|im_end|>"]
    assert first.text[first.spans[0][0] : first.spans[0][1]] == "hello<|im_end|>"


def test_a_reply_that_the_template_drops_is_named_by_its_place() -> None:
    calls = [{"type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]

    with pytest.raises(TrainerError, match=r"messages\[1\]: .* leaves out the tool call get_weather") as lost_call:
        encode(CHATML, [HELLO[0], {"role": "assistant", "content": "", "tool_calls": calls}])
    with pytest.raises(TrainerError, match=r"messages\[4\]: this assistant reply could not be found") as lost_reply:
        encode(CHATML.replace("message['content']", "message['content'] | replace('again', '')"), TWO_TURNS)

    assert (lost_call.value.code, lost_reply.value.facts["turn"]) == ("row_error", 4)


FIRST_SYSTEM_ALONE = (
    "{% if messages[0].role == 'system' %}<|im_start|>system\n{{ messages[0].content }}<|im_end|>\n{% endif %}"
    "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""As some real templates do, which refuse nothing."""


def test_a_system_text_or_a_question_that_the_template_drops_is_named_by_its_place() -> None:
    late = [*TWO_TURNS[:3], {"role": "system", "content": "Now be brief."}, *TWO_TURNS[3:]]
    odd = CHATML.replace("message['content']", "message['content'] | replace('hi', '')")

    with pytest.raises(TrainerError, match=r"messages\[3\]: .* leaves out this system text; .*merge_system") as lost:
        encode(FIRST_SYSTEM_ALONE, late)
    with pytest.raises(TrainerError, match=r"messages\[0\]: .* leaves out this question"):
        encode(odd, HELLO)

    assert lost.value.facts["turn"] == 3
    assert learned(encode(FIRST_SYSTEM_ALONE, merge_system(late))[0]) == ["hello<|im_end|>", "again<|im_end|>"]
    assert learned(encode(FIRST_SYSTEM_ALONE, [{"role": "user", "content": " hi \n"}, HELLO[1]])[0]) == [
        "hello<|im_end|>"
    ]


def test_a_switch_that_the_template_takes_out_of_a_question_is_no_loss() -> None:
    switched = CHATML.replace("message['content']", "message['content'] | replace(' /no_think', '')")

    (one,) = encode(switched, [{"role": "user", "content": "hi /no_think"}, HELLO[1]])

    assert learned(one) == ["hello<|im_end|>"]


def test_tools_that_the_template_ignores_are_an_error() -> None:
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}]

    with pytest.raises(TrainerError, match="leaves out the tool get_weather"):
        encode(CHATML, HELLO, tools=tools)


def test_a_tool_call_given_as_text_is_not_quoted_twice() -> None:
    template = CHATML.replace(
        "{{ message['content'] }}",
        "{{ message['content'] }}{% for c in message.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}",
    )
    calls = [{"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]

    (one,) = encode(template, [HELLO[0], {"role": "assistant", "content": None, "tool_calls": calls}])

    assert learned(one) == ['{"name": "f", "arguments": {"a": 1}}<|im_end|>']


def test_a_refused_system_role_says_what_to_do() -> None:
    with pytest.raises(TrainerError, match=r"System role not supported.*put before the first user text"):
        encode(NO_SYSTEM, TWO_TURNS)


def test_a_switch_of_the_template_is_found_and_used_for_prompts_too() -> None:
    tokenizer = make_tiny_tokenizer(SWITCHED)

    (one,) = encode_example(tokenizer, {"messages": HELLO}, STOPS)

    assert switches_of(tokenizer) == {"enable_thinking": False}
    assert one.ids[: one.trained[0][0]] == encode_prompt(tokenizer, HELLO[:1])


def test_without_a_switch_the_common_beginning_is_taken_in_tokens() -> None:
    (one,) = encode(ALWAYS_THINKING, [HELLO[0], {"role": "assistant", "content": "<b>"}])

    assert learned(one) == ["<b><|im_end|>"]
    assert one.ids[one.trained[0][1] - 1] == IM_END


def test_there_is_never_a_second_beginning_of_text() -> None:
    from tokenizers.processors import TemplateProcessing

    tokenizer = make_tiny_tokenizer("<|endoftext|>" + CHATML)
    tokenizer._tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    assert tokenizer("a")["input_ids"][0] == 0  # this tokenizer would add one by itself

    (one,) = encode_example(tokenizer, {"messages": HELLO}, STOPS)

    assert one.ids.count(0) == 1
    assert encode_prompt(tokenizer, HELLO[:1]).count(0) == 1


def test_a_token_across_the_border_is_split_as_inference_would_see_it() -> None:
    tokenizer = _tokenizer_that_merges(":", ")")
    tokenizer.chat_template = WITHOUT_STOP.replace("[assistant] ", "assistant:").replace(
        "[{{ m.role }}] ", "{{ m.role }}:"
    )
    whole = tokenizer("assistant:)", add_special_tokens=False)["input_ids"]
    assert ":)" in tokenizer.convert_ids_to_tokens(whole)

    (one,) = encode_example(tokenizer, {"messages": [HELLO[0], {"role": "assistant", "content": ")"}]}, STOPS)

    start = one.trained[0][0]
    assert one.ids[:start] == encode_prompt(tokenizer, HELLO[:1])
    assert tokenizer.decode(one.ids[start:]) == ")<|im_end|>"


def test_a_scored_reply_has_the_tokens_of_a_trained_one() -> None:
    tokenizer = make_tiny_tokenizer()
    (one,) = encode_example(tokenizer, {"messages": HELLO}, STOPS)

    ids = encode_reply(tokenizer, HELLO[:1], HELLO[1], STOPS)

    assert ids == one.ids[slice(*one.trained[0])]


def test_a_conversation_without_a_reply_has_nothing_to_learn() -> None:
    with pytest.raises(TrainerError, match="there is no assistant reply"):
        encode(CHATML, HELLO[:1])


def _tokenizer_that_merges(left: str, right: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *letters, left + right]
    core = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, [(left, right)]))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    core.add_special_tokens(names[:3])
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>")
