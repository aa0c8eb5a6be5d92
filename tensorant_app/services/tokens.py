"""How many tokens the rows of a version have, as its base model's template writes them: bars, totals, and the longest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from sqlmodel import Session

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.domain.errors import Conflict, Invalid
from tensorant_app.domain.hyperparameters import RANGES, complain
from tensorant_app.domain.members import Caller, Permission
from tensorant_app.domain.tokens import BARS, Bar, bars, width_of
from tensorant_app.services.connections import store
from tensorant_app.services.lookup import own_row
from tensorant_app.services.versions import files_key
from trainer.contract import MASK, LongRow, Split

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_ROWS = 50
_USUAL = 0.98
"""So large a share of the rows lies within the bars of equal width."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of each row, counted."""

    bars: Sequence[Bar]
    middle: int
    """Half of the rows have at most so many."""
    most: int


@dataclass(frozen=True, slots=True)
class TokensView:
    rows: int
    """Rows that the template renders."""
    unrendered: int
    tokens: Lengths
    trained: Lengths
    per_epoch: int
    """Tokens of the training split: what one epoch reads."""
    trained_per_epoch: int
    """What one epoch learns."""
    too_long: int
    """Rows with a sequence beyond the context length that was asked for."""
    too_long_rows: Sequence[LongRow]
    """The first of them, by split and number."""


def show_tokens(session: Session, caller: Caller, version_id: UUID, *, context_length: int = 2_048) -> TokensView:
    """Of a version that was checked; a row counts once, whatever its sequences."""
    caller.require(Permission.SEE)
    version = own_row(session, caller, DatasetVersion, version_id, "version")
    if wrong := complain(RANGES["context_length"], context_length):
        raise Invalid({"context_length": wrong})
    try:
        return count_tokens(store().fetch(files_key(version)) / MASK, context_length)
    except FileNotFoundError:
        raise Conflict("This version is being checked anew. Look again when that is done.") from None


def count_tokens(path: Path, context_length: int) -> TokensView:
    """Read from the numbers of mask.parquet alone."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    # A mask of an older trainer has no column for the longest sequence: most rows are one sequence.
    longest = "longest" if "longest" in pq.read_schema(path).names else "tokens"
    table = pq.read_table(path, columns=list(dict.fromkeys(("split", "row", "tokens", "trained_tokens", longest))))
    whole = table.filter(pc.greater(table["tokens"], 0))
    training = whole.filter(pc.equal(whole["split"], Split.TRAIN.value))
    beyond = whole.filter(pc.greater(whole[longest], context_length))
    shown = beyond.slice(0, SHOWN_ROWS).to_pylist()
    return TokensView(
        rows=len(whole),
        unrendered=len(table) - len(whole),
        tokens=_lengths(whole["tokens"]),
        trained=_lengths(whole["trained_tokens"]),
        per_epoch=_sum(training["tokens"]),
        trained_per_epoch=_sum(training["trained_tokens"]),
        too_long=len(beyond),
        too_long_rows=tuple(LongRow(row["split"], row["row"], row[longest]) for row in shown),
    )


def _lengths(column: pa.ChunkedArray) -> Lengths:
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(column) == 0:
        return Lengths((), 0, 0)
    middle, usual = pc.quantile(column, q=[0.5, _USUAL], interpolation="lower").to_pylist()
    width = width_of(usual)
    numbers = pc.min_element_wise(pc.divide(column, width), pa.scalar(BARS - 1, pa.int64()))
    counts = {found["values"]: found["counts"] for found in pc.value_counts(numbers).to_pylist()}
    return Lengths(tuple(bars(counts, width)), middle, pc.max(column).as_py())


def _sum(column: pa.ChunkedArray) -> int:
    import pyarrow.compute as pc

    return pc.sum(column).as_py() or 0
