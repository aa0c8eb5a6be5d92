"""Decides from seed and epoch which rows go through the model together, and lays them side by side without padding."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.chat import Encoded
from trainer.contract import Plan, TrainOptions

if TYPE_CHECKING:
    import torch

PACKED_PAIRS, PADDED_PAIRS = 600, 1200
"""So many pairs of positions cost as much as one token; a mask of our own takes attention's slower way."""
PACK_TOKENS = 4096
"""Attention grows with the square of a pack, so longer rows go through in several packs."""


@dataclass(frozen=True, slots=True)
class Pack:
    """One forward pass: a packed sequence with segments, or padded rows without."""

    ids: list[list[int]]
    positions: list[list[int]]
    segments: list[int] | None
    """Of a packed sequence: 0 is the prefix that all rows share. None for padded rows, where causal order is enough."""
    picks: list[tuple[int, int]]
    """(line, column) of the hidden states that predict a supervised token."""
    labels: list[int]
    """What each of them should predict."""
    rows: tuple[int, ...]
    real_tokens: int


@dataclass(frozen=True, slots=True)
class Tensors:
    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor | None
    """True where a position may look; None for plain causal attention."""
    columns: torch.Tensor
    """The columns that any line picks."""
    flat: torch.Tensor
    """Each pick within (line, picked column), flattened."""
    labels: torch.Tensor


def window(encoded: Sequence[Encoded], options: TrainOptions, step: int, world: int = 1) -> list[Encoded]:
    """The rows of one optimizer step (from 0), of all GPUs; the same for the same seed, whatever happened before."""
    epoch, place = divmod(step, Plan.of(len(encoded), options, world).steps_per_epoch)
    order = list(range(len(encoded)))
    random.Random(f"{options.seed}:{epoch}").shuffle(order)
    size = options.micro_batch_size * options.accumulation * world
    return [encoded[i] for i in order[place * size : (place + 1) * size]]


def packs_of(rows: Sequence[Encoded], options: TrainOptions, *, share_prefix: bool) -> list[Pack]:
    """The forward passes of one window: rows of like length together."""
    by_length = sorted(rows, key=lambda row: len(row.ids))
    packs: list[Pack] = []
    for micro in _chunks(by_length, options.micro_batch_size):
        groups = list(_within_limit(micro)) if options.packing else [micro]
        padded = [pad_rows(group) for group in groups]
        packed = [pack_rows(group, share_prefix=share_prefix) for group in groups] if options.packing else padded
        cheaper: list[Pack] = min(packed, padded, key=_cost)
        packs += cheaper
    return packs


def _cost(packs: Sequence[Pack]) -> float:
    """In tokens. Long rows that share little are cheaper padded: a pack pays for every pair of its positions."""
    cost = 0.0
    for pack in packs:
        lines, width = len(pack.ids), len(pack.ids[0])
        cost += lines * width * (1 + width / (PACKED_PAIRS if pack.segments else PADDED_PAIRS))
    return cost


def pack_rows(rows: Sequence[Encoded], *, share_prefix: bool) -> Pack:
    """All rows in one sequence; what they share at the beginning stands once, and each row sees only it and itself."""
    shared = _shared_prefix(rows) if share_prefix and len(rows) > 1 else 0
    ids, positions, segments = list(rows[0].ids[:shared]), list(range(shared)), [0] * shared
    picks: list[tuple[int, int]] = []
    labels: list[int] = []
    for number, row in enumerate(rows, start=1):
        offset = len(ids) - shared
        for start, end in row.trained:
            picks += [(0, offset + at - 1) for at in range(max(start, 1), end)]
            labels += row.ids[max(start, 1) : end]
        ids += row.ids[shared:]
        positions += range(shared, len(row.ids))
        segments += [number] * (len(row.ids) - shared)
    return Pack([ids], [positions], segments, picks, labels, tuple(r.row for r in rows), sum(len(r.ids) for r in rows))


def pad_rows(rows: Sequence[Encoded]) -> Pack:
    """Rows under each other, filled on the right: causal attention never looks at the filling."""
    width = max(len(row.ids) for row in rows)
    ids = [row.ids + [0] * (width - len(row.ids)) for row in rows]
    picks = [(line, at - 1) for line, row in enumerate(rows) for s, e in row.trained for at in range(max(s, 1), e)]
    labels = [ids[line][column + 1] for line, column in picks]
    positions = [list(range(width)) for _ in rows]
    return Pack(ids, positions, None, picks, labels, tuple(r.row for r in rows), sum(len(r.ids) for r in rows))


def to_tensors(pack: Pack, device: torch.device) -> Tensors:
    import torch

    columns = sorted({column for _, column in pack.picks})
    place = {column: i for i, column in enumerate(columns)}
    flat = [line * len(columns) + place[column] for line, column in pack.picks]
    values = (pack.ids, pack.positions, columns, flat, pack.labels)
    ids, positions, at, picked, labels = (torch.tensor(value, device=device) for value in values)
    mask = None if pack.segments is None else segment_mask(torch.tensor(pack.segments, device=device))
    return Tensors(ids, positions, mask, at, picked, labels)


def segment_mask(segments: torch.Tensor) -> torch.Tensor:
    """(1, 1, S, S): a position looks back at its own segment and at segment 0."""
    same = (segments[:, None] == segments[None, :]) | (segments[None, :] == 0)
    return same.tril()[None, None]


def _shared_prefix(rows: Sequence[Encoded]) -> int:
    """Stops one token before anything supervised: the token that predicts it must be the row's own."""
    limit = min(min(row.trained[0][0] for row in rows) - 1, min(len(row.ids) for row in rows) - 1)
    first, count = rows[0].ids, 0
    while count < limit and all(row.ids[count] == first[count] for row in rows):
        count += 1
    return count


def _within_limit(rows: Sequence[Encoded]) -> Iterator[list[Encoded]]:
    group: list[Encoded] = []
    for row in rows:
        if group and sum(len(r.ids) for r in group) + len(row.ids) > PACK_TOKENS:
            yield group
            group = []
        group.append(row)
    yield group


def _chunks(rows: Sequence[Encoded], size: int) -> Iterator[Sequence[Encoded]]:
    for first in range(0, len(rows), size):
        yield rows[first : first + size]
