"""The provider on 127.0.0.1: one port for the API, one for S3, a thread for each connection."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from tests.runpod_emulator.api import handle
from tests.runpod_emulator.s3 import handle_s3
from tests.runpod_emulator.wire import Request, Response
from tests.runpod_emulator.world import World

Handle = Callable[[World, Request], Response]
_NEWS_SECONDS = 0.2


class Server:
    """Serves until it is closed; a port of 0 takes any free one."""

    def __init__(self, world: World, *, api_port: int = 0, s3_port: int = 0) -> None:
        self.world = world
        self._closed = threading.Event()
        self._api = _listen(world, handle, api_port)
        self._s3 = _listen(world, handle_s3, s3_port)
        self.api_url = f"http://127.0.0.1:{self._api.server_address[1]}/v2"
        self.s3_url = f"http://127.0.0.1:{self._s3.server_address[1]}"

    def start(self) -> None:
        self.world.wait = self._wait
        for server in (self._api, self._s3):
            threading.Thread(target=server.serve_forever, args=(0.01,), name="emulator", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        for server in (self._api, self._s3):
            server.shutdown()
            server.server_close()

    def _wait(self) -> bool:
        """For a log stream that is being followed."""
        time.sleep(_NEWS_SECONDS)
        self.world.tick()
        return not self._closed.is_set()


def _listen(world: World, answer: Handle, port: int) -> ThreadingHTTPServer:
    class Visitor(_Visitor):
        def respond(self, request: Request) -> Response:
            return answer(world, request)

    server = ThreadingHTTPServer(("127.0.0.1", port), Visitor)
    server.daemon_threads = True
    return server


class _Visitor(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Small answers must not wait for the other side's acknowledgement.
    disable_nagle_algorithm = True

    def respond(self, request: Request) -> Response:
        raise NotImplementedError

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("content-length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = _Counted(self.rfile, length)
        pairs = parse_qsl(query, keep_blank_values=True)
        response = self.respond(Request(self.command, path, pairs, headers, body, length))  # type: ignore[arg-type]
        body.drain()
        if response.is_lost:
            self._hang_up()
            return
        time.sleep(response.delay)
        self._answer(response)

    def _answer(self, response: Response) -> None:
        self.send_response_only(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        has_length = "content-length" in response.headers
        if response.stream is None and not has_length:
            self.send_header("content-length", str(len(response.body)))
        if response.stream is not None:
            # An event stream ends with its connection; a file cut short must end it too.
            self.send_header("connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command == "HEAD":
            return
        for piece in response.stream or (response.body,):
            self.wfile.write(piece)

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Whatever the method is: one that an address does not know is answered with 405 by the API itself."""
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)


class _Counted:
    """The body of one request and not a byte of the next."""

    def __init__(self, source: Any, length: int) -> None:
        self._source, self._left = source, length

    def read(self, size: int = -1) -> bytes:
        piece: bytes = self._source.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(piece)
        return piece

    def drain(self) -> None:
        while self._left > 0 and self.read(1 << 20):
            pass
