"""The rows of a version as other programs read them, piece by piece: lines of JSON or Parquet, with the paths of their images."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorant_app.domain.images import STORED_NAME, with_paths
from tensorant_app.services.image_files import IMAGES

_PIECE = 1 << 16
_ROWS = 500


def read_pieces(name: str, path: Path, carried: set[str] | None = None) -> Iterator[bytes]:
    """A split's Parquet file under a name that says its form.

    With a set to fill, each image is named by its path below `IMAGES` and what the rows name is put into the set.
    """
    if name.endswith(".jsonl"):
        return _lines(path, carried)
    return read_bytes(path) if carried is None else _table(path, carried)


def read_bytes(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _lines(path: Path, carried: set[str] | None) -> Iterator[bytes]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_ROWS, columns=["example"]):
            for example in batch.column(0).to_pylist():
                yield f"{example if carried is None else _with_paths(example, carried)}\n".encode()


def _table(path: Path, carried: set[str]) -> Iterator[bytes]:
    """Written anew a batch at a time; nothing of it lies on the disk."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = Sink()
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        place = schema.get_field_index("example")
        with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
            for batch in file.iter_batches(batch_size=_ROWS):
                examples = [_with_paths(example, carried) for example in batch.column(place).to_pylist()]
                columns = [*batch.columns[:place], pa.array(examples, pa.string()), *batch.columns[place + 1 :]]
                writer.write_table(pa.table(columns, schema=schema))
                yield sink.take()
    yield sink.take()


def _with_paths(text: str, carried: set[str]) -> str:
    example = json.loads(text)

    def place(name: str) -> str:
        if not STORED_NAME.fullmatch(name):
            return name
        carried.add(name)
        return f"{IMAGES}/{name}"

    return json.dumps(with_paths(example, place), ensure_ascii=False, separators=(",", ":"))


class Sink(io.RawIOBase):
    """Takes what a writer gives and hands it on; what is written so needs no way back."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._at = 0
        self.held = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        length = len(self._parts[-1])
        self._at += length
        self.held += length
        return length

    def take(self) -> bytes:
        taken, self._parts, self.held = b"".join(self._parts), [], 0
        return taken
