"""A subscriber of an edge broker: a receiver for each topic, and the default receiver."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

import trio

from endpoint import arguments
from endpoint.pubsub.messages import MISSED_TOPIC, Message, Missed
from handshake.credentials import Credentials
from peermesh.brokers.edge.client import Client, carried
from peermesh.brokers.edge.errors import EdgeClosed
from peermesh.brokers.edge.incoming import Incoming
from peermesh.brokers.edge.line import Line
from peermesh.brokers.edge.messages import (
    Attach,
    Attached,
    ControlMessage,
    Denied,
    Detach,
    Void,
    expect,
    read_data,
    write,
)
from peermesh.brokers.edge.registry import Registry
from peermesh.brokers.edge.statistics import RouteStatistics
from peermesh.brokers.edge.tree import check_edge_topic
from peermesh.brokers.edge.where import Where
from wire.decoding import decode
from wire.errors import DecodeError, NotAllowed
from wire.framing import NodeFrame

YIELD_COUNT: Final = 1024
"""Messages read after which other tasks may run, such as those that send the broker a beat. Reading
so many takes about 10 ms; to let a thousand connections run once takes many times that."""

Parcel = tuple[Incoming, bytes] | Message | NotAllowed
"""Whose message and its payload; or how many were missed; or why no more come."""


@dataclass(slots=True)
class _Wait:
    """What tasks wait for that subscribe to one topic."""

    tasks: int = 0
    refusal: str | None = None
    """Why the broker refuses it."""


class Subscriber(Client):
    """Receives messages on topics: ``async with Subscriber(registry) as subscriber``.

    A topic comes by the default channel until it has a channel of its own.
    """

    def __init__(
        self,
        registry: Registry | Where,
        *,
        credentials: Credentials | None = None,
        allow_plain: bool = False,
    ) -> None:
        """Find the broker through a registry, or through the one that it is said where to find.

        A ``Where`` has credentials of its own, if no others are given.
        """
        super().__init__(
            registry, credentials=credentials, allow_plain=allow_plain, is_publisher=False
        )
        self._topics: dict[str, Incoming] = {}
        self._buffer: deque[Parcel] = deque()
        self._awaited: dict[str, _Wait] = {}
        """What the tasks that subscribe to a topic wait for; one for all of a topic."""
        self._since_yield = 0
        self.malformed = 0
        """Payloads that could not be decoded, and were skipped."""

    async def subscribe(self, topic: str, timeout: float | None = None) -> bool:
        """Want a topic, whether it exists or not; wait until a broker knows of it.

        False after ``timeout`` seconds without a broker; the subscription stands, and becomes
        effective later. Raises ``InvalidTopic``, ``EdgeClosed`` and ``NotAllowed``.
        """
        self._check_role()
        limit = arguments.seconds("timeout", timeout)
        incoming = self._topics.get(arguments.text("topic", topic))
        if incoming is None:
            incoming = self._topics[check_edge_topic(topic)] = Incoming(topic)
            self._attach(incoming)
            self._follow(topic)
        wait = self._awaited.setdefault(topic, _Wait())
        wait.tasks += 1
        try:
            with trio.move_on_after(limit):
                while not incoming.is_attached:
                    await self._changed.park()
                    self._check_role()
                    if wait.refusal is not None:
                        raise NotAllowed(wait.refusal)
                return True
            return False
        finally:
            wait.tasks -= 1
            if not wait.tasks and self._awaited.get(topic) is wait:
                del self._awaited[topic]

    def is_attached(self, topic: str) -> bool:
        """Tell whether a broker knows of the subscription now."""
        incoming = self._topics.get(arguments.text("topic", topic))
        return incoming is not None and incoming.is_attached

    async def unsubscribe(self, topic: str) -> None:
        """No longer want a topic; what came before can still be read."""
        self._check_open()
        if arguments.text("topic", topic) in self._topics:
            self._tell(topic, Detach(topic))
            del self._topics[topic]
            await self._stop_following(topic)

    def _tell(self, topic: str, message: ControlMessage) -> None:
        line = self._line_for(topic)
        if line is not None:
            line.tell(message)

    def _attach(self, incoming: Incoming) -> None:
        """Ask for a topic by its connection, once there is room for what comes."""
        line = self._line_for(incoming.topic)
        if line is not None and not incoming.is_full and incoming.asked != line.number:
            incoming.asked = line.number
            line.tell(Attach(incoming.topic, incoming.is_known))

    # Reading.

    async def get(self, timeout: float | None = None) -> Message:
        """Wait for the next message, for ``timeout`` seconds at most: its topic, and its data.

        ``Missed(n)`` comes in the place of messages that were lost on their way to us. Raises
        ``TimeoutError``, ``EdgeClosed`` when it is closed and was read to its end, and once
        ``NotAllowed`` for a topic whose subscription ended because the right to it was withdrawn.
        """
        if timeout is not None:
            limit = arguments.seconds("timeout", timeout)
            with trio.move_on_after(limit):
                return await self.get()
            raise TimeoutError(f"no message within {limit:g} s")
        while True:
            while not self._buffer:
                self._check_role()
                await self._changed.park()
            found = self._take()
            self._since_yield += 1
            if self._since_yield >= YIELD_COUNT:
                self._since_yield = 0
                await trio.lowlevel.cancel_shielded_checkpoint()  # What was taken is given.
            if found is not None:
                return found

    def poll(self) -> list[Message]:
        """Take all messages that are there, without waiting; raises ``NotAllowed`` as ``get``."""
        taken: list[Message] = []
        while self._buffer and not (taken and isinstance(self._buffer[0], NotAllowed)):
            message = self._take()
            if message is not None:
                taken.append(message)
        return taken

    def available(self) -> int:
        """Count the messages that are there."""
        return len(self._buffer)

    def _take(self) -> Message | None:
        parcel = self._buffer.popleft()
        if isinstance(parcel, Message):
            return parcel
        if isinstance(parcel, NotAllowed):
            raise parcel
        incoming, payload = parcel
        if incoming.take(len(payload)):
            self._report(incoming)
            if not incoming.is_full and self._topics.get(incoming.topic) is incoming:
                self._attach(incoming)
        try:
            return Message(incoming.topic, decode(payload))
        except DecodeError:
            self.malformed += 1
            return None

    def _report(self, incoming: Incoming) -> None:
        """Have the broker told what was taken."""
        if incoming.is_due and incoming.topic not in self._due:
            self._mark(incoming.topic)

    def _pieces(self, topic: str) -> Iterable[bytes]:
        incoming = self._topics.get(topic)
        taken = incoming.report() if incoming is not None else None
        return [write(taken)] if taken is not None else []

    def __aiter__(self) -> Self:
        """Iterate until it is closed."""
        return self

    async def __anext__(self) -> Message:
        """Wait for the next message."""
        try:
            return await self.get()
        except EdgeClosed:
            raise StopAsyncIteration from None

    async def _farewell(self) -> None:
        for topic in self._topics:
            self._tell(topic, Detach(topic))
        for line in list(self._lines.values()):
            await line.drain()

    def statistics(self) -> list[RouteStatistics]:
        """Count, for each topic."""
        return [
            RouteStatistics(
                each.topic, each.topic in self._lines, each.received, each.waiting, each.duplicates
            )
            for each in self._topics.values()
        ]

    # Connections.

    def _on_connected(self, topic: str, line: Line) -> None:
        for incoming in carried(self._topics, topic):
            self._attach(incoming)

    def _on_denied(self, denied: Denied) -> None:
        topic = denied.topic
        if topic not in self._topics:
            return
        del self._topics[topic]
        wait = self._awaited.pop(topic, None)
        if wait is not None:
            wait.refusal = denied.reason
        else:
            self._buffer.append(NotAllowed(denied.reason))
        self._changed.unpark_all()
        assert self._nursery is not None
        self._nursery.start_soon(self._stop_following, topic)

    def _on_lost(self, topic: str, line: Line) -> None:
        for incoming in carried(self._topics, topic):
            incoming.lose(line.number)
            self._attach(incoming)

    def _on_message(self, topic: str, line: Line, message: NodeFrame | ControlMessage) -> None:
        if isinstance(message, NodeFrame):
            self._on_data(line, message)
        elif isinstance(message, Void):
            if (incoming := self._topics.get(message.topic)) is not None:
                incoming.void(line.number, message.publisher, message.sequence)
                self._report(incoming)
        else:
            self._on_attached(line, expect(message, Attached))

    def _on_attached(self, line: Line, attached: Attached) -> None:
        incoming = self._topics.get(attached.topic)
        if incoming is None:
            return
        self._tell_missed(incoming.attached(line.number, attached))
        self._report(incoming)
        self._changed.unpark_all()

    def _on_data(self, line: Line, frame: NodeFrame) -> None:
        name, publisher = read_data(frame)
        incoming = self._topics.get(name)
        if incoming is None:
            return
        count = frame.count
        skip, missed = incoming.receive(line.number, publisher, frame.first, count)
        self._tell_missed(missed)
        if skip < count:
            payloads = frame.payloads()[skip:]
            incoming.keep(len(payloads), sum(map(len, payloads)))
            self._buffer.extend([(incoming, payload) for payload in payloads])
            self._changed.unpark_all()
        self._report(incoming)

    def _tell_missed(self, missed: int) -> None:
        if missed:
            self._buffer.append(Message(MISSED_TOPIC, Missed(missed)))
            self._changed.unpark_all()
