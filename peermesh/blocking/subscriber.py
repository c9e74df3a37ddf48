"""Subscribers for threads: messages cross the thread in groups, and are decoded by their reader."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Self

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.closing import Closing
from endpoint.loop import EndpointLoop
from endpoint.pubsub.mailbox import Mailbox
from endpoint.pubsub.messages import Message, Messages, Pair
from peermesh.blocking.descriptor import Descriptor
from peermesh.blocking.living import Passage
from wire.errors import FAILURES, EndpointClosed, SubscriberOverflow
from wire.topics import check_topic

GATHER_DIVISOR: Final = 8
"""A reader that waits is woken when an eighth of its queue is full, or nothing more follows at
once: two threads that wake each other for every read of 128 KiB took a quarter more time for
10 KB."""

_new = tuple.__new__
"""Names a pair at the cost of the interpreter's own constructor."""


class _Signalled(deque[Pair]):
    """Messages at hand, of a subscriber with a descriptor: it is told when the last one is gone."""

    def __init__(self, settle: Callable[[], object]) -> None:
        super().__init__()
        self._settle = settle

    def popleft(self) -> Pair:
        pair = super().popleft()
        if not self:
            self._settle()
        return pair


class Subscriber(Closing):
    """Messages on topics that begin with given prefixes, in a bounded queue (seed 7.1).

    Read it with ``async for topic, data in subscriber``, or with ``get`` and ``poll``. In threads
    it is ``for``, and many may share it: each message goes to one of them. Received values are
    immutable; ``peermesh.plain`` gives dicts and lists. A subscriber that is full slows its
    publishers down; see ``Missed`` for one that is not read at all.
    """

    def __init__(
        self, passage: Passage, loop: EndpointLoop, mailbox: Mailbox, topics: Iterable[str]
    ) -> None:
        """Use ``Endpoint.subscribe``."""
        self._passage = passage
        self._loop = loop
        self._mailbox = mailbox
        self._topics = dict.fromkeys(topics)
        """The prefixes that are wanted, for people to see."""
        self._ready: deque[Pair] = deque()
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_waiting = False
        self._is_closed = False
        self._is_ended = False
        """Whether the end of the endpoint closed it."""
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._release_soon = passage.guarded(self._release)
        self._descriptor: Descriptor | None = None
        passage.hold(self)

    def __repr__(self) -> str:
        """Show the topics, and how many messages wait."""
        state = "closed " if self._is_closed else ""
        waiting = self._mailbox.waiting + len(self._ready)
        return f"<Subscriber {', '.join(list(self._topics))} {state}waiting={waiting}>"

    def get(self, timeout: Seconds = None) -> Message:
        """Wait for the next message, for ``timeout`` seconds at most.

        Raises ``TimeoutError`` then, and ``EndpointClosed`` when the subscriber is closed and read
        to its end; ``SubscriberOverflow`` if ``overflow="error"`` and the queue was full; in a
        forked child ``ForkedEndpoint``.
        """
        deadline = None if timeout is None else _deadline(timeout)
        while True:
            try:
                return _new(Message, self._ready.popleft())
            except IndexError:
                self._refill(deadline)

    def get_batch(self, timeout: Seconds = None) -> list[Pair]:
        """Wait for a message, and take all others that are there, too; raises as ``get`` does.

        The counterpart of ``publish_batch``, and the least that a message can cost its reader: its
        messages are plain pairs of topic and data.
        """
        first = self.get(timeout)
        return [first, *self.poll()]

    def poll(self) -> list[Pair]:
        """Take all messages that are there, as pairs of topic and data, without waiting."""
        self._passage.check_process()
        with self._lock:
            ready = self._ready
            is_signalled = self._descriptor is not None
            self._ready = _Signalled(self._settle) if is_signalled else deque()
            batch = list(ready)
            try:
                while not self._mailbox.is_empty():
                    self._take(batch)
            except SubscriberOverflow:
                if not batch:  # Else the next read raises it.
                    raise
            self._make_room()
            self._settle()
        return batch

    def available(self) -> int:
        """Count the messages that are there."""
        self._passage.check_process()
        return self._mailbox.waiting + len(self._ready)

    def add_topic(self, topic: str) -> None:
        """Want messages whose topic begins with this, too."""
        wanted = arguments.prefix("topic", topic)
        self._change(self._loop.add_topics, wanted)
        self._topics[wanted] = None

    def remove_topic(self, topic: str) -> None:
        """No longer want messages for the sake of this prefix."""
        unwanted = check_topic(topic)
        self._change(self._loop.remove_topics, unwanted)
        self._topics.pop(unwanted, None)

    def _change(self, change: Callable[[Mailbox, Iterable[str]], None], topic: str) -> None:
        if self._is_closed and not self._is_ended:
            raise EndpointClosed("the subscriber is closed: subscribe anew")
        self._passage.call_sync(change, self._mailbox, (topic,))

    @property
    def dropped(self) -> int:
        """Messages dropped because the subscriber was not read for the stall time."""
        return self._mailbox.dropped

    def _refill(self, deadline: float | None) -> None:
        if self._passage.is_here():
            raise RuntimeError("get() would wait for its own thread: call it in another one")
        # One thread at a time waits for the loop; the others wait for their turn, each until its
        # own deadline. What does not wait takes the other lock.
        if not self._turn.acquire(timeout=-1 if deadline is None else _left(deadline)):
            raise TimeoutError("no message in time")
        try:
            while not self._take_in():
                self._wait(deadline)
        finally:
            self._turn.release()

    def _take_in(self) -> bool:
        """Have something ready; false if there is nothing yet."""
        with self._lock:
            mailbox = self._mailbox
            while not self._ready:
                if not mailbox.is_empty():
                    self._take(self._ready)
                elif self._is_closed:
                    raise self._closed()
                else:
                    return False
            self._make_room()
            self._settle()
        return True

    def _take(self, ready: Messages) -> None:
        try:
            self._mailbox.take(ready)
        except SubscriberOverflow:
            with suppress(EndpointClosed):  # Then it has ended.
                self._passage.soon(self._finish)
            raise

    def _closed(self) -> Exception:
        text = "the subscriber is closed, and was read to its end: subscribe anew"
        return self._passage.await_error(text) if self._is_ended else EndpointClosed(text)

    def _wait(self, deadline: float | None) -> None:
        # The order matters: the loop looks at the flag after it has put a group in.
        self._is_waiting = True
        if not self._mailbox.is_empty() or self._is_closed:
            return
        # The loop may have held up publishers just after this thread took what filled the mailbox.
        self._make_room()
        try:
            self._wakeups.get(timeout=None if deadline is None else _left(deadline))
        except queue.Empty:
            if self._mailbox.is_empty():  # Else more was waited for, which is not necessary.
                raise TimeoutError("no message in time") from None

    def _make_room(self) -> None:
        if self._mailbox.release():
            with suppress(EndpointClosed):  # Then no publishers wait.
                self._passage.soon(self._release_soon)

    def _release(self) -> None:
        self._loop.release(self._mailbox)

    # A descriptor to wait for.

    def fileno(self) -> int:
        """Give a descriptor that is readable while messages wait, for ``select`` and its like.

        It is readable at the end, too, when ``get`` says that no more come. Leave the reading of it
        to the subscriber, and the closing to ``close``. Linux has such descriptors, other systems
        have not.
        """
        self._passage.check_process()
        with self._lock:
            if self._descriptor is None:
                if self._is_closed:
                    raise self._closed()
                descriptor = Descriptor(self)
                ready, self._ready = self._ready, _Signalled(self._settle)
                while ready:
                    with suppress(IndexError):  # Another thread has just taken the last one.
                        self._ready.append(ready.popleft())
                self._descriptor = descriptor
                self._settle()
            return self._descriptor.number

    def _settle(self) -> None:
        descriptor = self._descriptor
        if descriptor is not None:
            descriptor.settle(self._is_readable)

    def _is_readable(self) -> bool:
        return bool(self._ready) or not self._mailbox.is_empty() or self._is_closed

    # For the loop, in its thread.

    def wake(self, more_follows: bool) -> None:  # noqa: FBT001 - called for each read: an argument by name costs more
        """There is something to read; if ``more_follows`` at once, a reader may let it gather."""
        if self._descriptor is not None:
            self._settle()
        if self._is_waiting and not (more_follows and self._is_little()):
            self._is_waiting = False
            self._wakeups.put(None)

    def _is_little(self) -> bool:
        mailbox, queueing = self._mailbox, self._mailbox.queueing
        return (
            mailbox.waiting < queueing.queue_size // GATHER_DIVISOR
            and mailbox.waiting_bytes < queueing.queue_bytes // GATHER_DIVISOR
        )

    def ready_count(self) -> int:
        """Count what was taken from the mailbox and not handed out yet."""
        return len(self._ready)

    def end(self) -> None:
        """Take in that the endpoint ends, and nothing comes any more."""
        self._is_ended = True
        self._finish()

    def _finish(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_topics(self._mailbox, None)
            self._wakeups.put(None)
            self._settle()

    def close(self) -> None:
        """Want nothing any more. What is there can still be read."""
        if not self._is_closed:
            with suppress(EndpointClosed):  # Then it is closed.
                self._passage.call_sync(self._finish)
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            descriptor.close()

    # For the endpoint's life.

    def ended(self) -> None:
        """Take in that the endpoint is over, in whatever way."""
        if not self._is_closed:
            self._is_closed = self._is_ended = True
            self._wakeups.put(None)
            self._settle()

    def forked(self) -> None:
        """Forget the messages in a child process: they are the parent's."""
        self._is_closed = self._is_ended = True
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._ready, self._mailbox = deque(), Mailbox()
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            descriptor.forked()

    def __iter__(self) -> Self:
        """Iterate until the subscriber or its endpoint is closed."""
        return self

    def __next__(self) -> Pair:
        """Wait for the next message, a plain pair of topic and data."""
        try:
            return self._ready.popleft()
        except IndexError:
            try:
                return self.get()
            except FAILURES:
                raise
            except EndpointClosed:
                raise StopIteration from None


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _deadline(timeout: Seconds) -> float | None:
    seconds = arguments.seconds("timeout", timeout)
    return None if seconds == math.inf else time.monotonic() + min(seconds, threading.TIMEOUT_MAX)
