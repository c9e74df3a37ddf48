"""A publisher of an edge broker: a sender for each topic, and the default sender."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import trio

from endpoint import arguments
from handshake.credentials import Credentials
from peermesh.brokers.edge.client import Client, carried
from peermesh.brokers.edge.errors import EdgeClosed, EdgeError
from peermesh.brokers.edge.line import Line
from peermesh.brokers.edge.messages import Accepted, ControlMessage, Denied, expect
from peermesh.brokers.edge.outgoing import BUFFER_SIZE, Outgoing
from peermesh.brokers.edge.registry import Registry
from peermesh.brokers.edge.statistics import RouteStatistics
from peermesh.brokers.edge.tree import check_edge_topic
from peermesh.brokers.edge.where import Where
from wire.encoding import encode
from wire.errors import NotAllowed
from wire.framing import NodeFrame
from wire.logs import logger_of
from wire.values import Value

logger = logger_of("peermesh.brokers.edge")

FLUSH_SECONDS: Final = 5.0
"""How long the end of a publisher waits for its broker to accept what was sent."""

YIELD_COUNT: Final = 256
"""Messages after which other tasks may run, which takes half a millisecond: what was sent meanwhile
goes in one frame, and costs half as much as in four. A message alone needs no switch."""

STOPPED_MAX: Final = 65_536
"""Stopped topics whose last numbers a publisher keeps: eight times the topics that a broker has at
once, as it closes idle ones and takes others. They take 9 MB, or 73 MB with the longest topics."""


class Publisher(Client):
    """Sends messages on topics: ``async with Publisher(registry) as publisher``.

    A topic's messages go by the default channel until the topic has a channel of its own, and while
    none can be reached. Without a broker they wait in the topic's buffer.
    """

    def __init__(
        self,
        registry: Registry | Where,
        *,
        buffer_size: int = BUFFER_SIZE,
        credentials: Credentials | None = None,
        allow_plain: bool = False,
    ) -> None:
        """Find the broker through a registry, or through the one that it is said where to find.

        A topic's buffer holds ``buffer_size`` messages before ``send`` waits. A ``Where`` has
        credentials of its own, if no others are given.
        """
        if arguments.count("buffer_size", buffer_size, least=0) < 1:
            raise EdgeError(f"a buffer of {buffer_size} messages; it needs room for at least one")
        super().__init__(
            registry, credentials=credentials, allow_plain=allow_plain, is_publisher=True
        )
        self._buffer_size = buffer_size
        self._topics: dict[str, Outgoing] = {}
        self._stopped: dict[str, int] = {}
        """The last number of each topic whose sender was stopped: the broker may still know it, and
        would take what begins anew with lower ones for repetitions."""
        self._since_yield = 0

    async def send(self, topic: str, message: Value) -> None:
        """Send a message, in order with all others on its topic; waits while the buffer is full.

        Raises ``InvalidTopic``, ``EncodeError``, ``EdgeClosed``, and ``NotAllowed`` if the broker
        has refused messages on this topic since the last call: those are not sent again.
        """
        if self._is_closed or self._denied is not None or self._nursery is None:
            self._check_role()
        outgoing = self._topics.get(topic) if type(topic) is str else None
        outgoing = outgoing or self._begin(topic)
        if outgoing.refused is not None:
            _tell_refusals(outgoing)
        payload = encode(message)
        self._since_yield += 1
        if self._since_yield >= YIELD_COUNT or not outgoing.has_room:
            self._since_yield = 0
            await self._pause(outgoing)
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        outgoing.add(payload)
        if topic not in self._due:
            self._mark(topic)

    async def send_batch(self, topic: str, messages: Iterable[Value]) -> None:
        """Send many messages, as ``send`` does each; threads cross once for all of them."""
        for message in messages:
            await self.send(topic, message)

    async def _pause(self, outgoing: Outgoing) -> None:
        """Let others run, until there is room; raise what has come of the topic meanwhile."""
        await trio.lowlevel.checkpoint()
        while not outgoing.has_room:
            await self._changed.park()
            self._check_role()
        if outgoing.refused is not None:
            _tell_refusals(outgoing)
        if self._topics.get(outgoing.topic) is not outgoing:
            raise EdgeClosed(f"the sender of {outgoing.topic!r} was stopped")

    def _begin(self, topic: str) -> Outgoing:
        topic = check_edge_topic(topic)
        outgoing = Outgoing(topic, self.id, self._buffer_size, self._stopped.pop(topic, 0))
        self._topics[topic] = outgoing
        self._switch(outgoing)
        self._follow(topic)
        return outgoing

    async def flush(self, timeout: float | None = None) -> bool:
        """Wait until the broker has accepted everything; false after ``timeout`` seconds.

        Raises ``NotAllowed`` if it has refused some of it, and ``EdgeClosed``.
        """
        with trio.move_on_after(arguments.seconds("timeout", timeout)):
            while any(outgoing.waiting for outgoing in self._topics.values()):
                self._check_role()
                await self._changed.park()
            _tell_refusals(*self._topics.values())
            return True
        return False

    async def stop(self, topic: str) -> None:
        """Stop a topic's sender, after the broker has accepted what was sent.

        Raises ``EdgeError`` if ``STOPPED_MAX`` other topics are stopped: the sender goes on.
        Raises ``NotAllowed`` if the broker has refused some of it, and ``EdgeClosed``.
        """
        outgoing = self._topics.get(arguments.text("topic", topic))
        if outgoing is None:
            return
        while outgoing.waiting:
            await self._changed.park()
            self._check_open()
        _tell_refusals(outgoing)
        if self._topics.get(topic) is not outgoing:  # Another task has stopped it meanwhile.
            return
        if len(self._stopped) >= STOPPED_MAX:
            raise EdgeError(
                f"{topic!r} is not stopped: this publisher keeps the last numbers of {STOPPED_MAX}"
                " stopped topics, and no more; close it, and make a new publisher"
            )
        del self._topics[topic]
        self._stopped[topic] = outgoing.last
        await self._stop_following(topic)

    async def _farewell(self) -> None:
        try:
            await self.flush(FLUSH_SECONDS)
        except NotAllowed as error:
            logger.warning("messages were not published: %s", error)

    def statistics(self) -> list[RouteStatistics]:
        """Count, for each topic."""
        return [
            RouteStatistics(
                each.topic, each.topic in self._lines, each.accepted, each.waiting, each.repeated
            )
            for each in self._topics.values()
        ]

    # Connections.

    def _on_connected(self, topic: str, line: Line) -> None:
        for outgoing in carried(self._topics, topic):
            self._switch(outgoing)

    def _on_lost(self, topic: str, line: Line) -> None:
        for outgoing in carried(self._topics, topic):
            self._switch(outgoing)

    def _switch(self, outgoing: Outgoing) -> None:
        """Have a topic go by its own connection if there is one, or else by the default one."""
        line = self._line_for(outgoing.topic)
        number = None if line is None else line.number
        if number != outgoing.line:
            outgoing.switch(number)
            self._mark(outgoing.topic)

    def _on_denied(self, denied: Denied) -> None:
        outgoing = self._topics.get(denied.topic)
        if outgoing is not None:
            outgoing.refuse(denied.sequence, denied.count, denied.reason)
            self._mark(denied.topic)
            self._changed.unpark_all()

    def _pieces(self, topic: str) -> Iterable[bytes | memoryview]:
        outgoing = self._topics.get(topic)
        return outgoing.take() if outgoing is not None else []

    def _on_message(self, topic: str, line: Line, message: NodeFrame | ControlMessage) -> None:
        accepted = expect(message, Accepted)
        outgoing = self._topics.get(accepted.topic)
        if outgoing is None:
            return
        outgoing.accept(accepted.sequence)
        self._changed.unpark_all()
        self._mark(accepted.topic)


def _tell_refusals(*topics: Outgoing) -> None:
    """Raise ``NotAllowed`` for a topic of which messages were refused, once."""
    for outgoing in topics:
        if outgoing.refused is not None:
            reason, outgoing.refused = outgoing.refused, None
            raise NotAllowed(reason)
