"""A vision model of a megabyte for tests: a tiny random Idefics3."""

from __future__ import annotations

from pathlib import Path

from trainer.contract import Base, seal_folder

IMAGE_TOKENS = ["<image>", "<fake_token_around_image>", "<global-img>"]


def make_tiny_vision(folder: Path) -> Base:
    """Write model, tokenizer and image processor to `folder`; an image takes six tokens."""
    import torch
    from transformers import (
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3ImageProcessorPil,
        Idefics3Processor,
    )

    from tests.trainer.corpus import TEMPLATES, byte_tokenizer

    tokenizer = byte_tokenizer(TEMPLATES["smolvlm"])
    tokenizer.add_special_tokens({"additional_special_tokens": IMAGE_TOKENS})
    size = {"longest_edge": 32}
    images = Idefics3ImageProcessorPil(size=size, max_image_size=size, do_image_splitting=False)
    template = TEMPLATES["smolvlm"]
    Idefics3Processor(images, tokenizer, image_seq_len=4, chat_template=template).save_pretrained(folder)
    eyes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    words = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    words |= {"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": len(tokenizer), "pad_token_id": 0}
    torch.manual_seed(1)
    config = Idefics3Config(
        vision_config={**eyes, "image_size": 32, "patch_size": 8},
        text_config=words,
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )
    Idefics3ForConditionalGeneration(config).save_pretrained(folder)
    revision = "f" * 40
    seal_folder(folder, {"repo_id": "tests/tiny-vision", "revision": revision})
    return Base("tests/tiny-vision", revision, str(folder))
