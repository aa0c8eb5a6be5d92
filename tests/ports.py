"""Ports for the servers of tests."""

from __future__ import annotations

import os
import socket
from itertools import count

_FIRST, _EACH = 20_000, 1_000
"""Below the ports that the system gives to outgoing connections; one range per test process."""
_taken = count()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on and that no other test process is given."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw9").removeprefix("gw"))
    for _ in range(_EACH):
        port = _FIRST + worker % 10 * _EACH + next(_taken) % _EACH
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("All ports of this test process are in use.")
