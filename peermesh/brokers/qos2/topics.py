"""Topics and consumers, for people: which there are, what waits, and how one is removed."""

from __future__ import annotations

from dataclasses import dataclass

import trio

from endpoint import arguments
from peermesh.brokers.qos2.catalogue import Record, Stage, topic_key
from peermesh.brokers.qos2.errors import BrokerUnavailable, Refused
from peermesh.brokers.qos2.limits import BURIAL_TOPIC
from peermesh.brokers.qos2.names import ConsumerName
from peermesh.brokers.qos2.shelf import PATIENCE_SECONDS, Shelf


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, as the catalogue of the broker has it."""

    name: str
    owner: str | None
    """The principal that made it; ``None`` for a client without a name, and for ``dead_letter``."""
    consumers: tuple[str, ...]
    """Who has had a message of it."""


@dataclass(frozen=True, slots=True)
class TopicContent:
    """What is kept of a topic, and for whom it waits."""

    name: str
    owner: str | None
    messages: int
    """That are kept now."""
    last: int
    """The number of the last message; the next one has a larger one."""
    waiting: dict[str, int]
    """By consumer that has had a message of it: those kept that it has not dealt with. Replays for
    other consumers are among them."""


class Topics:
    """The topics of a broker, over its shelf: the broker's own, or a follower's."""

    def __init__(self, shelf: Shelf) -> None:
        """Look at nothing yet."""
        self._shelf = shelf

    async def list(self) -> list[Topic]:
        """Give all topics, by name. It asks the catalogue only, and opens none of them."""
        positions = await self._shelf.catalogue.positions()
        return [
            Topic(name, record.owner, tuple(sorted(positions.get(name, ()))))
            for name, record in sorted((await self._shelf.catalogue.records()).items())
            if record.stage is Stage.LIVE
        ]

    async def get(self, name: str) -> TopicContent:
        """Look into a topic; raises ``Refused`` if there is none of this name."""
        record = await self._find(name)
        log = await self._shelf.log(name)
        span = (await log.offsets())[0]
        end = record.base + span.end
        start = record.base + span.start
        positions = (await self._shelf.catalogue.positions()).get(name, {})
        waiting = {each: end - max(start, at) for each, at in sorted(positions.items())}
        return TopicContent(name, record.owner, span.end - span.start, end, waiting)

    async def delete(self, name: str) -> None:
        """Delete a topic: its messages, read or not, the places of consumers, publishers' ids.

        Consumers that are subscribed to it are disconnected; who names it again makes it anew.
        Raises ``Refused`` if there is none, or for ``dead_letter``, and ``BrokerUnavailable`` if
        its keeper has not done it in time; then it is done later.
        """
        record = await self._find(name)
        if name == BURIAL_TOPIC:
            raise Refused(f"{BURIAL_TOPIC} stays: purge dead letters in its place")
        if not await self._shelf.catalogue.begin_end(name, record):
            raise Refused(f"topic {name} changed meanwhile: look at it again")
        if self._shelf.decides:
            await self._shelf.open_topics.keep_up(name)
        else:
            await self._await_end(name)

    async def consumers(self) -> tuple[ConsumerName, ...]:
        """Give all names under which a consumer has logged in, in their order."""
        topics: dict[str, list[str]] = {}
        for topic, consumers in sorted((await self._shelf.catalogue.positions()).items()):
            for each in consumers:
                topics.setdefault(each, []).append(topic)
        owners = sorted((await self._shelf.names.owners()).items())
        return tuple(
            ConsumerName(name, None if owner is None else str(owner), tuple(topics.get(name, ())))
            for name, owner in owners
        )

    async def forget(self, consumer: str) -> None:
        """Forget a consumer: what it has had of each topic, and whose its name is.

        A connection of it can acknowledge nothing more. Who logs in under its name later begins
        with the oldest message of each topic. Raises ``Refused`` if there is none.
        """
        await self._shelf.names.forget(arguments.text("consumer", consumer))

    async def _await_end(self, name: str) -> None:
        watch = self._shelf.table.watch(keys=[topic_key(name)])
        with trio.move_on_after(PATIENCE_SECONDS):
            async for _ in watch:
                found = await self._shelf.catalogue.find(name)
                if found is None or found.stage is Stage.LIVE:
                    return
        raise BrokerUnavailable(
            f"the keeper of topic {name} did not delete it within {PATIENCE_SECONDS:g} s:"
            " it will, once it is there"
        )

    async def _find(self, name: str) -> Record:
        arguments.text("name", name)
        record = await self._shelf.catalogue.find(name)
        if record is None or record.stage is not Stage.LIVE:
            raise Refused(f"there is no topic {name}: see the list")
        return record
