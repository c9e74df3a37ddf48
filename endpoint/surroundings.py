"""What an endpoint takes from the world around it: time of day, chance, the network, files.

Read once, by each new endpoint. A simulation puts its own in their place, for the tasks that it
runs; everybody else has the system's.
"""

from __future__ import annotations

import random
import secrets
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from handshake.signing import SEED_SIZE
from net.transport import MakeTransport, transport_of
from wire.identifiers import EndpointId

if TYPE_CHECKING:
    from stores.disk.log_files import LogReplicaRows
    from stores.disk.medium import Medium
    from stores.disk.replica import ReplicaRows

ReplicaOpener = Callable[[str, dict[str, object]], "tuple[ReplicaRows, Medium]"]
"""Gives the file of a store at a path, with the options of ``Backend.SQLite``, and its ballot's."""

LogReplicaOpener = Callable[[str, dict[str, object]], "tuple[LogReplicaRows, Medium]"]
"""Gives the file of a log's replica at a path, with the same options, and its ballot's."""


def _now_ns() -> int:
    # Asked of the module each time, so that a test may set the clock of a process.
    return time.time_ns()


def _new_seed() -> bytes:
    return secrets.token_bytes(SEED_SIZE)


def _new_id() -> EndpointId:
    return EndpointId(uuid.uuid4().bytes)


def _program() -> str:
    return next(iter(sys.argv), "")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The world of one endpoint; the system's unless told otherwise."""

    now_ns: Callable[[], int] = _now_ns
    """The time of day, in nanoseconds of Unix time."""
    chance: Callable[[], float] = random.random
    """Numbers from 0 to 1, for jitter."""
    new_id: Callable[[], EndpointId] = _new_id
    """An id that no endpoint ever had."""
    new_seed: Callable[[], bytes] = _new_seed
    """What the key of an endpoint that signs is made from: nobody may ever guess it."""
    program: Callable[[], str] = _program
    """The first of ``sys.argv``: what endpoints call themselves that were given no name."""
    open_tcp_stream: Callable[..., Awaitable[trio.SocketStream]] = trio.open_tcp_stream
    open_tcp_listeners: Callable[..., Awaitable[list[trio.SocketListener]]] = (
        trio.open_tcp_listeners
    )
    make_transport: MakeTransport = transport_of
    """Makes transports of what these two open and accept."""
    open_replica: ReplicaOpener | None = None
    """Makes the files that keep a store; ``None`` is SQLite."""
    open_log_replica: LogReplicaOpener | None = None
    """Makes those of a log's replica."""


surroundings: Final[ContextVar[Surroundings]] = ContextVar(
    "surroundings",
    default=Surroundings(),  # noqa: B039 - it is frozen
)
"""The surroundings of endpoints that are made in this task."""
