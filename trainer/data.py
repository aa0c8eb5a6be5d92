"""Reads the rows of a split and encodes them all, before a single weight is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.chat import Encoded, encode_example
from trainer.contract import RowError
from trainer.errors import TrainerError
from trainer.images import ImageTokens, image_names
from trainer.template import merge_system

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SHOWN_ERRORS = 100
Tick = Callable[[int, int], None]
"""Told how many of how many rows are done; may raise to end the work."""


@dataclass(frozen=True, slots=True)
class Example:
    row: int
    """Its number in the imported file, from 1."""
    text: str
    merges_system: bool = False
    """Its system text stands before the first user text, for a template without a system role."""

    def parse(self) -> Mapping[str, Any]:
        example = json.loads(self.text)
        if not isinstance(example, dict) or not isinstance(example.get("messages"), list):
            raise ValueError("it has no list of messages")
        return {**example, "messages": merge_system(example["messages"])} if self.merges_system else example


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sequence must respect."""

    eos_ids: frozenset[int]
    context_length: int | None


def read_examples(path: Path, *, merges_system: bool = False) -> list[Example]:
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["row", "example"])
    return [
        Example(row, text, merges_system)
        for row, text in zip(*(table.column(c).to_pylist() for c in ("row", "example")), strict=True)
    ]


def encode_row(
    tokenizer: PreTrainedTokenizerBase,
    split: str | None,
    example: Example,
    limits: Limits,
    images: ImageTokens | None = None,
) -> tuple[list[Encoded], RowError | None]:
    """The row's sequences, and why it cannot be trained; a row that is too long still has its tokens."""
    place = f"Row {example.row} of the {split} split" if split else f"Row {example.row}"
    split = split or ""
    try:
        parsed = example.parse()
        encoded = [replace(one, row=example.row) for one in encode_example(tokenizer, parsed, limits.eos_ids)]
        if images is not None:
            names = image_names(parsed["messages"])
            encoded = [images.expand(one, names) for one in encoded]
    except TrainerError as error:
        if error.code == "image_error":
            return [], RowError(split, example.row, str(error))
        return [], RowError(split, example.row, f"{place}, messages[{error.facts['turn']}]: {error.facts['reason']}.")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return [], RowError(split, example.row, f"{place} is not a conversation: {error}.")
    if complaint := _complaint(encoded, limits.context_length):
        return encoded, RowError(split, example.row, f"{place} {complaint}.")
    return encoded, None


def encode_split(
    tokenizer: PreTrainedTokenizerBase, split: str, examples: Sequence[Example], limits: Limits, tick: Tick
) -> list[Encoded]:
    """Every sequence of the split, or one error that lists every row that cannot be trained."""
    encoded, errors = [], []
    for done, example in enumerate(examples, start=1):
        sequences, error = encode_row(tokenizer, split, example, limits)
        encoded += sequences
        errors += [error] if error else []
        tick(done, len(examples))
    if errors:
        raise rows_refused(errors)
    return encoded


def rows_refused(errors: Sequence[RowError]) -> TrainerError:
    listing = " ".join(error.message for error in errors[:SHOWN_ERRORS])
    if len(errors) == 1:
        return TrainerError("row_error", text=listing)
    more = f" The other {len(errors) - SHOWN_ERRORS:,} are not listed." if len(errors) > SHOWN_ERRORS else ""
    return TrainerError("row_error", text=f"{len(errors):,} rows cannot be used. {listing}{more}")


def _complaint(encoded: Sequence[Encoded], context_length: int | None) -> str | None:
    longest = max(len(one.ids) for one in encoded)
    if context_length is not None and longest > context_length:
        return f"has {longest:,} tokens, more than the context length of {context_length:,}"
    if any(one.trained_tokens == 0 for one in encoded):
        return "has a reply without a single token to learn"
    return None
