"""One member of a swarm: a real endpoint, its subscriber, and what it has of stores and a log."""

from __future__ import annotations

from math import isfinite
from random import Random
from typing import TYPE_CHECKING, Final

import trio

from endpoint import Endpoint, Missed, Subscriber
from peermesh.testing.simulation import Host
from peermesh.testing.swarm.holder import AnyHolder
from peermesh.testing.swarm.led_holder import LedHolder
from peermesh.testing.swarm.ledgers import Author, Broken
from peermesh.testing.swarm.log_holder import LogHolder
from peermesh.testing.swarm.plan import PUBLISHED, Plan
from peermesh.testing.swarm.voter import Voter, name_of
from wire.errors import OutboxFull
from wire.identifiers import EndpointId

if TYPE_CHECKING:
    from peermesh.testing.swarm.records import Records

PORT: Final = 4_000
RETRY_SECONDS: Final = 1.0
"""The longest pause between two dials: so healing takes seconds, and not more."""

GROUP_SECONDS: Final = 0.5
"""Pause between two mutations at a voter, and between two appends."""


class Node:
    """A member, in whichever of its lives."""

    def __init__(self, plan: Plan, index: int, host: Host, records: Records) -> None:
        """Be told which one it is; ``host.start(node.live)`` begins."""
        self.index = index
        self.host = host
        self.life = 0
        self.ids: list[EndpointId] = []
        """The ids of all its lives."""
        self.endpoint: Endpoint | None = None
        self.subscriber: Subscriber | None = None
        self.led: LedHolder | None = None
        self.voter: Voter | None = None
        self.log: LogHolder | None = None
        self._plan = plan
        self._member = plan.members[index]
        self._records = records
        self._addresses: dict[int, str] = {}

    def __repr__(self) -> str:
        """Name it."""
        return f"<node {self.index}.{self.life}>"

    def know(self, addresses: dict[int, str]) -> None:
        """Be told where everybody is."""
        self._addresses = addresses

    @property
    def author(self) -> Author:
        """Name this life."""
        return Author(self.index, self.life)

    @property
    def node_id(self) -> EndpointId | None:
        """Give the endpoint's id, if there is one."""
        return None if self.endpoint is None else self.endpoint.node_id()

    @property
    def is_there(self) -> bool:
        """Whether it lives, and its endpoint is open."""
        return self.host.is_up and self.endpoint is not None

    def dialled(self) -> list[int]:
        """Name the members that this one dials."""
        forth = [edge.acceptor for edge in self._plan.edges if edge.dialler == self.index]
        back = [
            edge.dialler
            for edge in self._plan.edges
            if edge.acceptor == self.index and edge.is_mutual
        ]
        return forth + back

    async def live(self) -> None:
        """Run one life, until it is ended from outside."""
        self.life += 1
        self.endpoint = self.subscriber = None
        self.led = self.voter = self.log = None
        chance = Random(f"{self._plan.seed}/{self.index}/{self.life}")
        name = name_of(self.index)
        async with (
            Endpoint(name=name, ttl=self._plan.ttl) as endpoint,
            trio.open_nursery() as nursery,
        ):
            await endpoint.listen(self.host.address, PORT)
            self.endpoint = endpoint
            self.ids.append(endpoint.node_id())
            for other in self.dialled():
                nursery.start_soon(self.dial, other)
            if self._member.topics:
                self.subscriber = endpoint.subscribe(*self._member.topics)
                nursery.start_soon(self._read, self.subscriber, self.author)
            if isfinite(self._member.publish_seconds):
                nursery.start_soon(self._publish, chance)
            self._hold(endpoint, nursery, chance)
            await trio.sleep_forever()

    def _hold(self, endpoint: Endpoint, nursery: trio.Nursery, chance: Random) -> None:
        """Have what this member has of stores and of the log."""
        plan, records = self._plan, self._records
        if plan.master == self.index or self._member.has_clone:
            self.led = LedHolder(plan, self.author, records, endpoint)
            nursery.start_soon(self.led.settle_conflicts)
            nursery.start_soon(self.led.hold, chance, self._member.write_seconds)
        groups = plan.groups
        if groups is not None and self.index in groups.voters:
            self.voter = Voter(groups, self.author, records, endpoint)
            nursery.start_soon(self.voter.hold, chance, GROUP_SECONDS)
        if groups is not None and self.index in groups.log_holders:
            self.log = LogHolder(groups, self.author, records, endpoint)
            nursery.start_soon(self.log.hold, chance, GROUP_SECONDS)

    @property
    def holders(self) -> list[AnyHolder]:
        """Give what it has of stores."""
        return [each for each in (self.led, self.voter) if each is not None]

    # Peers.

    async def dial(self, other: int) -> None:
        """Peer with another member, for as long as it takes; a new life does so by itself."""
        if self.endpoint is not None:
            await self.endpoint.peer(self._addresses[other], PORT, RETRY_SECONDS)

    async def undial(self, other: int) -> None:
        """Part from another member."""
        if self.endpoint is not None:
            await self.endpoint.unpeer(self._addresses[other], PORT)

    # Messages.

    def publish(self, topic: str) -> int | None:
        """Publish a message, and give its number; ``None`` if there was no room."""
        assert self.endpoint is not None
        author = self.author
        number = self._records.messages.publish(author, topic)
        try:
            self.endpoint.publish_nowait(topic, (*author, number))
        except OutboxFull:
            return None
        return number

    async def _publish(self, chance: Random) -> None:
        while True:
            await trio.sleep(self._member.publish_seconds * chance.uniform(0.5, 1.5))
            self.publish(chance.choice(PUBLISHED))

    async def _read(self, subscriber: Subscriber, reader: Author) -> None:
        async for topic, data in subscriber:
            if isinstance(data, Missed):
                raise Broken(f"{reader} reads all the time, and missed {data.count} messages")
            assert isinstance(data, tuple)
            node, life, number = data
            self._records.messages.deliver(reader, topic, Author(node, life), number)

    # The store that is led.

    async def succeed(self) -> None:
        """Have its clone become the master."""
        if self.led is not None:
            await self.led.succeed()
