"""Subscribers for threads: messages cross the thread in groups, and are decoded by their reader."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from typing import Final, Self

from endpoint.closing import Closing
from endpoint.loop import EndpointLoop
from endpoint.mailbox import QUEUE_BYTES_MAX, Mailbox, Message, Pair
from peermesh.blocking.portal import Portal
from wire.errors import EndpointClosed

GATHER_DIVISOR: Final = 8
"""A reader who waits is woken when an eighth of its queue is full, or nothing more follows at once:
two threads that wake each other for every read of 128 KiB took a quarter more time for 10 KB."""


class Subscriber(Closing):
    """Messages on topics that begin with given prefixes, in a bounded queue.

    Safe to use from many threads at once: each message goes to one of them.
    """

    def __init__(self, portal: Portal, loop: EndpointLoop, mailbox: Mailbox) -> None:
        """Use ``Endpoint.subscribe``."""
        self._portal = portal
        self._loop = loop
        self._mailbox = mailbox
        self._ready: deque[Pair] = deque()
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_waiting = False
        self._is_closed = False
        self._lock = threading.Lock()

    def get(self, timeout: float | None = None) -> Message:
        """Wait for the next message, for ``timeout`` seconds at most.

        Raises ``TimeoutError`` then, and ``EndpointClosed`` when the subscriber is closed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return tuple.__new__(Message, self._ready.popleft())
            except IndexError:
                self._refill(deadline)

    def get_batch(self, timeout: float | None = None) -> list[Pair]:
        """Wait for a message, and take all others that are there, too; raises as ``get`` does."""
        first = self.get(timeout)
        return [first, *self.poll()]

    def poll(self) -> list[Pair]:
        """Take all messages that are there, without waiting."""
        with self._lock:
            ready, self._ready = self._ready, deque()
            batch = list(ready)
            while not self._mailbox.is_empty():
                self._mailbox.take(batch)
            self._make_room()
        return batch

    def available(self) -> int:
        """Count the messages that are there."""
        return self._mailbox.waiting + len(self._ready)

    def add_topic(self, topic: str) -> None:
        """Want messages whose topic begins with this, too."""
        self._portal.call_sync(self._loop.add_topics, self._mailbox, (topic,))

    def remove_topic(self, topic: str) -> None:
        """No longer want messages for the sake of this prefix."""
        self._portal.call_sync(self._loop.remove_topics, self._mailbox, (topic,))

    @property
    def dropped(self) -> int:
        """Messages dropped because nobody read them for the stall time."""
        return self._mailbox.dropped

    def _refill(self, deadline: float | None) -> None:
        with self._lock:
            mailbox = self._mailbox
            while not self._ready:
                if not mailbox.is_empty():
                    mailbox.take(self._ready)
                    continue
                if self._is_closed:
                    raise EndpointClosed("the subscriber is closed, and was read to its end")
                self._wait(deadline)
            self._make_room()

    def _wait(self, deadline: float | None) -> None:
        # The order matters: the loop looks at the flag after it has put a group in.
        self._is_waiting = True
        if not self._mailbox.is_empty() or self._is_closed:
            return
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            self._wakeups.get(timeout=timeout)
        except queue.Empty:
            if self._mailbox.is_empty():  # Else more was waited for, which is not necessary.
                raise TimeoutError("no message in time") from None

    def _make_room(self) -> None:
        if self._mailbox.is_holding and self._mailbox.has_room:
            self._mailbox.is_holding = False
            self._portal.soon(self._release)

    def _release(self) -> None:
        self._loop.release(self._mailbox)

    # For the loop, in its thread.

    def wake(self, *, more_follows: bool) -> None:
        """There is something to read: let it gather, if more follows at once."""
        if self._is_waiting and not (more_follows and self._is_little()):
            self._is_waiting = False
            self._wakeups.put(None)

    def _is_little(self) -> bool:
        mailbox = self._mailbox
        return (
            mailbox.waiting < mailbox.capacity // GATHER_DIVISOR
            and mailbox.waiting_bytes < QUEUE_BYTES_MAX // GATHER_DIVISOR
        )

    def ready_count(self) -> int:
        """Count what was taken from the mailbox and not handed out yet."""
        return len(self._ready)

    def end(self) -> None:
        """Nothing comes any more."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_topics(self._mailbox, None)
            self._wakeups.put(None)

    def close(self) -> None:
        """Want nothing any more. What is there can still be read."""
        if not self._is_closed:
            self._portal.call_sync(self.end)

    def __iter__(self) -> Self:
        """Iterate until the subscriber or its endpoint is closed."""
        return self

    def __next__(self) -> Message:
        """Wait for the next message."""
        try:
            return tuple.__new__(Message, self._ready.popleft())
        except IndexError:
            try:
                return self.get()
            except EndpointClosed:
                raise StopIteration from None
