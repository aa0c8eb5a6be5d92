"""The rows behind `factories.REPORT`: the smallest files with which a run can be trained, answered and judged."""

from __future__ import annotations

import io
import json
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from tests import factories
from trainer.contract import Answer, dump


@lru_cache(maxsize=3)
def split_bytes(split: str) -> bytes:
    """One split as a parquet file, as many rows as the report says."""
    count = factories.REPORT["rows"][split]
    texts = [json.dumps({"messages": [_turn("user", f"row {n}"), _turn("assistant", _label(n))]}) for n in range(count)]
    table = pa.table({"row": pa.array(range(1, count + 1), pa.int64()), "example": texts})
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


@lru_cache(maxsize=1)
def answer_lines() -> bytes:
    """What the base model answered: always wrong."""
    rows = range(1, factories.REPORT["rows"]["test"] + 1)
    return "".join(f"{dump(Answer(row, 'yes', 'no', False, 0.0, True, 'no', False))}\n" for row in rows).encode()


def _turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _label(number: int) -> str:
    return "yes" if number % 2 else "no"
