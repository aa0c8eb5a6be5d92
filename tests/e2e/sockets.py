"""A websocket client that sends exactly the headers it is told: what a program of somebody else's would do."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, RejectConnection, Request, TextMessage

PATH = "/_event/?EIO=4&transport=websocket&token=t"


class Turned(Exception):
    """Away at the door; the status says how."""


class Talk:
    def __init__(self, link: socket.socket, protocol: WSConnection) -> None:
        self._link, self._protocol = link, protocol

    def hear(self) -> str:
        while True:
            for event in self._protocol.events():
                if isinstance(event, TextMessage):
                    return event.data
                if isinstance(event, RejectConnection):
                    raise Turned(event.status_code)
                if isinstance(event, AcceptConnection):
                    continue
            received = self._link.recv(65536)
            self._protocol.receive_data(received or None)
            if not received:
                raise Turned("closed")

    def say(self, text: str) -> None:
        self._link.sendall(self._protocol.send(TextMessage(text)))


@contextmanager
def talk(port: int, headers: dict[str, str], path: str = PATH) -> Iterator[Talk]:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        protocol = WSConnection(ConnectionType.CLIENT)
        extra = [(name.encode(), value.encode()) for name, value in headers.items()]
        link.sendall(protocol.send(Request(host=f"127.0.0.1:{port}", target=path, extra_headers=extra)))
        yield Talk(link, protocol)
