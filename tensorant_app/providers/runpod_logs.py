"""A Pod's log as a stream of server-sent events, read on behind a cursor."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator

from tensorant_app.providers.base import LogLine
from tensorant_app.providers.runpod_api import Lost, RunPodApi
from tensorant_app.providers.runpod_reading import read_time

_FIRST_LINES = 5000
"""As many as RunPod hands out of the past."""
_LONGEST_LINE = 64 * 1024
_QUIET = 3.0
"""Seconds without a line, after which a stream is left."""


def read_log(api: RunPodApi, pod_id: str, after: str | None) -> Iterator[LogLine]:
    """Lines until the stream ends, or is silent for some seconds; ask again with the last cursor then.

    RunPod numbers the lines of one second in some answers and not in others: where it does not, a line of the cursor's
    own second may come a second time, and none is left out.
    """
    params: dict[str, str | int] = {} if after else {"tail": _FIRST_LINES}
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after else {})
    try:
        with api.stream(f"/pods/{pod_id}/logs", params, headers) as response:
            for number, data in events(_until_quiet(response.iter_bytes())):
                if (after is None or not _is_behind(number, after)) and (line := _line(number, data)):
                    yield line
    except Lost:
        return  # silent, or broken off: nothing is lost, the next call reads on


def _until_quiet(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A stream that is only kept alive has nothing more to say now."""
    last = time.monotonic()
    for piece in pieces:
        if b"data:" in piece:
            last = time.monotonic()
        elif time.monotonic() - last > _QUIET:
            return
        yield piece


def events(pieces: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """(id, data) of each event; comments and other fields are left out, and so is a line too long to be one of ours."""
    number = ""
    data: list[str] = []
    for line in _lines(pieces):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            if data:
                yield number, "\n".join(data)
            data = []
        elif field == "id":
            number = value
        elif field == "data":
            data.append(value)
    if data:
        yield number, "\n".join(data)


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line[:_LONGEST_LINE].decode(errors="replace").removesuffix("\r")
        rest = rest[:_LONGEST_LINE]
    if rest:
        yield rest.decode(errors="replace")


def _line(number: str, data: str) -> LogLine | None:
    try:
        event = json.loads(data)
    except ValueError:
        return None
    if not isinstance(event, dict) or not isinstance(event.get("line"), str):
        return None
    stamp = event.get("ts")
    return LogLine(read_time(stamp), str(event.get("source") or "container"), event["line"], number or str(stamp or ""))


def _is_behind(number: str, after: str) -> bool:
    """Whether the cursor already stands at or past this event: a server that starts over must not double its lines."""
    if "/" in number and "/" in after:
        return number <= after
    return number < after
