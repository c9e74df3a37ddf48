"""Subscribers: what a user reads messages from, in trio."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Iterable
from typing import Protocol, Self

import trio

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.closing import EitherClosing
from endpoint.pubsub.mailbox import Mailbox
from endpoint.pubsub.messages import Message, Pair
from net.wakeup import Wakeup
from wire.errors import FAILURES, EndpointClosed, LocalProtocolError, SubscriberOverflow
from wire.public import public
from wire.topics import check_topic


class SubscriberHost(Protocol):
    """What a subscriber needs of its endpoint."""

    def add_topics(self, mailbox: Mailbox, topics: Iterable[str]) -> None:
        """Want more."""

    def remove_topics(self, mailbox: Mailbox, topics: Iterable[str] | None) -> None:
        """Want less; ``None`` is nothing any more."""

    def release(self, mailbox: Mailbox) -> None:
        """A mailbox that publishers waited for has room again."""

    def topics_of(self, mailbox: Mailbox) -> tuple[str, ...]:
        """Give the prefixes that a mailbox wants."""

    def check_process(self) -> None:
        """Raise ``ForkedEndpoint`` in a child process."""


class AnyWakeup(Protocol):
    """What a reader waits for; see ``net.wakeup``."""

    def wait(self) -> Awaitable[object]:
        """Give what to await: the next ``wake``."""

    def wake(self) -> None:
        """Wake all that wait."""


_new = tuple.__new__
"""Names a pair at the cost of the interpreter's own constructor."""


@public
class Subscriber(EitherClosing):
    """Messages on topics that begin with given prefixes, in a bounded queue (seed 7.1).

    Read it with ``async for topic, data in subscriber``, or with ``get`` and ``poll``. In threads
    it is ``for``, and many may share it: each message goes to one of them. Received values are
    immutable; ``peermesh.plain`` gives dicts and lists. A subscriber that is full slows its
    publishers down; see ``Missed`` for one that is not read at all.
    """

    def __init__(
        self, host: SubscriberHost, mailbox: Mailbox, wakeup: AnyWakeup | None = None
    ) -> None:
        """Use ``Endpoint.subscribe``. A front end has a ``wakeup`` of its own."""
        self._host = host
        self._mailbox = mailbox
        self._ready: deque[Pair] = deque()
        self._wakeup = Wakeup() if wakeup is None else wakeup
        self._is_closed = False

    def __repr__(self) -> str:
        """Show the topics, and how many messages wait."""
        topics = ", ".join(map(repr, self._host.topics_of(self._mailbox)))
        state = "closed" if self._is_closed else topics
        return f"<Subscriber {state} waiting={self.available()} dropped={self.dropped}>"

    async def get(self, timeout: Seconds = None) -> Message:
        """Wait for the next message, for ``timeout`` seconds at most.

        Raises ``TimeoutError`` then, and ``EndpointClosed`` when the subscriber is closed and read
        to its end; ``SubscriberOverflow`` if ``overflow="error"`` and the queue was full; in a
        forked child ``ForkedEndpoint``.
        """
        if timeout is not None:
            timeout = arguments.seconds("timeout", timeout)
        if not self._ready:
            await (self._refill() if timeout is None else self._wait(timeout))
        return _new(Message, self._ready.popleft())

    async def get_batch(self, timeout: Seconds = None) -> list[Pair]:
        """Wait for a message, and take all others that are there, too; raises as ``get`` does.

        The counterpart of ``publish_batch``, and the least that a message can cost its reader: its
        messages are plain pairs of topic and data.
        """
        if timeout is not None:
            timeout = arguments.seconds("timeout", timeout)
        if not self._ready:
            await (self._refill() if timeout is None else self._wait(timeout))
        return self.poll()

    def poll(self) -> list[Pair]:
        """Take all messages that are there, as pairs of topic and data, without waiting."""
        mailbox, batch = self._mailbox, list(self._ready)
        self._ready.clear()
        try:
            while not mailbox.is_empty():
                mailbox.take(batch)
        except SubscriberOverflow:
            self.end()
            if not batch:  # Else the next read raises it.
                raise
        self._make_room()
        return batch

    def available(self) -> int:
        """Count the messages that are there."""
        return self._mailbox.waiting + len(self._ready)

    def add_topic(self, topic: str) -> None:
        """Want messages whose topic begins with this, too."""
        wanted = arguments.prefix("topic", topic)
        if self._is_closed:
            raise LocalProtocolError("the subscriber is closed: subscribe anew")
        self._host.add_topics(self._mailbox, (wanted,))

    def remove_topic(self, topic: str) -> None:
        """No longer want messages for the sake of this prefix."""
        self._host.remove_topics(self._mailbox, (check_topic(topic),))

    @property
    def dropped(self) -> int:
        """Messages dropped because the subscriber was not read for the stall time."""
        return self._mailbox.dropped

    def close(self) -> None:
        """Want nothing any more. What is there can still be read."""
        self.end()

    def end(self) -> None:
        """Want nothing any more; for the loop."""
        if not self._is_closed:
            self._is_closed = True
            self._host.remove_topics(self._mailbox, None)
            self._wakeup.wake()

    async def _wait(self, timeout: float) -> None:
        """Wait until something is ready; raises ``TimeoutError``."""
        with trio.move_on_after(timeout):
            await self._refill()
        if not self._ready:
            raise TimeoutError(f"no message within {timeout} s")

    async def _refill(self) -> None:
        mailbox, ready = self._mailbox, self._ready
        while not ready:
            if not mailbox.is_empty():
                await trio.lowlevel.checkpoint_if_cancelled()
            elif self._is_closed:
                raise EndpointClosed("the subscriber is closed, and was read to its end")
            else:
                self._host.check_process()
                await self._wakeup.wait()
            try:
                mailbox.take(ready)
            except SubscriberOverflow:
                self.end()
                raise
        if mailbox.is_holding or mailbox.is_withholding:
            self._make_room()

    def _make_room(self) -> None:
        if self._mailbox.release():
            self._host.release(self._mailbox)

    # For the loop.

    def wake(self, more_follows: bool) -> None:  # noqa: FBT001 - called for each read: an argument by name costs more
        """There is something to read; if ``more_follows`` at once, a reader may let it gather."""
        self._wakeup.wake()

    def ready_count(self) -> int:
        """Count what was taken from the mailbox and not handed out yet."""
        return len(self._ready)

    def __aiter__(self) -> Self:
        """Iterate until the subscriber or its endpoint is closed."""
        return self

    async def __anext__(self) -> Pair:
        """Wait for the next message, a plain pair: names would take a fifth of the rate."""
        if not self._ready:
            try:
                await self._refill()
            except FAILURES:
                raise
            except EndpointClosed:
                raise StopAsyncIteration from None
        return self._ready.popleft()
