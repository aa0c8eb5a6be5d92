"""A tiny random Idefics3: its language layers, the tokens of its images, and a step that learns from one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from tests.tiny_base import make_tiny_base
from tests.tiny_vision import make_tiny_vision
from tests.trainer.conftest import Volume
from trainer.chat import encode_example
from trainer.contract import MASK, Base, MaskJob, TrainOptions
from trainer.errors import TrainerError
from trainer.images import open_image, open_processor, with_images
from trainer.lora import add_lora, language_linears
from trainer.mask import make_mask
from trainer.step import make_optimizer
from trainer.template import merge_system

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
    return Path(make_tiny_vision(tmp_path_factory.mktemp("vision")).folder)


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


def stored(folder: Path, name: str, size: tuple[int, int]) -> str:
    folder.mkdir(exist_ok=True)
    Image.new("RGB", size, "red").save(folder / name)
    return name


def asked(*parts: str, system: str = "") -> dict[str, Any]:
    """Parts that end in .png are images of the stored form."""
    content = [{"type": "image", "image": p} if p.endswith(".png") else {"type": "text", "text": p} for p in parts]
    before = [{"role": "system", "content": system}] if system else []
    return {"messages": [*before, {"role": "user", "content": content}, {"role": "assistant", "content": "both"}]}


def test_a_mask_counts_the_tokens_of_images_through_the_models_processor(vision: Path, tmp_path: Path) -> None:
    folder, volume = tmp_path / "images", Volume(tmp_path, Base("tests/tiny-vision", "", str(vision)))
    stored(folder, "wide.png", (40, 30))
    stored(folder, "same.png", (40, 30))
    rows = [
        asked("wide.png", "Which ", "same.png", "?"),
        asked("Which?"),
        asked("gone.png", "?"),
        asked("wide.png" + "x", "wide.png"),
    ]
    files = {"train": str(tmp_path / volume.add_split("train", rows))}

    summary = make_mask(MaskJob(volume.base, files, str(tmp_path / "out"), images=str(folder)))

    lines = pq.read_table(tmp_path / "out" / MASK).to_pylist()
    processor = open_processor(vision)
    text = processor.apply_chat_template([{**m} for m in _in_parts(ROW["messages"])])
    pictures = [Image.open(folder / name) for name in ("wide.png", "same.png")]
    whole = processor(text=text, images=pictures, add_special_tokens=False)["input_ids"][0]
    assert lines[0]["tokens"] in (len(whole), len(whole) - 1)  # a line break behind the last turn is not kept
    assert [line["image_tokens"] for line in lines] == [12, 0, 0, 6]
    assert lines[0]["tokens"] - lines[1]["tokens"] >= 12
    assert summary.image_tokens == {"train": 18}
    assert [(error.row, error.message.split(":")[0]) for error in summary.errors] == [
        (3, "The image gone.png cannot be read")
    ]


def test_an_image_token_counts_against_the_context_length(vision: Path, tmp_path: Path) -> None:
    folder, volume = tmp_path / "images", Volume(tmp_path, Base("tests/tiny-vision", "", str(vision)))
    rows = [asked(*[stored(folder, f"{n}.png", (30, 30 + n)) for n in range(9)], "?"), asked("?")]
    files = {"train": str(tmp_path / volume.add_split("train", rows))}

    summary = make_mask(MaskJob(volume.base, files, str(tmp_path / "out"), context_length=60, images=str(folder)))

    (error,) = summary.errors
    assert (error.row, summary.longest_rows[0].row) == (1, 1)
    assert "more than the context length of 60" in error.message


def test_a_system_text_is_merged_into_a_question_with_images() -> None:
    merged = merge_system(asked("a.png", "Which?", system="Be brief.")["messages"])

    assert merged[0]["content"] == [
        {"type": "text", "text": "Be brief.\n\n"},
        {"type": "image", "image": "a.png"},
        {"type": "text", "text": "Which?"},
    ]


def test_images_are_not_looked_for_in_a_text_model(tmp_path: Path) -> None:
    volume = Volume(tmp_path, make_tiny_base(tmp_path / "base"))
    files = {"train": str(tmp_path / volume.add_split("train", [asked("Which?")]))}

    with pytest.raises(TrainerError, match=r"holds no image processor|cannot be read"):
        make_mask(MaskJob(volume.base, files, str(tmp_path / "out"), images=str(tmp_path)))
