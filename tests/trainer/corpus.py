"""Real chat templates, conversations that are hard for them, and the two kinds of tokenizers they meet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "chat_templates"
TEMPLATES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.jinja"))}

_MARK = re.compile(
    r"<\|[^<>|\s]{1,40}\|>|<｜[^<>｜\s]{1,40}｜>|<\|[a-z_]+>|<[a-z_]+\|>|</?(?:s|bos|eos|think|start_of_turn|end_of_turn|end_of_utterance|turn)>|\[/?INST\]"
)
_STOPS = (
    "<|im_end|>", "<|eot_id|>", "<|return|>", "<end_of_turn>", "<turn|>", "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>",
    "<|end|>", "<end_of_utterance>", "<|endoftext|>", "</s>", "<|user|>",
)  # fmt: skip

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}


def _says(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


CONVERSATIONS: dict[str, dict[str, Any]] = {
    "plain": {"messages": [_says("user", "What colour is snow?"), _says("assistant", "Snow is white.")]},
    "system": {
        "messages": [
            _says("system", "Answer in one word."),
            _says("user", "What colour is coal?"),
            _says("assistant", "Black."),
        ]
    },
    "turns": {
        "messages": [
            _says("user", "Is 91 prime?"),
            _says("assistant", "No."),
            _says("user", "And 97?"),
            _says("assistant", "It is."),
            _says("user", "Sum?"),
            _says("assistant", "188"),
        ]
    },
    "thinking": {
        "messages": [
            _says("user", "Is 91 prime?"),
            _says("assistant", "<think>\n7*13\n</think>\n\nNo, 7 times 13."),
            _says("user", "And 97?"),
            _says("assistant", "<think>\nno factor\n</think>\n\nYes."),
        ]
    },
    "tools": {
        "messages": [
            _says("user", "Is it warm in Oslo?"),
            _says(
                "assistant",
                "",
                tool_calls=[
                    {
                        "id": "call00001",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"place": "Oslo"}'},
                    }
                ],
            ),
            _says("tool", "21 degrees", tool_call_id="call00001", name="get_weather"),
            _says("assistant", "Yes, 21 degrees."),
        ],
        "tools": [WEATHER],
    },
    "empty": {"messages": [_says("user", "Say nothing."), _says("assistant", "")]},
    "repeated": {
        "messages": [
            _says("user", "ping"),
            _says("assistant", "ping"),
            _says("user", "ping"),
            _says("assistant", "ping"),
        ]
    },
    "spaces": {"messages": [_says("user", "Pad it."), _says("assistant", "  padded \n ")]},
    "scripts": {
        "messages": [_says("user", "Übersetze: snow"), _says("assistant", "雪 — снег, ثلج 🏔️")],
    },
}


def byte_tokenizer(template: str):  # type: ignore[no-untyped-def]
    """One token for each byte, as GPT-2's alphabet writes them, and a token for each control word of the template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    specials = _specials(template)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({t: i for i, t in enumerate([*specials, *letters])}, [], unk_token=None))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return _wrapped(core, template, specials)


def sentencepiece_tokenizer(template: str):  # type: ignore[no-untyped-def]
    """As Llama 2 and Mistral have it: spaces are "▁", one is put before the text, and rare letters become bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    specials = _specials(template)
    core = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=True)
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<unk>", *fallback], show_progress=False, initial_alphabet=["▁"]
    )
    texts = [message["content"] for one in CONVERSATIONS.values() for message in one["messages"]]
    core.train_from_iterator([*[text for text in texts if text.isascii()], " ".join(map(chr, range(33, 127)))], trainer)
    # Byte tokens are no control words: the trainer could only be told of them as such.
    return _wrapped(_without_special_bytes(core, fallback), template, specials)


TOKENIZERS = {"bytes": byte_tokenizer, "sentencepiece": sentencepiece_tokenizer}


def _without_special_bytes(core, fallback):  # type: ignore[no-untyped-def]
    import json

    from tokenizers import Tokenizer

    told = json.loads(core.to_str())
    told["added_tokens"] = [token for token in told["added_tokens"] if token["content"] not in fallback]
    return Tokenizer.from_str(json.dumps(told))


def _specials(template: str) -> list[str]:
    found = dict.fromkeys(["<s>", "</s>", *_MARK.findall(template)])
    return [token for token in found if token not in ("<think>", "</think>")]


def _wrapped(core, template: str, specials: list[str]):  # type: ignore[no-untyped-def]
    from transformers import PreTrainedTokenizerFast

    core.add_special_tokens(specials)
    stop = next((token for token in _STOPS if token in specials), "</s>")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token=stop, pad_token=stop)
    tokenizer.chat_template = template
    return tokenizer
