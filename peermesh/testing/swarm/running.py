"""Runs one plan: trouble, then peace, and looks all the time whether every promise is kept."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

import trio

from endpoint.link.connection import Connection
from endpoint.link.limits import TRANSIT_MARK, WINDOW_SIZE, LinkLimits
from peermesh.testing.simulation import Simulation, run
from peermesh.testing.swarm.drawing import draw
from peermesh.testing.swarm.holder import AnyHolder
from peermesh.testing.swarm.ledgers import Author, Broken, Stuck
from peermesh.testing.swarm.node import Node
from peermesh.testing.swarm.person import Person
from peermesh.testing.swarm.plan import PUBLISHED, Plan
from peermesh.testing.swarm.records import Records
from peermesh.testing.swarm.settling import (
    HEALING_SECONDS,
    settle_log,
    settle_store,
    until,
    why_unled,
)
from peermesh.testing.swarm.troubles import Troubles
from wire.logs import logger_of

WATCH_SECONDS: Final = 0.5
"""How often everybody is looked at."""

CALM_SECONDS: Final = 20.0
"""How long a message may take when all is well: behind all that was published before."""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of one plan."""

    seed: int
    members: int
    faults: int
    published: int
    delivered: int
    applied: int
    """Mutations that were acknowledged."""
    appended: int
    """Entries of the log that were acknowledged."""
    successions: int
    """Promotions of a clone."""
    is_grouped: bool
    """Whether it has voters and a log."""
    healing_seconds: float
    """Virtual time from the end of the trouble until all agreed."""
    virtual_seconds: float
    steps: int
    digest: str
    failure: str = ""
    """Which promise was broken, and by whom; empty if none was."""
    kind: str = ""
    """The failure's class and its first words, to tell one kind of failure from another."""


class Swarm:
    """One run."""

    def __init__(self, simulation: Simulation, plan: Plan, records: Records) -> None:
        """Prepare the members."""
        self.plan = plan
        self.records = records
        self.simulation = simulation
        hosts = [simulation.host(f"n{index}") for index in range(len(plan.members))]
        self.nodes = [Node(plan, index, host, records) for index, host in enumerate(hosts)]
        self.troubles = Troubles(simulation, plan, self.nodes, records)
        self.healing_seconds = self.seconds = 0.0
        self._heard: dict[Connection, int] = {}
        self.person = Person(plan, self.nodes, records, self.troubles)
        addresses = {node.index: node.host.address for node in self.nodes}
        for node in self.nodes:
            node.know(addresses)

    async def main(self) -> None:
        """Live through the plan; raises ``Broken``."""
        troubles = self.troubles
        for node in self.nodes:
            node.host.start(node.live)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            async with trio.open_nursery() as trouble:
                for fault in self.plan.faults:
                    trouble.start_soon(troubles.come_and_go, fault)
            await trio.sleep_until(self.plan.trouble_seconds)
            begin = trio.current_time()
            self._note_what_was_heard()
            await until(self._why_not_converged, HEALING_SECONDS)
            self.healing_seconds = trio.current_time() - begin
            await self._check_barriers()
            await self._check_calm()
            await self._check_stores()
            self._look()
            self.seconds = trio.current_time()
            nursery.cancel_scope.cancel()

    # Safety.

    async def _watch(self) -> None:
        while True:
            await trio.sleep(WATCH_SECONDS)
            self._look()
            await self.person.look()

    def _look(self) -> None:
        if self.records.broken is not None:
            raise self.records.broken
        for node in self.nodes:
            if node.is_there:
                self._look_at(node)

    def _look_at(self, node: Node) -> None:
        assert node.endpoint is not None
        loop = node.endpoint.loop
        peers = list(loop.peerings)
        if peers != list(loop.core.topology.direct) and set(peers) != set(
            loop.core.topology.direct
        ):
            raise Broken(f"{node}: its peers are {peers}, its links {loop.core.topology.direct}")
        if node.node_id in loop.peerings:
            raise Broken(f"{node} is its own peer")
        # Lives that ended in silence are peers until they are missed: several of them, perhaps.
        known = {each for other in self._neighbours(node.index) for each in self.nodes[other].ids}
        if strangers := set(peers) - known:
            raise Broken(f"{node} has peers that are none of its neighbours: {strangers}")
        for peering in loop.peerings.values():
            waiting = peering.connection.link.statistics().data_bytes
            if waiting > TRANSIT_MARK.high + LinkLimits().reserve + WINDOW_SIZE:
                raise Broken(f"{node} holds {waiting} bytes for one peer")
        if node.led is not None and node.index != self.plan.master:
            self._note_what_is_shown(node.led, node.author)
        if node.voter is not None:
            self._note_what_is_shown(node.voter, node.voter.replica)

    @staticmethod
    def _note_what_is_shown(holder: AnyHolder, replica: Hashable) -> None:
        shown = holder.table()
        if shown is not None:
            holder.books.ledger.show(replica, *shown)

    # Liveness.

    def _note_what_was_heard(self) -> None:
        """Remember how far each connection is: one that is silent still may be lost yet."""
        for node in self.nodes:
            peerings = node.endpoint.loop.peerings if node.endpoint is not None else {}
            for peering in peerings.values():
                self._heard[peering.connection] = peering.connection.bytes_received

    def _is_silent(self, node: Node) -> bool:
        assert node.endpoint is not None
        connections = [each.connection for each in node.endpoint.loop.peerings.values()]
        return any(each.bytes_received == self._heard.get(each) for each in connections)

    def _why_not_converged(self) -> str:
        if any(node.endpoint is None for node in self.nodes):
            return "somebody has not started"
        if self.troubles.partings:
            return "somebody is about to part still"
        names = {node.index: node.node_id for node in self.nodes}
        digests = set()
        for node in self.nodes:
            assert node.endpoint is not None
            core = node.endpoint.loop.core
            wanted = {names[other] for other in self._neighbours(node.index)}
            if set(core.topology.direct) != wanted:
                return (
                    f"{node} has {len(core.topology.direct)} links, and should have {len(wanted)}"
                )
            if len(core.topology.reachable()) != len(self.nodes) - 1:
                return f"{node} reaches {len(core.topology.reachable())} others"
            if self._is_silent(node):
                return f"{node} has not heard of a peer since all is well"
            digests.add(core.digest())
        if len(digests) > 1:
            return f"there are {len(digests)} views of the mesh"
        return why_unled(self.plan, self.nodes)

    def _neighbours(self, index: int) -> Iterator[int]:
        for edge in self.plan.edges:
            if index in (edge.dialler, edge.acceptor):
                yield edge.dialler + edge.acceptor - index

    async def _check_barriers(self) -> None:
        for node in self.nodes:
            for other in self.nodes:
                if node is not other and node.endpoint is not None and other.node_id is not None:
                    outcome = await node.endpoint.await_peer(other.node_id, timeout=1.0)
                    if not outcome:
                        raise Stuck(f"{node} awaits {other}: {outcome.reason}")

    async def _check_calm(self) -> None:
        """Let everybody publish when all is well; it has to arrive where it is wanted."""
        owed: list[tuple[Author, Author, int]] = []
        for node in self.nodes:
            distances = self.plan.distances(node.index)
            for topic in PUBLISHED:
                number = node.publish(topic)
                if number is None:
                    raise Stuck(f"{node} has no room to publish, {CALM_SECONDS:g} s after")
                owed += [
                    (reader.author, node.author, number)
                    for reader in self.nodes
                    if reader is not node
                    and distances[reader.index] <= self.plan.ttl
                    and topic.startswith(self.plan.members[reader.index].topics or ("?",))
                ]

        def why_not() -> str:
            missing = [each for each in owed if not self.records.messages.has(*each)]
            return f"{len(missing)} messages are missing, such as {missing[0]}" if missing else ""

        await until(why_not, CALM_SECONDS)

    async def _check_stores(self) -> None:
        records, plan = self.records, self.plan
        led = [node.led for node in self.nodes if node.led is not None]
        if led:
            led.sort(key=lambda holder: holder.is_leader)
            await settle_store(led, records.led, plan)
        voters = [node.voter for node in self.nodes if node.voter is not None]
        if records.elected is not None:
            await settle_store(voters, records.elected, plan)
            await settle_log([node.log for node in self.nodes if node.log is not None], records.log)


def run_plan(plan: Plan) -> Report:
    """Run a plan; whatever goes wrong is part of the report."""
    records = Records(plan)
    swarms: list[Swarm] = []

    async def main(simulation: Simulation) -> None:
        swarms.append(Swarm(simulation, plan, records))
        await swarms[0].main()

    logger = logger_of("peermesh")
    propagates = logger.propagate
    logger.addHandler(records)
    logger.propagate = False
    try:
        result = run(plan.seed, main)
    finally:
        logger.removeHandler(records)
        logger.propagate = propagates
    failure = _words(result.error)
    return Report(
        seed=plan.seed,
        members=len(plan.members),
        faults=len(plan.faults),
        published=records.messages.published,
        delivered=records.messages.delivered,
        applied=records.applied,
        appended=records.log.acknowledged,
        successions=records.successions,
        is_grouped=plan.groups is not None,
        healing_seconds=swarms[0].healing_seconds if swarms else 0.0,
        virtual_seconds=swarms[0].seconds if swarms else 0.0,
        steps=result.steps,
        digest=result.digest,
        failure=failure,
        kind=failure.partition(":")[0],
    )


def run_seed(seed: int) -> Report:
    """Draw the plan of a seed, and run it."""
    return run_plan(draw(Random(f"{seed}/plan"), seed))


def _words(error: BaseException | None) -> str:
    if error is None:
        return ""
    if isinstance(error, BaseExceptionGroup):
        return _words(error.exceptions[0])
    cause = f" (because of {error.__cause__!r})" if error.__cause__ is not None else ""
    return f"{type(error).__name__}: {error}{cause}"
