"""Places of a long list of 64-bit keys where the same key stands: sorted in Arrow, so that millions fit into memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any


def runs_of_equal(keys: array[int]) -> Iterator[list[int]]:
    """For each key that stands more than once, its places in order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    count = len(keys)
    if count < 2:
        return
    values: Any = pa.Array.from_buffers(pa.uint64(), count, [None, pa.py_buffer(keys)])
    order = pc.sort_indices(values)
    values = values.take(order)
    repeats = pc.indices_nonzero(pc.equal(values.slice(1), values.slice(0, count - 1)))
    run: list[int] = []
    last = -2
    for chunk in range(0, len(repeats), 10_000):
        part = repeats.slice(chunk, 10_000)
        places = order.take(part).to_pylist()
        nexts = order.take(pc.add(part, 1)).to_pylist()
        for at, place, after in zip(part.to_pylist(), places, nexts, strict=True):
            if at != last + 1:
                if run:
                    yield sorted(run)
                run = [place]
            run.append(after)
            last = at
    if run:
        yield sorted(run)
