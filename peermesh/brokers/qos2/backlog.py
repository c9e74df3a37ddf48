"""What one consumer has not dealt with yet, read from the topics' logs as it is wanted."""

from __future__ import annotations

from collections import deque
from typing import Final

import trio

from handshake.principals import Principal
from peermesh.brokers.qos2.counters import Counters
from peermesh.brokers.qos2.entries import payload_for
from peermesh.brokers.qos2.errors import Refused
from peermesh.brokers.qos2.limits import BURIAL_TOPIC, READ_AHEAD, TOPIC_DELETED
from peermesh.brokers.qos2.place import TopicLog
from peermesh.brokers.qos2.shelf import Shelf
from peermesh.brokers.qos2.steps import Bury, Delivery
from wire.errors import MeshError, OffsetOutOfRange, StoreClosed

READ_SECONDS: Final = 30.0
"""How long a read waits for something new, before it is asked again."""

RETRY_SECONDS: Final = 1.0
"""The pause before a keeper that does not answer is asked again."""


class _Reader:
    """One topic, from the consumer's cursor on."""

    def __init__(self, topic: str, log: TopicLog, base: int, position: int) -> None:
        """Read ``log``, to whose offsets ``base`` is added, from ``position`` on."""
        self.topic = topic
        self.log = log
        self.base = base
        self.position = position
        """What is read next, from the base on."""
        self.is_gone = False
        """Whether the topic was deleted."""
        self.ready: deque[Delivery] = deque()

    async def fill(self, consumer: str, counters: Counters) -> None:
        """Wait until something is ready, or the topic is gone."""
        base = self.base
        while not self.ready:
            try:
                found = await self.log.read(0, self.position - base, READ_AHEAD, READ_SECONDS)
            except OffsetOutOfRange as lost:
                # Retention was faster: the user asked for it. Or a lead was taken by force.
                counters.missed += max(0, base + lost.start - self.position)
                self.position = base + lost.start
                continue
            except StoreClosed:
                self.is_gone = True
                return
            except MeshError:
                await trio.sleep(RETRY_SECONDS)
                continue
            for entry in found:
                offset = base + entry.offset
                self.position = offset + 1
                payload = payload_for(entry.value, consumer)
                if payload is not None:
                    self.ready.append(Delivery(self.topic, offset, payload))


class Backlog:
    """All topics of one session of a consumer."""

    def __init__(
        self, shelf: Shelf, counters: Counters, consumer: str, token: bytes, principal: Principal
    ) -> None:
        """Serve a session of ``principal``, which entered with ``token``."""
        self.consumer = consumer
        self._principal = principal
        self._shelf = shelf
        self._counters = counters
        self._token = token
        self._readers: dict[str, _Reader] = {}

    async def open(self, topic: str) -> None:
        """Read a topic from where the consumer has stopped; raises ``BrokerError``."""
        if topic in self._readers:
            return
        found = await self._shelf.open(topic, self._principal)
        log, base = found.log, found.record.base
        if await self._shelf.resume_burial(self.consumer, self._token, topic):
            self._counters.buried += 1
        position = await self._shelf.position(self.consumer, topic, base)
        self._readers[topic] = _Reader(topic, log, base, position)

    async def next(self, topics: tuple[str, ...]) -> Delivery:
        """Wait for the next message of these topics, which take turns; it stays the next.

        Raises ``Refused`` if one of them was deleted.
        """
        readers = [self._readers[topic] for topic in topics]
        if not any(reader.ready for reader in readers):
            async with trio.open_nursery() as nursery:

                async def fill(reader: _Reader) -> None:
                    await reader.fill(self.consumer, self._counters)
                    nursery.cancel_scope.cancel()

                for reader in readers:
                    nursery.start_soon(fill, reader)
        if any(reader.is_gone for reader in readers):
            raise Refused(TOPIC_DELETED)
        first = next(
            topic for topic, each in self._readers.items() if each in readers and each.ready
        )
        return self._readers[first].ready[0]

    async def commit(self, delivery: Delivery) -> None:
        """Make durable that the consumer has it; raises ``BrokerError``."""
        await self._shelf.commit(self.consumer, self._token, delivery)
        self._counters.delivered += 1
        self._drop(delivery)

    async def bury(self, step: Bury) -> None:
        """Make it a dead letter; raises ``BrokerError``.

        One that is a dead letter already stays where it is, and the consumer goes on.
        """
        delivery = step.delivery
        if delivery.topic == BURIAL_TOPIC:
            await self._shelf.commit(self.consumer, self._token, delivery)
            self._counters.given_up += 1
        else:
            why = (step.reason, step.attempts)
            await self._shelf.bury(self.consumer, self._token, delivery, why)
            self._counters.buried += 1
        self._drop(delivery)

    def _drop(self, delivery: Delivery) -> None:
        """Take it from the front, and put its topic behind the others."""
        reader = self._readers.pop(delivery.topic)
        self._readers[delivery.topic] = reader
        while reader.ready and reader.ready[0].offset <= delivery.offset:
            reader.ready.popleft()
