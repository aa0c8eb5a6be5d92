"""A tiny random Idefics3: its language layers, the tokens of its images, and a step that learns from one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from tests.trainer.corpus import TEMPLATES, byte_tokenizer
from trainer.chat import encode_example
from trainer.contract import TrainOptions
from trainer.errors import TrainerError
from trainer.images import open_image, open_processor, with_images
from trainer.lora import add_lora, language_linears
from trainer.step import make_optimizer

IMAGE_TOKENS = ["<image>", "<fake_token_around_image>", "<global-img>"]
ROW = {
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "image"},
                {"type": "text", "text": "Which "},
                {"type": "image"},
                {"type": "text", "text": "?"},
            ],
        },
        {"role": "assistant", "content": "both"},
    ]
}


@pytest.fixture(scope="module")
def vision(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import (
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3ImageProcessorPil,
        Idefics3Processor,
    )

    folder = tmp_path_factory.mktemp("vision")
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
    return folder


def load(folder: Path) -> Any:
    from transformers import AutoModelForImageTextToText

    return AutoModelForImageTextToText.from_pretrained(folder).requires_grad_(False)


def test_matrices_are_put_on_language_layers_only(vision: Path) -> None:
    names = language_linears(load(vision))

    assert len(names) == 14
    assert all("text_model" in name for name in names)


def test_the_tokens_of_images_are_counted_and_what_is_trained_moves_with_them(vision: Path) -> None:
    processor = open_processor(vision)
    (encoded,) = encode_example(processor.tokenizer, ROW, frozenset({processor.tokenizer.eos_token_id}))
    pictures = [Image.new("RGB", (40, 30), colour) for colour in ("red", "blue")]

    row = with_images(processor, encoded, pictures, context_length=None)

    text = processor.apply_chat_template([{**m} for m in _in_parts(ROW["messages"])])
    whole = processor(text=text, images=pictures, add_special_tokens=False)["input_ids"][0]
    ((start, end),) = row.encoded.trained
    assert row.encoded.ids == whole[: len(row.encoded.ids)]
    assert row.image_tokens == 12
    assert processor.tokenizer.decode(row.encoded.ids[start:end]) == " both<end_of_utterance>"


@pytest.mark.parametrize(
    ("count", "context", "reason"),
    [(1, None, "has 1 images, and its conversation has a place for 2"), (2, 40, "12 of them for its images")],
)
def test_images_that_do_not_fit_are_refused_before_a_weight_is_loaded(
    vision: Path, count: int, context: int | None, reason: str
) -> None:
    processor = open_processor(vision)
    (encoded,) = encode_example(processor.tokenizer, ROW, frozenset({processor.tokenizer.eos_token_id}))

    with pytest.raises(TrainerError, match=reason) as refusal:
        with_images(processor, encoded, [Image.new("RGB", (8, 8))] * count, context_length=context)

    assert refusal.value.code == "image_error"


def test_a_damaged_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "flag.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")

    with pytest.raises(TrainerError, match=r"The image flag\.png cannot be read"):
        open_image(tmp_path / "flag.png")


def test_a_step_learns_from_an_image_and_leaves_the_eyes_alone(vision: Path) -> None:
    processor, options = open_processor(vision), TrainOptions(rank=2, alpha=4, learning_rate=1e-2)
    (encoded,) = encode_example(processor.tokenizer, ROW, frozenset({processor.tokenizer.eos_token_id}))
    row = with_images(processor, encoded, [Image.new("RGB", (40, 30), "red")] * 2, context_length=None)
    model = add_lora(load(vision), options)
    optimizer = make_optimizer(model, options)
    labels = torch.full((1, len(row.encoded.ids)), -100)
    for start, end in row.encoded.trained:
        labels[0, start:end] = torch.tensor(row.encoded.ids[start:end])

    losses = []
    for _ in range(4):
        loss = model(input_ids=torch.tensor([row.encoded.ids]), labels=labels, **row.pixels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())

    assert losses[-1] < losses[0]
    assert all("text_model" in name for name, p in model.named_parameters() if p.requires_grad)


def _in_parts(messages: Any) -> list[dict[str, Any]]:
    return [
        {**m, "content": [{"type": "text", "text": m["content"]}] if isinstance(m["content"], str) else m["content"]}
        for m in messages
    ]
