"""Ports for a test that has to know one before anything listens there."""

from __future__ import annotations

import os
import socket
from itertools import count

FIRST = 10_000
"""Below what systems hand out by themselves: there any program may come in between."""

SHARES, SHARE_SIZE = 200, 100
"""Each process has its own hundred, so that two runs of the tests do not meet."""

_numbers = count()


def free_port() -> int:
    """Give a port of this process's own at which nothing listens."""
    while True:
        port = FIRST + os.getpid() % SHARES * SHARE_SIZE + next(_numbers) % SHARE_SIZE
        with socket.socket() as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
