"""A Pod's log as it streams in, breaks off and goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest

from tensorant_app.domain.errors import AuthFailed, Denied, Transient
from tensorant_app.providers.runpod_logs import events
from tests.providers.answers import Answers, account, problem

AT = "2026-12-01T12:02:03Z"


def event(number: str, line: str, source: str = "container") -> bytes:
    data = json.dumps({"ts": AT, "source": source, "line": line})
    return f"id: {number}\ndata: {data}\n\n".encode()


def stream(*pieces: bytes, then: Exception | None = None) -> httpx.Response:
    def give() -> Iterator[bytes]:
        yield from pieces
        if then:
            raise then

    return httpx.Response(200, content=give(), headers={"content-type": "text/event-stream"})


def test_lines_carry_time_source_and_cursor() -> None:
    answers = Answers(
        stream(event(f"{AT}/000000000001", "pulling image", "system"), event(f"{AT}/000000000002", "ready"))
    )

    first, second = account(answers).logs("pod_a")

    assert (first.source, first.text, first.cursor) == ("system", "pulling image", f"{AT}/000000000001")
    assert second.at == datetime(2026, 12, 1, 12, 2, 3, tzinfo=UTC)
    assert answers.requests[0].url.params["tail"] == "5000"
    assert answers.requests[0].headers["Accept"] == "text/event-stream"
    assert "Last-Event-ID" not in answers.requests[0].headers


def test_it_reads_on_behind_its_cursor_and_repeats_nothing() -> None:
    old, new = event(f"{AT}/000000000001", "one"), event(f"{AT}/000000000002", "two")
    answers = Answers(stream(old, new))

    lines = list(account(answers).logs("pod_a", f"{AT}/000000000001"))

    assert [line.text for line in lines] == ["two"]
    assert answers.requests[0].headers["Last-Event-ID"] == f"{AT}/000000000001"
    assert "tail" not in answers.requests[0].url.params


def test_without_numbers_a_line_may_come_twice_but_none_is_left_out() -> None:
    answers = Answers(
        stream(event("2026-12-01T12:02:02Z", "before"), event(AT, "seen"), event(AT, "of the same second"))
    )

    lines = list(account(answers).logs("pod_a", AT))

    assert [line.text for line in lines] == ["seen", "of the same second"]


@pytest.mark.parametrize("then", [httpx.ReadTimeout("silent"), httpx.RemoteProtocolError("broken off")])
def test_a_stream_that_falls_silent_or_breaks_ends_with_what_it_brought(then: Exception) -> None:
    answers = Answers(stream(event("1", "one"), b'id: 2\ndata: {"line": "tw', then=then))

    assert [line.text for line in account(answers).logs("pod_a")] == ["one"]


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (problem(404, "pod not found"), Denied),
        (problem(401, "no"), AuthFailed),
        (problem(429, "slow"), Transient),
        (problem(500, "x"), Transient),
    ],
)
def test_a_log_that_is_refused_says_so(reply: httpx.Response, error: type[Exception]) -> None:
    with pytest.raises(error):
        list(account(Answers(reply)).logs("pod_a"))


def test_events_are_read_however_the_pieces_fall() -> None:
    whole = b": hello\r\n\r\nid: 1\r\ndata: a\r\ndata: b\r\nretry: 5\r\n\r\nid: 2\ndata:c\n\n"

    for size in (1, 2, 3, 7, 1000):
        pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
        assert list(events(pieces)) == [("1", "a\nb"), ("2", "c")]


def test_what_is_no_line_is_left_out() -> None:
    odd = [b"data: not json\n\n", b"data: [1]\n\n", b'data: {"line": 5}\n\n', b"data: " + b"x" * 200_000 + b"\n\n"]

    lines = list(account(Answers(stream(*odd, event("9", "good")))).logs("pod_a"))

    assert [line.text for line in lines] == ["good"]
