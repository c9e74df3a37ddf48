"""A cluster: named nodes in a shape, in one of several worlds, with faults and barriers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import trio

from endpoint.flight import FlightRecorder
from endpoint.outcome import Outcome
from endpoint.shielding import shielded
from endpoint.surroundings import surroundings
from handshake.private_files import make_directory
from peermesh.testing import shapes
from peermesh.testing.disks import DiskFault
from peermesh.testing.faults import Direction, LinkFault, Partition, Unsupported
from peermesh.testing.handles import Held, NodeDown
from peermesh.testing.leaks import LeakError, task_names
from peermesh.testing.node import Node, NodeState
from peermesh.testing.nurseries import open_quiet_nursery, run_all
from peermesh.testing.report import NodeFacts, Snapshot
from peermesh.testing.shapes import UnknownShape
from peermesh.testing.time_limits import limit
from peermesh.testing.view import View, missing
from peermesh.testing.worlds import world_class
from peermesh.testing.worlds.world import LinkControl, World
from wire.addresses import join_address
from wire.errors import MeshError
from wire.identifiers import EndpointId
from wire.values import Count

CONVERGED_SECONDS: Final = 30.0
"""How long ``await_converged`` waits on an idle machine if a test does not say."""

RETRY_SECONDS: Final = 0.5
"""The longest pause between two attempts to dial: in a test nobody wants to wait for ten."""

CLOSE_SECONDS: Final = 120.0
"""How long all nodes may take to close. Each has limits of its own: this is a net below them."""

LAST_TASKS_SECONDS: Final = 10.0
"""How long the tasks of a cluster that is closed may take to end on an idle machine."""

LAST_LOOK_SECONDS: Final = 2.0
"""How long the report at the end may ask a node that does not answer, on an idle machine."""

_OPPOSITE: Final = {
    Direction.FORTH: Direction.BACK,
    Direction.BACK: Direction.FORTH,
    Direction.BOTH: Direction.BOTH,
}


class NotConverged(MeshError):
    """The nodes of a cluster do not agree in time. The text says about what."""


class Wire:
    """One link of a cluster, and what is done to it; ``Link`` is how an end sees it."""

    def __init__(
        self, dials: Node, listens: Node, control: LinkControl, address: tuple[str, int]
    ) -> None:
        self.dials = dials
        self.listens = listens
        self.control = control
        self.address = address
        self.faults: list[tuple[LinkFault, Direction]] = []

    @property
    def is_cut(self) -> bool:
        """Tell whether nothing gets through, in one direction at least."""
        return any(isinstance(fault, Partition) for fault, _ in self.faults)

    @property
    def ends(self) -> tuple[str, str]:
        """Name who dials, and who listens."""
        return (self.dials.name, self.listens.name)


class Link:
    """The link between two nodes, seen from the one that was named first."""

    def __init__(self, cluster: Cluster, wire: Wire, *, is_reversed: bool) -> None:
        """Use ``Cluster.link``."""
        self._cluster = cluster
        self._wire = wire
        self._is_reversed = is_reversed

    async def apply(self, fault: LinkFault, *, direction: Direction = Direction.BOTH) -> None:
        """Have a fault stand from now on; ``FORTH`` is away from the node named first.

        Raises ``Unsupported`` where the world cannot do it, which skips a test.
        """
        await self._cluster.fault(self._wire, fault, self._way(direction))

    async def heal(self, *, direction: Direction = Direction.BOTH) -> None:
        """Let no fault stand."""
        await self._cluster.mend(self._wire, self._way(direction))

    def _way(self, direction: Direction) -> Direction:
        return _OPPOSITE[direction] if self._is_reversed else direction


class Cluster:
    """Named nodes: ``cluster["a"]``, or ``a, b, c = cluster``. Made by ``open_cluster``."""

    def __init__(
        self, world: World, directory: Path, settings: Mapping[str, object], *, direct: bool
    ) -> None:
        """Begin without nodes."""
        self.world_name = world.name
        self.journal = FlightRecorder(surroundings.get().new_id())
        self.snapshot: Snapshot | None = None
        """What there was to see at the end; for the report."""
        self._world = world
        self._directory = directory
        self._settings = settings
        self._direct = direct
        self._nodes: dict[str, Node] = {}
        self._wires: dict[frozenset[str], Wire] = {}

    # Nodes.

    def __getitem__(self, name: str) -> Node:
        """Give a node by its name; raises ``KeyError`` that names those that are there."""
        if name not in self._nodes:
            raise KeyError(f"there is no node {name!r}: there are {', '.join(self._nodes)}")
        return self._nodes[name]

    def __iter__(self) -> Iterator[Node]:
        """Give all nodes in order."""
        return iter(self._nodes.values())

    def __len__(self) -> int:
        """Count the nodes."""
        return len(self._nodes)

    @property
    def nodes(self) -> list[Node]:
        """Give all nodes in order."""
        return list(self._nodes.values())

    async def add(self, name: str, *dials: str) -> Node:
        """Start one more node, and have it dial others."""
        if name in self._nodes:
            raise UnknownShape(f"there is a node {name!r} already")
        directory = self._directory / name
        make_directory(directory)
        asked = (self._world.address(name), 0)
        host, address = await self._world.start(name, directory, asked, self._of(name))
        node = self._nodes[name] = Node(name, host, address, self)
        self._note("start", f"at {join_address(*address)}", node)
        for other in dials:
            await self.connect(name, other)
        return node

    def _of(self, name: str) -> Mapping[str, object]:
        """Give the settings of a node: its endpoint is called as the node is."""
        return {"name": name, **self._settings}

    async def prepare(self, names: Sequence[str]) -> None:
        """Tell the world which nodes there will be."""
        await self._world.prepare(names)

    def sort(self, names: Sequence[str]) -> None:
        """Put the nodes into this order: they were started at once, and are there in any."""
        self._nodes = {name: self._nodes[name] for name in names}

    async def connect(self, dials: str, listens: str) -> None:
        """Have a node dial another one, from now on and whenever the peering is lost."""
        near, far = self[dials], self[listens]
        control, address = await self._world.link(dials, listens, far.address, direct=self._direct)
        wire = Wire(near, far, control, address)
        self._wires[frozenset((dials, listens))] = wire
        self._world.nursery.start_soon(self._dial, wire)

    async def disconnect(self, left: str, right: str) -> None:
        """End the peering of two nodes in order."""
        wire = self._wire(left, right)
        del self._wires[frozenset((left, right))]
        await wire.dials.unpeer(*wire.address)

    async def _dial(self, wire: Wire) -> None:
        # If it is killed meanwhile, it dials anew when it is started again.
        with suppress(MeshError):
            await wire.dials.peer(*wire.address, RETRY_SECONDS)

    # Links and their faults.

    def link(self, left: str, right: str) -> Link:
        """Give the link between two nodes, to break it; ``left`` is its near end."""
        wire = self._wire(left, right)
        return Link(self, wire, is_reversed=wire.dials.name != left)

    def _wire(self, left: str, right: str) -> Wire:
        wire = self._wires.get(frozenset((self[left].name, self[right].name)))
        if wire is None:
            known = ", ".join(f"{each.dials.name}-{each.listens.name}" for each in self.wires())
            raise UnknownShape(f"there is no link {left}-{right}: there are {known or 'none'}")
        return wire

    def wires(self) -> list[Wire]:
        return list(self._wires.values())

    async def fault(self, wire: Wire, fault: LinkFault, direction: Direction) -> None:
        """Have a fault stand on a link; for ``Link``."""
        await wire.control.apply(fault, direction=direction)
        wire.faults.append((fault, direction))
        arrow = {"forth": "->", "back": "<-", "both": "--"}[direction.value]
        self._note("fault", f"{wire.dials.name} {arrow} {wire.listens.name}: {fault}")

    async def mend(self, wire: Wire, direction: Direction) -> None:
        """Heal a link; for ``Link``."""
        await wire.control.heal(direction=direction)
        ways = (direction, Direction.BOTH) if direction is not Direction.BOTH else tuple(Direction)
        wire.faults = [each for each in wire.faults if each[1] not in ways]
        self._note("heal", f"{wire.dials.name} -- {wire.listens.name}")

    async def partition(self, *groups: Collection[str]) -> None:
        """Cut all links between nodes of different groups; who is in none keeps its links."""
        side = {self[name].name: number for number, group in enumerate(groups) for name in group}
        for wire in self.wires():
            near, far = side.get(wire.dials.name), side.get(wire.listens.name)
            if near is not None and far is not None and near != far:
                await self.fault(wire, Partition(), Direction.BOTH)

    async def heal(self) -> None:
        """Heal all links."""
        for wire in self.wires():
            if wire.faults:
                await self.mend(wire, Direction.BOTH)

    # Faults of nodes; see ``Node``.

    async def kill(self, node: Node) -> None:
        """End a node without a word."""
        if node.state is not NodeState.KILLED:
            self._note("kill", "without a word", node)
            node.state = NodeState.KILLED
            node.stores.clear()
            await node.host.kill()

    async def restart(self, node: Node) -> None:
        """Start a node anew."""
        await self.kill(node)
        directory = self._directory / node.name
        host, _ = await self._world.start(node.name, directory, node.address, self._of(node.name))
        host.flight.meet({self.journal.node: self.journal.number})
        node.former.append(node.host)
        node.host, node.state = host, NodeState.RUNNING
        self._note("restart", "at the same address", node)
        for wire in self.wires():
            if wire.dials is node:
                self._world.nursery.start_soon(self._dial, wire)

    async def pause(self, node: Node) -> None:
        """Stop a node."""
        await node.host.pause()
        node.state = NodeState.PAUSED
        self._note("pause", "its connections stay open", node)

    async def resume(self, node: Node) -> None:
        """Let a node go on."""
        await node.host.resume()
        node.state = NodeState.RUNNING
        self._note("resume", "it goes on", node)

    async def skew_clock(self, node: Node, seconds: float) -> None:
        """Set a node's time of day forward, or back."""
        await node.host.skew_clock(seconds)
        self._note("skew_clock", f"by {seconds:+g} s", node)

    async def disturb_disk(self, node: Node, fault: DiskFault) -> None:
        """Have a node's disk fail."""
        await node.host.disturb_disk(fault)
        self._note("fault", f"its disk: {fault}", node)

    async def heal_disk(self, node: Node) -> None:
        """Heal a node's disk."""
        await node.host.heal_disk()
        self._note("heal", "its disk", node)

    def _note(self, kind: str, text: str, about: Node | None = None) -> None:
        node_id = None if about is None else about.node_id()
        self.journal.note(trio.current_time(), kind, text, node_id)

    # Barriers.

    async def await_converged(self, timeout: float | None = None) -> Outcome:
        """Wait until the running nodes agree about the mesh, and all their stores are idle.

        They agree when every link stands that is not cut, and all whom links connect have heard
        each other's latest word. False after ``timeout`` seconds; the text says what is missing.
        Without a ``timeout`` it is half a minute, or longer while the machine is slow.
        """
        timeout = limit(CONVERGED_SECONDS) if timeout is None else timeout
        deadline = trio.current_time() + timeout
        # Attaching and closing stores is news, too: so the nodes have to agree once more at last.
        found = await self._disagreement(deadline)
        found = found or await self._busy_stores(deadline)
        found = found or await self._disagreement(deadline)
        text = "the cluster has converged"
        if found:
            cut = [f"{each.dials.name}-{each.listens.name}" for each in self.wires() if each.is_cut]
            hint = [f"the test has cut {', '.join(cut)}"] if cut else []
            lines = [f"the cluster has not converged after {timeout:.3g} s:", *found, *hint]
            text = self.named("\n  ".join(lines))
        self._note("barrier", text)
        return Outcome(reached=not found, reason=text)

    async def _disagreement(self, deadline: float) -> list[str]:
        """Wait until the nodes agree; gives what is missing at the deadline."""
        found = ["the nodes have not answered"]
        with trio.move_on_at(deadline):
            await self._agree(found)
        return found

    async def _agree(self, found: list[str]) -> None:
        """Wait until nothing is missing; what is, is in ``found`` meanwhile."""
        while True:
            views = await self._views()
            edges = [wire for wire in self.wires() if {*wire.ends} <= views.keys()]
            found[:] = missing(
                views,
                [wire.ends for wire in edges if not wire.is_cut],
                loose=[wire.ends for wire in edges if wire.is_cut],
                gone=self._gone(),
            )
            if not found:
                return
            await self._await_change(views)

    def _gone(self) -> dict[EndpointId, str]:
        """Give the endpoints that have ended, with the names of their nodes."""
        ended = [(host, node) for node in self.nodes for host in node.former]
        ended += [(node.host, node) for node in self.nodes if node.state is NodeState.KILLED]
        return {host.node_id: node.name for host, node in ended}

    async def _views(self) -> dict[str, View]:
        views: dict[str, View] = {}

        async def look(node: Node) -> None:
            try:
                views[node.name] = await node.view()
            except NodeDown as error:
                node.state = NodeState.KILLED
                self._note("error", f"ended by itself: {error}", node)

        async with trio.open_nursery() as nursery:
            for node in self.nodes:
                if node.is_running:
                    nursery.start_soon(look, node)
        return {name: views[name] for name in self._nodes if name in views}

    async def _await_change(self, views: Mapping[str, View]) -> None:
        """Wait until one of the nodes sees another mesh than in these views."""
        async with trio.open_nursery() as nursery:

            async def wait(node: Node, view: View) -> None:
                with suppress(MeshError):  # The end of a node is a change, too.
                    await node.call("await_change", Count(view.digest))
                nursery.cancel_scope.cancel()

            for name, view in views.items():
                nursery.start_soon(wait, self[name], view)

    async def _busy_stores(self, deadline: float) -> list[str]:
        """Wait until all stores are idle; gives what is missing at the deadline."""
        missing: list[str] = []

        async def wait(store: Held) -> None:
            timeout = max(0.0, deadline - trio.current_time())
            with trio.move_on_after(timeout + limit(LAST_LOOK_SECONDS)):
                try:
                    outcome = await store.await_idle(timeout)
                except MeshError:
                    return  # It was closed meanwhile, or its node has ended.
                if not outcome:
                    missing.append(f"at {store.node.name}: {outcome}")
                return
            missing.append(f"{store.node.name} does not answer about store {store.name()}")

        async with trio.open_nursery() as nursery:
            for node in self.nodes:
                for store in list(node.stores):
                    nursery.start_soon(wait, store)
        return sorted(missing)

    def named(self, text: str) -> str:
        """Put the names of nodes for their ids."""
        for node in self.nodes:
            for host in (*node.former, node.host):
                text = text.replace(str(host.node_id), node.name)
        return text

    # The end.

    async def close(self) -> None:
        """Look a last time, and end all nodes in order."""
        with shielded("the nodes of a cluster to close", CLOSE_SECONDS):
            self.snapshot = await self.take_snapshot()
            for wire in self.wires():  # Otherwise nodes would wait for those who do not hear them.
                if wire.faults:
                    await wire.control.heal()
            async with trio.open_nursery() as nursery:
                for node in self.nodes:
                    nursery.start_soon(self._close, node)
            self._world.closing.set()

    @staticmethod
    async def _close(node: Node) -> None:
        was_running, node.state = node.is_running, NodeState.KILLED
        await (node.host.close() if was_running else node.host.kill())

    async def take_snapshot(self) -> Snapshot:
        """Look at everything there is to see now, as the report of a failing test shows it."""
        views: dict[str, View] = {}
        with trio.move_on_after(limit(LAST_LOOK_SECONDS)):
            views = await self._views()
        return self._snapshot_of(views)

    def peek(self) -> Snapshot:
        """Look without waiting, at what is in this process: after a test that hangs was stopped."""
        seen = {node.name: node.host.see() for node in self.nodes if node.is_running}
        return self._snapshot_of({name: view for name, view in seen.items() if view is not None})

    def _snapshot_of(self, views: Mapping[str, View]) -> Snapshot:
        return Snapshot(
            world=self.world_name,
            nodes=tuple(_facts(node, views.get(node.name)) for node in self.nodes),
            links=tuple(
                (wire.dials.name, wire.listens.name, tuple(wire.faults)) for wire in self.wires()
            ),
            journal=(self.journal.node, tuple(self.journal.records())),
        )


def _facts(node: Node, view: View | None) -> NodeFacts:
    lives = (*node.former, node.host)
    return NodeFacts(
        name=node.name,
        node_ids=tuple(host.node_id for host in lives),
        address=node.address,
        state=node.state.value,
        view=view,
        logs=tuple(
            tuple(
                replace(record, at=record.at + host.clock_offset)
                for record in host.flight.records()
            )
            for host in lives
        ),
    )


@asynccontextmanager
async def open_cluster(
    nodes: int | Sequence[str] = 3,
    shape: str | Iterable[tuple[str, str]] = "line",
    *,
    world: str = "loopback",
    seed: int = 0,
    directory: Path | None = None,
    direct: bool = False,
    **settings: object,
) -> AsyncIterator[Cluster]:
    """Open a cluster, and wait until it has converged.

    ``async with open_cluster(5, "ring") as cluster: ...``

    ``nodes`` is a number or names; ``shape`` the name of one, or pairs of names. ``seed`` is that
    of chance: the random shape, and what links lose. ``directory`` holds a directory for each node,
    a temporary one if nothing is said. ``direct`` does without the proxies that faults of links
    need. ``settings`` are those of ``Endpoint``, for all nodes.

    Raises ``UnknownShape``, ``Unsupported`` in a world that this machine lacks, ``NotConverged``.
    """
    names = shapes.names(nodes) if isinstance(nodes, int) else tuple(nodes)
    edges = shapes.edges(shape, names, Random(seed))
    kind = world_class(world)
    problem = kind.problem()
    if problem is not None:
        raise Unsupported(world, "run here", problem)
    with ExitStack() as stack:
        root = directory or Path(stack.enter_context(TemporaryDirectory(prefix="peermesh-")))
        async with open_quiet_nursery() as nursery:
            cluster = Cluster(kind(nursery, seed=seed), root, settings, direct=direct)
            try:
                await _grow(cluster, names, edges)
                yield cluster
            finally:
                await cluster.close()
                await await_empty(nursery)


async def _grow(cluster: Cluster, names: Sequence[str], edges: Sequence[tuple[str, str]]) -> None:
    """Start all nodes at once, then link them, and wait until they agree."""
    await cluster.prepare(names)
    await run_all(partial(cluster.add, name) for name in names)
    cluster.sort(names)
    for dials, listens in edges:
        await cluster.connect(dials, listens)
    converged = await cluster.await_converged()
    if not converged:
        raise NotConverged(str(converged))


async def await_empty(nursery: trio.Nursery) -> None:
    """Wait until all tasks of a cluster have ended; raises ``LeakError`` that names the others."""
    with shielded("the last tasks of a cluster to end", limit(LAST_TASKS_SECONDS)):
        while nursery.child_tasks:  # noqa: ASYNC110 - a nursery has no event for its end
            await trio.sleep(LAST_TASKS_SECONDS / 1_000)
    if nursery.child_tasks:
        names = ", ".join(task_names(nursery.child_tasks))
        nursery.cancel_scope.cancel()
        raise LeakError(f"tasks of the cluster did not end: {names}")
