"""The client on a real connection that breaks in the ways connections break."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tensorant_app.domain.errors import AuthFailed, DenialReason, Denied, Transient, Unknown
from tensorant_app.providers import runpod_api
from tensorant_app.providers.runpod import RunPodProvider
from tensorant_app.providers.runpod_api import RunPodApi
from tests.providers.answers import INSTALLATION, a_request

Act = Callable[[socket.socket], None]
EMPTY = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: keep-alive\r\n\r\n{"pods":[]}'


@contextmanager
def server(*acts: Act) -> Iterator[tuple[str, list[bytes]]]:
    """Each connection gets the next act, the last one for ever; also the requests that arrived."""
    arrived: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        number = 0
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                arrived.append(read_request(connection))
                acts[min(number, len(acts) - 1)](connection)
            number += 1

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", arrived
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := connection.recv(65536)):
            return data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def say(text: bytes) -> Act:
    return lambda connection: connection.sendall(text)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def trickle(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 100000\r\n\r\n")
    try:
        for _ in range(200):
            connection.sendall(b" ")
            time.sleep(0.02)
    except OSError:
        return


def account(url: str) -> RunPodProvider:
    return RunPodProvider(RunPodApi("rpa_key", url), INSTALLATION)


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda connection: None, id="closed without a word"),
        pytest.param(reset, id="reset"),
        pytest.param(say(b"HTTP/1.1 201 Created\r\nContent-Length: 900\r\n\r\n{"), id="broken off in the body"),
        pytest.param(say(b"SSH-2.0-OpenSSH_9.2\r\n"), id="not HTTP"),
        pytest.param(trickle, id="trickling"),
    ],
)
def test_a_request_that_left_and_got_no_whole_answer_may_have_made_a_pod(
    act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runpod_api, "_SECONDS", 0.3)
    with server(act) as (url, arrived):
        began = time.monotonic()
        with pytest.raises(Unknown):
            account(url).create(a_request())

    assert len(arrived) == 1
    assert time.monotonic() - began < 3


def test_nobody_listening_is_definite() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"

    with pytest.raises(Denied, match="Nothing was sent") as caught:
        account(url).create(a_request())

    assert caught.value.reason is DenialReason.UNREACHABLE


def test_a_paid_call_never_rides_on_a_kept_connection() -> None:
    """The other side may have closed it just now: a launch would be lost between the two."""
    with server(say(EMPTY)) as (url, arrived):
        provider = account(url)
        provider.listing()
        with pytest.raises(Unknown):  # an empty list is no Pod
            provider.create(a_request())

    assert [request.split(b" ")[0] for request in arrived] == [b"GET", b"POST"]
    assert b"user-agent: tensorant/" in arrived[1].lower()


def test_a_list_that_breaks_off_is_not_read_as_empty() -> None:
    with server(say(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{")) as (url, _), pytest.raises(Transient):
        account(url).listing()


@pytest.mark.parametrize("key", ["", "rpa_ä", "rpa_a b", "rpa_a\r\nX-Evil: 1"])
def test_a_key_that_could_not_travel_is_refused_before_anything_is_sent(key: str) -> None:
    with pytest.raises(AuthFailed, match="characters that no key has"):
        RunPodApi(key, "https://api.example.org")
