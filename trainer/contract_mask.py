"""What `trainer mask` answers: totals of the template's view of every row of a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class RowError:
    """A row that cannot be trained, and why."""

    split: str
    row: int
    message: str


@dataclass(frozen=True, slots=True)
class LongRow:
    """One of the longest rows, by which rows beyond a context length are named."""

    LISTED: ClassVar[int] = 100

    split: str
    row: int
    tokens: int
    """Of its longest sequence."""


@dataclass(frozen=True, slots=True)
class MaskSummary:
    """`mask.json`: totals of `mask.parquet` (split, row, tokens, trained_tokens, longest, sequences, spans, error, text)."""

    rows: int
    tokens: Mapping[str, int]
    """Split → tokens of all its rows."""
    trained_tokens: Mapping[str, int]
    longest: int
    """Tokens of the longest sequence of all rows."""
    errors: tuple[RowError, ...]
    tokenizer_sha256: str
    template_sha256: str
    sequences: Mapping[str, int] = field(default_factory=dict)
    """Split → sequences that are trained: more than rows where the template needs one for each reply."""
    system_refused: int = 0
    """Rows that the template refuses for their system text, which can stand in the first user text instead."""
    refused: int = 0
    """Rows that cannot be trained, of which `errors` lists the first; 0 in a summary of an older trainer."""
    image_tokens: Mapping[str, int] = field(default_factory=dict)
    """Split → tokens of its images, which `tokens` holds too; empty where rows have none."""
    longest_rows: tuple[LongRow, ...] = ()
    """The longest first; none in a summary of an older trainer."""

    @property
    def refused_rows(self) -> int:
        return max(self.refused, len(self.errors))
