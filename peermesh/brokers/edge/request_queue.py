"""What a client of the registry has asked for: what is carried out now, and what waits. Pure."""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

from peermesh.brokers.edge.messages import Ask
from wire.errors import RemoteProtocolError
from wire.limits import MIB

REQUESTS_MAX: Final = 16_384
"""Requests of one client that are not answered yet, before it is refused: two for each topic there
may be."""

REQUESTS_SIZE_MAX: Final = 32 * MIB
"""Bytes of them: the largest request there is, with as much again of ordinary ones."""

AT_ONCE_MAX: Final = 256
"""Requests of one client that are carried out at the same time. One after the other, each waits for
a turn of all tasks of the process: for tenths of a second, beside a thousand connections on a busy
machine. More at once only cost memory."""

_READING: Final = frozenset({"read"})

_OWN: Final = frozenset({"register", "unregister", "watch", "unwatch"})
"""Operations that concern one node, but change something. Those that are in neither set may concern
every node: they wait for all that came before, and what comes after waits for them."""


class RequestQueue:
    """The requests of one client: in order for each node, and at once for different nodes."""

    def __init__(self) -> None:
        self._waiting: deque[Ask] = deque()
        self._reading: Counter[str] = Counter()
        self._changing: set[str] = set()
        self._is_alone = False
        self._running = 0
        self._size = 0

    @property
    def size(self) -> int:
        """Count the bytes of requests that are not answered yet."""
        return self._size

    def add(self, ask: Ask) -> None:
        """Take a request in; raises ``RemoteProtocolError`` if too many are unanswered."""
        self._size += _size(ask)
        if len(self._waiting) + self._running >= REQUESTS_MAX or self._size > REQUESTS_SIZE_MAX:
            raise RemoteProtocolError("too much was asked at once: wait for answers")
        self._waiting.append(ask)

    def next(self) -> Ask | None:
        """Give the next request that may begin now; ``None`` until another one ends."""
        if not self._waiting or not self._may_begin(self._waiting[0]):
            return None
        ask = self._waiting.popleft()
        self._running += 1
        if ask.operation in _READING:
            self._reading[ask.path] += 1
        elif ask.operation in _OWN:
            self._changing.add(ask.path)
        else:
            self._is_alone = True
        return ask

    def _may_begin(self, ask: Ask) -> bool:
        if self._is_alone or self._running >= AT_ONCE_MAX or ask.path in self._changing:
            return False
        if ask.operation in _READING:
            return True
        return ask.path not in self._reading if ask.operation in _OWN else not self._running

    def end(self, ask: Ask) -> None:
        """Note that a request was answered."""
        self._size -= _size(ask)
        self._running -= 1
        self._is_alone = False
        self._changing.discard(ask.path)
        if ask.operation in _READING:
            self._reading[ask.path] -= 1
            if not self._reading[ask.path]:
                del self._reading[ask.path]


def _size(ask: Ask) -> int:
    """Give the bytes that a request holds, roughly."""
    return len(ask.operation) + len(ask.path) + len(ask.data)
