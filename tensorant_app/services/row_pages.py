"""Rows of a Parquet file by page, and those that hold a word: only the row groups that are needed are read.

A row's text is JSON, and what is searched is that text as it lies in the file, which is fast; a page's rows are then
looked at closely, so that a word in a key or an escape is never taken for one that somebody wrote.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

from tensorant_app.domain.notices import texts_of

if TYPE_CHECKING:
    import pyarrow as pa

PAGE_ROWS = 50
_READERS = 2
"""Row groups that are read and searched at once."""
_ONE_BY_ONE, _TOGETHER = 16, 16
"""So many row groups are read singly, and so many at a time from then on: a search of many of them spends less on handing
them out than on reading."""
_at_once = BoundedSemaphore(2)
"""Searches of the whole process, so that a few people cannot take its computer."""
_FRAME = tuple(
    f'"{name}":'
    for name in ("messages", "role", "content", "weight", "name", "tools", "tool_calls", "tool_call_id", "type", "id")
) + tuple(f'"role":"{role}"' for role in ("system", "user", "assistant", "tool"))
_FRAME += ('"function":', '"arguments":', '"type":"function"', '"type":"text"', '"text":', '"description":')
"""What every row holds beside the words that somebody wrote; a word that stands in one of these is searched without."""
_ESCAPES = "nrtbfu"


def slice_rows(path: Path, columns: Sequence[str], start: int, limit: int = PAGE_ROWS) -> list[dict[str, Any]]:
    """Rows from `start`, counted from 0."""
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = []
    with pq.ParquetFile(path) as file:
        before = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if before + count > start and len(found) < limit:
                first = max(start - before, 0)
                table = file.read_row_group(group, columns=list(columns), use_threads=False)
                found.extend(table.slice(first, limit - len(found)).to_pylist())
            before += count
    return found


def search_rows(
    path: Path, columns: Sequence[str], word: str, start: int, limit: int = PAGE_ROWS
) -> tuple[list[dict[str, Any]], bool]:
    """Rows whose texts hold the word, whatever its case, from the match `start`; and whether there are more."""
    with closing(matching_rows(path, columns, word)) as matches:
        found = list(islice(matches, start, start + limit + 1))
    return found[:limit], len(found) > limit


def matching_rows(path: Path, columns: Sequence[str], word: str) -> Generator[dict[str, Any], None, None]:
    """Rows whose texts hold the word, in order; close it, and nothing more is read."""
    with _at_once, closing(_each_group(path, columns, _finder(word))) as groups:
        for rows in groups:
            for row in rows.to_pylist():
                if holds(row["example"], word):
                    yield row


def count_rows(path: Path, word: str) -> int:
    """How many rows hold the word."""
    with _at_once:
        return sum(_each_group(path, ["example"], _counter(word)))


def holds(example: str, word: str) -> bool:
    """Whether something that is read in training holds the word, whatever its case."""
    folded = word.casefold()
    return any(folded in text.casefold() for _, text in texts_of(json.loads(example)))


def _each_group(path: Path, columns: Sequence[str], look: Callable[[pa.Table], Any]) -> Generator[Any, None, None]:
    """What `look` makes of each row group, in order; no more are read than are asked for."""
    import pyarrow.parquet as pq

    def read(groups: range) -> list[Any]:
        with pq.ParquetFile(path, metadata=metadata) as file:
            return [look(file.read_row_group(one, columns=list(columns), use_threads=False)) for one in groups]

    metadata = pq.read_metadata(path)
    waiting: deque[Any] = deque()
    with ThreadPoolExecutor(_READERS) as pool:
        try:
            for groups in _portions(metadata.num_row_groups):
                waiting.append(pool.submit(read, groups))
                if len(waiting) > _READERS:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _portions(count: int) -> Iterator[range]:
    """Groups that a reader takes at once: few where a common word is soon found, many where a rare one is not."""
    first = min(count, _ONE_BY_ONE)
    yield from (range(n, n + 1) for n in range(first))
    yield from (range(n, min(n + _TOGETHER, count)) for n in range(first, count, _TOGETHER))


def _finder(word: str) -> Callable[[pa.Table], pa.Table]:
    """Rows that may hold the word."""
    return lambda table: table.filter(_matches(table.column("example"), word))


def _counter(word: str) -> Callable[[pa.Table], int]:
    """Rows that hold the word; those where an escape may only look like its beginning are read one by one."""
    import pyarrow.compute as pc

    def count(table: pa.Table) -> int:
        texts = table.column("example")
        hits = _matches(texts, word)
        if not word[:1].lower() or word[0].lower() not in _ESCAPES:
            return int(pc.sum(hits).as_py() or 0)
        doubtful = pc.and_(hits, pc.match_substring(texts, "\\" + _as_json(word), ignore_case=True))
        sure = (pc.sum(hits).as_py() or 0) - (pc.sum(doubtful).as_py() or 0)
        return int(sure) + sum(holds(text, word) for text in texts.filter(doubtful).to_pylist())

    return count


def _matches(texts: pa.ChunkedArray, word: str) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    needle = _as_json(word)
    for part in _FRAME:
        if needle.lower() in part:
            texts = pc.replace_substring(texts, part, " ")
    return pc.match_substring(texts, needle, ignore_case=True)


def _as_json(word: str) -> str:
    """As it stands inside a JSON text."""
    return json.dumps(word, ensure_ascii=False)[1:-1]
