"""Carries out the faults of a plan, each for its time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import trio

from peermesh.testing.faults import Partition, Reset
from peermesh.testing.simulation import HostDown, Link, Simulation
from peermesh.testing.swarm.node import Node
from peermesh.testing.swarm.plan import (
    ClockSkew,
    DiskTrouble,
    Fault,
    Kill,
    LinkTrouble,
    Pause,
    Plan,
    PowerCut,
    Split,
    Succession,
    Unpeering,
    Unsubscribing,
)
from peermesh.testing.swarm.records import Records


class Troubles:
    """What is wrong in a swarm. Of troubles that overlap at one place, the end of one ends all."""

    def __init__(
        self, simulation: Simulation, plan: Plan, nodes: Sequence[Node], records: Records
    ) -> None:
        """Begin with nothing."""
        self._simulation = simulation
        self._plan = plan
        self._nodes = nodes
        self._records = records
        self.partings = 0
        """Endpoints that are about to part: until they have, they look like peers."""
        self._handlers: Mapping[type, Callable[[Any], AbstractAsyncContextManager[None]]] = {
            LinkTrouble: self._link_trouble,
            Split: self._split,
            Kill: self._kill,
            PowerCut: self._kill,
            Pause: self._pause,
            ClockSkew: self._clock_skew,
            DiskTrouble: self._disk_trouble,
            Unpeering: self._unpeering,
            Unsubscribing: self._unsubscribing,
            Succession: self._succession,
        }

    async def come_and_go(self, fault: Fault) -> None:
        """Carry out a fault for its time."""
        await trio.sleep_until(fault.begin)
        self._simulation.note("begins", fault.trouble)
        async with self._handlers[type(fault.trouble)](fault.trouble):
            await trio.sleep_until(fault.end)
        self._simulation.note("ends", fault.trouble)

    # Links.

    @asynccontextmanager
    async def _link_trouble(self, trouble: LinkTrouble) -> AsyncIterator[None]:
        edge = self._plan.edges[trouble.edge]
        link = self._link(edge.dialler, edge.acceptor)
        await link.apply(trouble.fault, trouble.direction)
        yield
        if not isinstance(trouble.fault, Reset):
            await link.heal()

    @asynccontextmanager
    async def _split(self, trouble: Split) -> AsyncIterator[None]:
        links = [self._link(*ends) for ends in self._crossing(trouble.nodes)]
        for link in links:
            await link.apply(Partition(), trouble.direction)
        yield
        for link in links:
            await link.heal()

    def _link(self, near: int, far: int) -> Link:
        return self._simulation.link(self._nodes[near].host, self._nodes[far].host)

    def _crossing(self, nodes: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Give the edges that lead out of a part, from inside to outside."""
        for edge in self._plan.edges:
            ends = (edge.dialler, edge.acceptor)
            if (ends[0] in nodes) != (ends[1] in nodes):
                yield ends if ends[0] in nodes else ends[::-1]

    # Hosts.

    @asynccontextmanager
    async def _kill(self, trouble: Kill | PowerCut) -> AsyncIterator[None]:
        node = self._nodes[trouble.node]
        if node.host.is_up:
            if node.index == self._plan.master and not self._plan.is_durable:
                self._records.store.is_volatile = True
            await (node.host.kill() if isinstance(trouble, Kill) else node.host.cut_power())
        yield
        if not node.host.is_up:
            await node.host.restart()

    @asynccontextmanager
    async def _pause(self, trouble: Pause) -> AsyncIterator[None]:
        await self._nodes[trouble.node].host.pause()
        yield
        await self._nodes[trouble.node].host.resume()

    @asynccontextmanager
    async def _clock_skew(self, trouble: ClockSkew) -> AsyncIterator[None]:
        await self._nodes[trouble.node].host.skew_clock(trouble.seconds)
        yield
        await self._nodes[trouble.node].host.skew_clock(0.0)

    @asynccontextmanager
    async def _disk_trouble(self, trouble: DiskTrouble) -> AsyncIterator[None]:
        disk = self._nodes[trouble.node].host.disk
        if trouble.is_full:
            disk.full()
        else:
            disk.fail_fsync()
        yield
        disk.heal()

    @asynccontextmanager
    async def _succession(self, trouble: Succession) -> AsyncIterator[None]:
        leader = self._plan.master if self._records.heir is None else self._records.heir
        assert leader is not None
        loss = self._kill(Kill(leader)) if trouble.is_killed else self._split(Split((leader,)))
        async with loss:
            await self.promote(self._nodes[trouble.heir])
            yield

    async def promote(self, heir: Node) -> None:
        """Have a member's clone become the master, if it is there."""
        if not heir.is_there:
            return
        try:
            await heir.host.run(heir.succeed)
        except HostDown:  # It may have led already, and lost what was told to others.
            self._records.store.is_volatile = True

    # Wishes.

    @asynccontextmanager
    async def _unpeering(self, trouble: Unpeering) -> AsyncIterator[None]:
        edge = self._plan.edges[trouble.edge]
        callers = [(self._nodes[edge.dialler], edge.acceptor)]
        if edge.is_mutual:
            callers.append((self._nodes[edge.acceptor], edge.dialler))
        for node, other in callers:
            self.partings += 1
            self._simulation.nursery.start_soon(self._part, node, other)
        yield
        for node, other in callers:
            if node.is_there:
                self._simulation.nursery.start_soon(node.dial, other)

    async def _part(self, node: Node, other: int) -> None:
        try:
            if node.is_there:
                await node.undial(other)
        finally:
            self.partings -= 1

    @asynccontextmanager
    async def _unsubscribing(self, trouble: Unsubscribing) -> AsyncIterator[None]:
        node = self._nodes[trouble.node]
        topics = self._plan.members[trouble.node].topics[:1]
        if node.subscriber is not None and node.is_there:
            node.subscriber.remove_topic(*topics)
        yield
        if node.subscriber is not None and node.is_there:
            node.subscriber.add_topic(*topics)
