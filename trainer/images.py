"""Prepares rows with images: their tokens are counted before a weight is loaded, and never cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.chat import Encoded
from trainer.errors import TrainerError

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class ImageRow:
    """A sequence whose images have all their tokens, and the pixels that belong to them."""

    encoded: Encoded
    pixels: dict[str, torch.Tensor]
    """What the model takes beside the tokens, such as pixel_values."""
    image_tokens: int
    """Tokens that the images added."""


def open_processor(folder: Path) -> Any:
    """The tokenizer and image processor of a vision model; refused where the folder has no image processor."""
    from transformers import AutoProcessor

    try:
        processor = AutoProcessor.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise _refused(f"The images cannot be read: {str(error).splitlines()[0]}") from error
    if getattr(processor, "image_processor", None) is None:
        raise _refused(f"{folder.name} holds no image processor, so it is no vision model.")
    return processor


def open_image(path: Path) -> Image:
    """Decoded whole, so that a damaged file shows here and not on a rented GPU."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise _refused(f"The image {path.name} cannot be read: {error}.") from error


def with_images(processor: Any, encoded: Encoded, images: Sequence[Image], context_length: int | None) -> ImageRow:
    """Each placeholder becomes the tokens of its image; what is trained stays the same, further to the right."""
    places = places_of(processor, encoded, len(images))
    runs, pixels = _tokens_of(processor, images)
    expanded = _expanded(encoded, places, runs)
    if context_length is not None and len(expanded.ids) > context_length:
        added = len(expanded.ids) - len(encoded.ids)
        raise _refused(
            f"Row {encoded.row} has {len(expanded.ids):,} tokens, {added:,} of them for its images, "
            f"more than the context length of {context_length:,}."
        )
    return ImageRow(expanded, pixels, len(expanded.ids) - len(encoded.ids))


def places_of(processor: Any, encoded: Encoded, images: int) -> list[int]:
    """Positions of the placeholders, one for each image."""
    place = processor.tokenizer.convert_tokens_to_ids(processor.image_token)
    places = [at for at, token in enumerate(encoded.ids) if token == place]
    if len(places) != images:
        raise _refused(f"Row {encoded.row} has {images} images, and its conversation has a place for {len(places)}.")
    if any(start <= at < end for at in places for start, end in encoded.trained):
        raise _refused(f"Row {encoded.row} has an image in a reply, and a model cannot write images.")
    return places


class ImageTokens:
    """Counts the tokens that the images of rows take, through the model's own processor."""

    def __init__(self, processor: Any, folder: Path) -> None:
        self._processor, self._folder = processor, folder
        self._runs: dict[tuple[int, int], list[int]] = {}
        """By width and height, which is all that the number of an image's tokens depends on."""

    def expand(self, encoded: Encoded, names: Sequence[str]) -> Encoded:
        """`names` are those of all images of the conversation, of which a sequence holds the first ones or all."""
        place = self._processor.tokenizer.convert_tokens_to_ids(self._processor.image_token)
        names = names if encoded.is_whole else names[: encoded.ids.count(place)]
        return _expanded(encoded, places_of(self._processor, encoded, len(names)), [self._run(name) for name in names])

    def _run(self, name: str) -> list[int]:
        from PIL import Image

        if Path(name).name != name:
            raise _refused(f"{name} is no name of a stored image.")
        try:
            with Image.open(self._folder / name) as image:
                size = image.size
        except OSError as error:
            raise _refused(f"The image {name} cannot be read: {error}.") from error
        if size not in self._runs:
            shown = open_image(self._folder / name)
            token = self._processor.image_token
            answer = self._processor(text=token, images=[shown], add_special_tokens=False)
            self._runs[size] = list(answer["input_ids"][0])
        return self._runs[size]


def image_names(messages: Sequence[Any]) -> list[str]:
    """Of the images of a conversation in order, as stored rows name them."""
    contents = [message.get("content") for message in messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [str(part.get("image", "")) for part in parts if part.get("type") == "image"]


def _tokens_of(processor: Any, images: Sequence[Image]) -> tuple[list[list[int]], dict[str, torch.Tensor]]:
    """The processor's own tokens for each image, asked one by one, and the pixels of all together."""
    token = processor.image_token
    runs = [processor(text=token, images=[image], add_special_tokens=False)["input_ids"][0] for image in images]
    if not images:
        return [], {}
    together = processor(text=token * len(images), images=list(images), add_special_tokens=False, return_tensors="pt")
    if together["input_ids"][0].tolist() != [one for run in runs for one in run]:
        raise _refused("The image processor gives several images other tokens than each of them alone.")
    return runs, {name: value for name, value in together.items() if name not in ("input_ids", "attention_mask")}


def _expanded(encoded: Encoded, places: Sequence[int], runs: Sequence[Sequence[int]]) -> Encoded:
    ids: list[int] = []
    moved, at = [], 0
    for place, run in zip(places, runs, strict=True):
        ids += [*encoded.ids[at:place], *run]
        at = place + 1
    ids += encoded.ids[at:]
    for start, end in encoded.trained:
        shift = sum(len(run) - 1 for place, run in zip(places, runs, strict=True) if place < start)
        moved.append((start + shift, end + shift))
    return replace(encoded, ids=ids, trained=moved, image_tokens=sum(map(len, runs)) - len(runs))


def _refused(text: str) -> TrainerError:
    return TrainerError("image_error", text=text)
