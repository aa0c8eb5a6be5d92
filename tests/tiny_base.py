"""A base model of a few hundred kilobytes for tests: a random Llama with a byte tokenizer and a ChatML template."""

from __future__ import annotations

import hashlib
from pathlib import Path

from trainer.contract import Base, seal_folder

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def make_tiny_base(folder: Path, *, template: str | None = CHATML, seed: int = 7, can_stop: bool = False) -> Base:
    """Write the model to `folder` (safetensors, sealed) and answer how a job names it.

    The end of a message is also the padding, whose weights are zero: only with `can_stop` can a model learn to end.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tiny_tokenizer(template)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=True,
        initializer_range=0.1,
    )
    model = LlamaForCausalLM(config)
    if can_stop:
        torch.nn.init.normal_(model.get_input_embeddings().weight, std=config.initializer_range)
    model.save_pretrained(folder)
    revision = hashlib.sha1(f"tiny {seed} {template}".encode()).hexdigest()
    seal_folder(folder, {"repo_id": "tests/tiny-llama", "revision": revision})
    return Base("tests/tiny-llama", revision, str(folder))


def make_tiny_tokenizer(template: str | None = CHATML):  # type: ignore[no-untyped-def]
    """One token for each byte, and the three tokens of ChatML."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *letters])}
    core = Tokenizer(models.BPE(vocabulary, [], unk_token=None))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(list(SPECIAL))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|im_end|>")
    tokenizer.chat_template = template
    return tokenizer
