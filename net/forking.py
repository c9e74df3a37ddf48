"""Forks: a child process lets go at once of what it has inherited of its parent's endpoints.

Their tasks and threads live in the parent alone. In the child the sockets are closed, which the
parent does not notice: nothing is said to the peers, and nothing is shut down. Everything else
stays in memory untouched, for ever: above all connections to databases, whose end would be written
into files that are the parent's.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol
from weakref import WeakSet

from wire.errors import ForkedEndpoint
from wire.logs import logger_of

logger = logger_of("peermesh.endpoint")


class Socket(Protocol):
    """A socket of the kernel's: Python's own, or trio's."""

    def detach(self) -> int:
        """Give the descriptor, and own it no longer."""


class Inherited(Protocol):
    """What is of no use in a child process."""

    def forked(self) -> None:
        """Refuse whatever is asked from now on; called in the child. Takes no lock."""


_sockets: Final[WeakSet[Socket]] = WeakSet()
_holders: Final[WeakSet[Inherited]] = WeakSet()
_renewals: Final[list[Callable[[], object]]] = []


def own(sock: Socket) -> None:
    """Have a socket closed in children."""
    _sockets.add(sock)


def tell(holder: Inherited) -> None:
    """Have ``holder`` told when it is in a child, where it is then kept for ever."""
    _holders.add(holder)


def renew(function: Callable[[], object]) -> None:
    """Have a function called in children first, which makes new locks: the old ones may be held."""
    _renewals.append(function)


def error() -> ForkedEndpoint:
    """Give what calls of an inherited handle raise."""
    return ForkedEndpoint(
        "the endpoint was made before a fork, and lives in the parent process: make another one"
        " in this process"
    )


def _let_go() -> None:
    for function in _renewals:
        function()
    for sock in list(_sockets):
        with suppress(OSError):
            os.close(sock.detach())
    _sockets.clear()
    holders = list(_holders)
    _holders.clear()
    for holder in holders:
        # One reference too many: not even the end of the interpreter takes it down.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder))
        try:
            holder.forked()
        except Exception:  # One that fails must not leave the others open.
            logger.exception("an endpoint could not be left in a child process; this is a bug")


if hasattr(os, "register_at_fork"):  # Windows knows no forks.
    os.register_at_fork(after_in_child=_let_go)
